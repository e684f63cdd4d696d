// The trainer as a program, watched by Foreshock through libforeshock.so.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace foreshock::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

class RunTest : public testing::Test {
 protected:
  RunTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        fs::path(testing::TempDir()) / (std::string("run_") + info->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream text(folder_ / "text.md");
    for (int i = 0; i < 2000; ++i)
      text << "line " << i * i % 977 << " of a text that repeats with a difference\n";
  }
  ~RunTest() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  // Runs the trainer on the small text; `before` stands in front of its path (environment, strace).
  int train(const std::string& arguments, const std::string& before = "") {
    const std::string command = before + " '" TRAINER "' --data '" + path("text.md") + "' " + arguments +
                                " >'" + path("out") + "' 2>'" + path("err") + "'";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string read(const char* name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::vector<json> lines(const char* name) const {
    std::ifstream in(path(name));
    std::vector<json> found;
    for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
    return found;
  }

  // Values of a per-head signal, [layer][head], in the samples from `first` on.
  static std::vector<json> samples(const std::vector<json>& recording, const char* signal, int first) {
    std::vector<json> found;
    for (const json& line : recording) {
      if (line.contains("step") && line["step"] >= first && line.contains(signal))
        found.push_back(line[signal]);
    }
    return found;
  }

  static double mean(const std::vector<json>& values, std::size_t layer, std::size_t head) {
    double total = 0;
    for (const json& value : values) total += value.at(layer).at(head).get<double>();
    return total / static_cast<double>(values.size());
  }

  fs::path folder_;
};

TEST_F(RunTest, AFaultOfDeltaIsMeasuredWhereItIsAndAsLargeAsItIs) {
  ASSERT_EQ(train("--steps 80 --sample-every 5 --fault delta:0.1 --fault-step 40 --fault-head 1.2 "
                  "--row-every 1 --foreshock 'file:" +
                  path("r.jsonl") + "'"),
            0)
      << read("err");
  const auto after = samples(lines("r.jsonl"), "delta_error", 40);
  ASSERT_GE(after.size(), 5U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t head = 0; head < 4; ++head) {
      const double expected = layer == 1 && head == 2 ? 0.1 : 0;
      EXPECT_TRUE(std::abs(mean(after, layer, head) - expected) <= 0.02)
          << layer << "." << head << ": " << mean(after, layer, head);
    }
  }
}

TEST_F(RunTest, AFaultOfTheOutputIsMeasuredInUlp) {
  ASSERT_EQ(train("--steps 40 --sample-every 5 --fault output:8 --fault-step 10 --fault-head 0.3 --row-every "
                  "1 --foreshock 'file:" +
                  path("r.jsonl") + "'"),
            0)
      << read("err");
  const auto recording = lines("r.jsonl");
  const auto after = samples(recording, "output_rounding_bias", 10);
  ASSERT_GE(after.size(), 5U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t head = 0; head < 4; ++head) {
      const double expected = layer == 0 && head == 3 ? 8 : 0;
      EXPECT_TRUE(std::abs(mean(after, layer, head) - expected) <= 0.3)
          << layer << "." << head << ": " << mean(after, layer, head);
    }
  }
}

TEST_F(RunTest, AnInjectedFaultIsToldOnceAtItsFirstStep) {
  ASSERT_EQ(train("--steps 20 --fault delta:0.01 --fault-step 7 --fault-head 1.2 --foreshock 'file:" +
                  path("r.jsonl") + "'"),
            0)
      << read("err");
  std::vector<json> notes;
  for (const json& line : lines("r.jsonl")) {
    if (line.value("event", "") == "note") notes.push_back(line);
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0]["step"], 7);
  EXPECT_EQ(notes[0]["detail"], "fault delta:0.01 in layer 1, head 2");
}

TEST_F(RunTest, BeingWatchedChangesNoBitOfTraining) {
  const std::string common = "--steps 30 --jsonl --checkpoint-every 30 --checkpoint-dir ";
  ASSERT_EQ(train(common + path("plain")), 0) << read("err");
  ASSERT_EQ(train(common + path("watched") + " --foreshock 'file:" + path("r.jsonl") + "'"), 0)
      << read("err");
  const auto bytes = [&](const char* name) {
    std::ifstream in(path(name), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  EXPECT_FALSE(bytes("plain/step-30.ckpt").empty());
  EXPECT_TRUE(bytes("plain/step-30.ckpt") == bytes("watched/step-30.ckpt"));
}

TEST_F(RunTest, TrainsOnWhateverTheAddressIsWorth) {
  for (const std::string& address : {"unix:" + path("nobody.sock"), "file:" + path("no/such/folder/r.jsonl"),
                                     std::string("nonsense"), std::string("grpc://127.0.0.1:1")}) {
    EXPECT_EQ(train("--steps 10 --jsonl --foreshock '" + address + "'"), 0) << address << read("err");
    const auto said = lines("out");
    ASSERT_FALSE(said.empty());
    EXPECT_EQ(said.back()["event"], "end") << address;
    EXPECT_FALSE(read("err").empty()) << address << ": says nothing";
  }
}

TEST_F(RunTest, ResumedRunsGoOnWhereTheCheckpointWas) {
  const std::string common =
      "--jsonl --sample-every 1 --checkpoint-every 20 --checkpoint-dir " + path("ckpt");
  ASSERT_EQ(train("--steps 40 " + common), 0) << read("err");
  const auto whole = lines("out");
  fs::remove(path("ckpt/step-40.ckpt"));
  ASSERT_EQ(
      train("--steps 40 --resume " + path("ckpt") + " --foreshock 'file:" + path("r.jsonl") + "' " + common),
      0)
      << read("err");
  std::map<int, double> first, second;
  for (const json& line : whole) {
    if (line.contains("loss") && line["step"] >= 20) first[line["step"]] = line["loss"];
  }
  for (const json& line : lines("out")) {
    if (line.contains("loss")) second[line["step"]] = line["loss"];
  }
  EXPECT_EQ(first.size(), 20U);
  EXPECT_EQ(first, second);
}

TEST_F(RunTest, WrongOptionsEndWithStatusTwoAndMissingFilesWithOne) {
  EXPECT_EQ(train("--no-such-option"), 2);
  EXPECT_NE(read("err").find("--no-such-option"), std::string::npos);
  EXPECT_EQ(train("--steps 1 --resume " + path("nowhere.ckpt")), 1);
  EXPECT_NE(read("err").find("nowhere.ckpt"), std::string::npos);
}

// Between the marks of a step the training thread asks the kernel for nothing, but to wake another thread.
TEST_F(RunTest, AStepMakesNoBlockingSystemCall) {
  if (kSanitized) GTEST_SKIP() << "sanitizers make system calls of their own";
  if (std::system("strace -o /dev/null true >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "strace cannot trace here";
  ASSERT_EQ(train("--steps 100 --quiet --mark-steps --foreshock 'file:" + path("r.jsonl") + "'",
                  "strace -f -o '" + path("trace") + "'"),
            0)
      << read("err");
  std::ifstream in(path("trace"));
  std::string line;
  std::string thread;
  int step = -1;
  int checked = 0;
  const std::regex begin(R"(write\(-1, "step begin (\d+)\")");
  while (std::getline(in, line)) {
    const std::string pid = line.substr(0, line.find(' '));
    if (thread.empty()) thread = pid;
    if (pid != thread) continue;
    std::smatch match;
    if (std::regex_search(line, match, begin)) {
      step = std::stoi(match[1]);
    } else if (line.find("write(-1, \"step end") != std::string::npos) {
      checked += step >= 30 ? 1 : 0;
      step = -1;
    } else if (step >= 30 && line.find(" resumed>") == std::string::npos) {
      // After the second sampled step, with some room. "resumed" ends a call whose beginning was looked at.
      const bool wakes =
          line.find("futex(") != std::string::npos && line.find("FUTEX_WAKE") != std::string::npos;
      const bool clock = line.find("clock_gettime(") != std::string::npos;
      EXPECT_TRUE(wakes || clock) << "step " << step << ": " << line;
    }
  }
  EXPECT_EQ(checked, 70);
}

TEST_F(RunTest, AStepAllocatesNothing) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have their own malloc";
  ASSERT_EQ(train("--steps 100 --quiet --mark-steps --foreshock 'file:" + path("r.jsonl") + "'",
                  "LD_PRELOAD='" ALLOCATION_WATCH "'"),
            0)
      << read("err");
  std::istringstream in(read("err"));
  const std::regex pattern(R"(step end (\d+) allocations (\d+))");
  int checked = 0;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, pattern) || std::stoi(match[1]) < 30) continue;
    EXPECT_EQ(match[2], "0") << line;
    ++checked;
  }
  EXPECT_EQ(checked, 70);
}

}  // namespace
}  // namespace foreshock::trainer
