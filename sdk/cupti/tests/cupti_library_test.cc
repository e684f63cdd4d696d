// The library as a trainer loads it, on a machine where it cannot measure: it says why, and nothing else
// happens.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

std::string ReportOf(const char* cupti, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("FORESHOCK_CUPTI_FILE", path.c_str(), 1);
    setenv("FORESHOCK_CUPTI_LIBRARY", cupti, 1);
    void* library = dlopen(CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) _exit(10);
    const auto inject = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
    const auto start = reinterpret_cast<int (*)()>(dlsym(library, "fs_cupti_start"));
    const auto end = reinterpret_cast<void (*)()>(dlsym(library, "fs_cupti_end"));
    if (inject() != 1) _exit(11);
    if (start() != 0) _exit(12);
    end();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(CuptiLibrary, WithoutCuptiItSaysSo) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fs-cupti-" + std::to_string(getpid()) + ".json")).string();
  EXPECT_NE(ReportOf("libno-cupti-here.so", path).find(R"({"reason":"CUPTI is not there)"),
            std::string::npos);
  EXPECT_NE(ReportOf("libdl.so.2", path).find("lacks calls"), std::string::npos) << "some other library";
  std::filesystem::remove(path);
}

// CUPTI 13.2 ends the process there.
TEST(CuptiLibrary, WithoutADriverCuptiIsNotAsked) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) GTEST_SKIP() << "there is a driver";
  const std::string path =
      (std::filesystem::temp_directory_path() / ("fs-cupti-" + std::to_string(getpid()) + ".json")).string();
  EXPECT_NE(ReportOf(FAKE_CUPTI, path).find(R"({"reason":"no NVIDIA driver)"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(CuptiLibrary, ADeviceIsWrittenAndNotReplaced) {
  ReportOf("libno-cupti-here.so", "/dev/null");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(CuptiLibrary, AFileThatCannotBeWrittenIsToldOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ReportOf("libno-cupti-here.so", "/nonexistent/times.json"), "");
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("cannot be written to /nonexistent/times.json: No such file");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("cannot be written", first + 1), std::string::npos)
      << "written at the start and at the end";
}

}  // namespace
