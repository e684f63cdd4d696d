// Recordings in a test's own folder, read back.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "foreshock/foreshock.h"
#include "foreshock/wire/recording.h"

namespace foreshock::testing {

// Removed with its contents at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foreshock.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Recording {
  std::vector<wire::Hello> hellos;
  std::vector<wire::Frame> frames;
  std::vector<wire::Event> events;
  std::vector<wire::Goodbye> goodbyes;
  std::vector<std::string> warnings;

  const wire::Frame* Step(int64_t step) const {
    for (const auto& frame : frames) {
      if (frame.step == step) return &frame;
    }
    return nullptr;
  }
};

inline Recording ReadRecording(const std::string& path) {
  Recording out;
  const auto each = [&out](wire::RecordingItem item) {
    if (auto* hello = std::get_if<wire::Hello>(&item)) out.hellos.push_back(std::move(*hello));
    if (auto* frame = std::get_if<wire::Frame>(&item)) out.frames.push_back(std::move(*frame));
    if (auto* event = std::get_if<wire::Event>(&item)) out.events.push_back(std::move(*event));
    if (auto* goodbye = std::get_if<wire::Goodbye>(&item)) out.goodbyes.push_back(std::move(*goodbye));
  };
  const Status status = wire::ReadFramedRecording(ReadFile(path), each, &out.warnings);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

inline std::vector<std::string>& LoggedLines() {
  static std::vector<std::string> lines;
  return lines;
}

// Options of a test: no budget, so that no interval stretches, and errors kept out of the way.
inline fs_options TestOptions(const std::string& address) {
  fs_options options;
  fs_options_init(&options);
  options.run = "test-run";
  options.attempt = "a1";
  options.address = address.c_str();  // must outlive fs_open
  options.budget = 1;
  options.log = [](void*, fs_log_level, const char*) {};
  return options;
}

}  // namespace foreshock::testing
