#include "foreshock/trainer/data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;

class DataTest : public testing::Test {
 protected:
  DataTest() : folder_(fs::path(testing::TempDir()) / ("trainer_data" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~DataTest() override { fs::remove_all(folder_); }

  void put(const char* name, char letter, std::size_t count = 3000) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << std::string(count, letter);
  }

  fs::path folder_;
  Corpus corpus_;
  std::string error_;
};

TEST_F(DataTest, TakesTextFilesInTheOrderOfTheirPaths) {
  put("b.md", 'b');
  put("a/z.cc", 'a');
  put("a.h", 'h');
  put("picture.png", 'p');
  put(".git/x.txt", 'g');
  put("build-dev/x.cc", 'o');
  ASSERT_TRUE(load_corpus({folder_.string()}, &corpus_, &error_)) << error_;
  EXPECT_EQ(corpus_.files, 3U);
  std::string order;
  for (std::size_t i = 0; i < corpus_.bytes.size(); i += 3000) order += static_cast<char>(corpus_.bytes[i]);
  EXPECT_EQ(order, "ahb");
}

TEST_F(DataTest, SaysWhichPathIsMissing) {
  EXPECT_FALSE(load_corpus({(folder_ / "nowhere").string()}, &corpus_, &error_));
  EXPECT_NE(error_.find("nowhere"), std::string::npos);
}

TEST_F(DataTest, RefusesTooLittleText) {
  put("a.h", 'h', 100);
  EXPECT_FALSE(load_corpus({folder_.string()}, &corpus_, &error_));
  EXPECT_NE(error_.find("100 bytes"), std::string::npos) << error_;
}

TEST_F(DataTest, TargetsAreTheInputsOneByteLater) {
  for (int i = 0; i < 4096; ++i) corpus_.bytes.push_back(static_cast<unsigned char>(i * 7 % 251));
  Sampler sampler(corpus_, 3, 16, 1);
  std::set<int> starts;
  for (int draw = 0; draw < 10; ++draw) {
    sampler.draw();
    for (int i = 0; i < 3 * 16; ++i) {
      EXPECT_EQ(sampler.targets()[i], (sampler.inputs()[i] + 7) % 251);
      if (i % 16 == 0) starts.insert(sampler.inputs()[i]);
    }
  }
  EXPECT_GT(starts.size(), 20U);
}

TEST_F(DataTest, StateContinuesTheDraws) {
  for (int i = 0; i < 4096; ++i) corpus_.bytes.push_back(static_cast<unsigned char>(i * i % 251));
  Sampler a(corpus_, 2, 16, 1);
  a.draw();
  Sampler b(corpus_, 2, 16, 9);
  b.set_state(a.state());
  a.draw();
  b.draw();
  EXPECT_TRUE(std::equal(a.inputs(), a.inputs() + 32, b.inputs()));
}

}  // namespace
}  // namespace foreshock::trainer
