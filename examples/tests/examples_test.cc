// Runs the examples as a user does and reads the recordings they leave.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace foreshock {
namespace {

namespace fs = std::filesystem;

class Example : public testing::TestWithParam<const char*> {
 protected:
  Example() : folder_(fs::path(testing::TempDir()) / ("example" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Example() override { fs::remove_all(folder_); }

  // Standard output and error of the example, which must exit with 0.
  std::string run(const std::string& address) {
    const fs::path log = folder_ / "log";
    const std::string command =
        "FORESHOCK_ADDR='" + address + "' " EMULATOR " '" + GetParam() + "' >'" + log.string() + "' 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
    std::ifstream in(log);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  static std::vector<std::string> lines(const fs::path& path) {
    std::ifstream in(path);
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  }

  fs::path folder_;
};

TEST_P(Example, LearnsAndIsRecorded) {
  const fs::path recording = folder_ / "run.jsonl";
  const std::string said = run("file:" + recording.string());
  EXPECT_NE(said.find("1000 steps, loss 0.1"), std::string::npos) << said;
  const auto found = lines(recording);
  ASSERT_GE(found.size(), 101U) << said;
  EXPECT_NE(found.front().find("\"run\""), std::string::npos) << found.front();
  std::size_t with_heads = 0;
  for (const std::string& line : found) {
    const bool heads = line.find("\"wq_sigma1\"") != std::string::npos &&
                       line.find("\"logit_max\"") != std::string::npos &&
                       line.find("\"output_rounding_bias\"") != std::string::npos;
    with_heads += heads ? 1 : 0;
  }
  EXPECT_GE(with_heads, 99U);  // 1,000 steps, one sample in 10; rounding may begin with the second sample
}

TEST_P(Example, TrainsTheSameWithoutForeshock) {
  const std::string unwatched = run("");
  const std::string watched = run("file:" + (folder_ / "again.jsonl").string());
  EXPECT_NE(unwatched.find("1000 steps, loss 0.1"), std::string::npos) << unwatched;
  EXPECT_NE(watched.find(unwatched.substr(0, unwatched.find('\n'))), std::string::npos) << watched;
}

TEST_P(Example, SaysWhyNothingIsRecordedAndTrainsOn) {
  const std::string said = run("file:" + (folder_ / "no" / "such" / "folder.jsonl").string());
  EXPECT_NE(said.find("1000 steps, loss 0.1"), std::string::npos) << said;
  EXPECT_NE(said.find("folder.jsonl"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Languages, Example, testing::Values(EXAMPLE_C, EXAMPLE_CPP),
                         [](const auto& language) { return language.index == 0 ? "c" : "cpp"; });

}  // namespace
}  // namespace foreshock
