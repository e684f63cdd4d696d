// libforeshock.so exports fs_* and nothing else, and needs nothing but the C and C++ runtime.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

namespace foreshock::testing {
namespace {

std::string Output(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char bytes[4096];
  while (const size_t n = fread(bytes, 1, sizeof bytes, pipe)) out.append(bytes, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

TEST(LibraryTest, ExportsOnlyFs) {
  std::istringstream lines(Output("nm -D --defined-only '" FORESHOCK_LIBRARY "'"));
  std::string address, type, name;
  int count = 0;
  while (lines >> address >> type >> name) {
    EXPECT_EQ(name.substr(0, 3), "fs_") << name;
    ++count;
  }
  EXPECT_GE(count, 40);
}

TEST(LibraryTest, NeedsOnlyTheRuntime) {
  std::istringstream lines(Output("readelf -d '" FORESHOCK_LIBRARY "'"));
  const std::set<std::string> allowed = {"libc.so.6",
                                         "libm.so.6",
                                         "libstdc++.so.6",
                                         "libgcc_s.so.1",
                                         "ld-linux-x86-64.so.2",
                                         "ld-linux-aarch64.so.1"};
  std::string line;
  int needed = 0;
  while (std::getline(lines, line)) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    const size_t open = line.find('['), close = line.find(']');
    ASSERT_NE(open, std::string::npos);
    const std::string library = line.substr(open + 1, close - open - 1);
    EXPECT_TRUE(allowed.count(library)) << library;
    ++needed;
  }
  EXPECT_GE(needed, 1);
}

}  // namespace
}  // namespace foreshock::testing
