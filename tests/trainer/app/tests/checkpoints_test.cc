#include "checkpoints.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

TEST(Checkpoints, TheLargestStepOfAFolderIsTaken) {
  const fs::path folder = fs::path(testing::TempDir()) / ("checkpoints" + std::to_string(::getpid()));
  std::string error;
  ASSERT_TRUE(make_checkpoint_folder((folder / "deep").string(), &error)) << error;
  EXPECT_EQ(find_checkpoint(folder.string()), "");
  for (const char* name : {"step-900.ckpt", "step-1000.ckpt", "step-1000.guard", "step-2000.ckpt.tmp",
                           "step-x.ckpt", "step-99999999999999999999.ckpt", "other"}) {
    std::ofstream(folder / name) << "x";
  }
  EXPECT_EQ(find_checkpoint(folder.string()), checkpoint_path(folder.string(), 1000));
  EXPECT_EQ(guard_path(checkpoint_path(folder.string(), 1000)), (folder / "step-1000.guard").string());
  EXPECT_EQ(find_checkpoint((folder / "other").string()), (folder / "other").string());
  EXPECT_FALSE(make_checkpoint_folder((folder / "other" / "x").string(), &error));
  EXPECT_NE(error.find("other/x"), std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace foreshock::trainer
