#include "foreshock/base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace foreshock {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(Process, AgreesWithWhatTheSystemSaysOtherwise) {
  const double start = CpuSeconds();
  while (CpuSeconds() < start + 0.1) {
  }
  std::thread([] {}).join();  // a sanitizer starts its own thread beside the first
  const auto before = ReadProcessUsage();
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  EXPECT_GT(before->cpu_seconds, 0.05);
  EXPECT_LE(before->cpu_seconds, CpuSeconds() + 0.02);  // in ticks of 10 ms
  EXPECT_NEAR(before->start_unix_seconds, static_cast<double>(time(nullptr)), 3600);
  EXPECT_LE(before->start_unix_seconds, static_cast<double>(time(nullptr)) + 1);
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(before->max_fds, files.rlim_cur);

  std::vector<char> memory(64 << 20);
  std::memset(memory.data(), 1, memory.size());
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::thread waits([] { usleep(300'000); });
  const auto after = ReadProcessUsage();
  ASSERT_TRUE(after.ok());
  waits.join();
  close(fd);
  EXPECT_GE(after->resident_bytes, before->resident_bytes + (48 << 20));
  EXPECT_GE(after->peak_resident_bytes, after->resident_bytes - (1 << 20));
  EXPECT_GE(after->virtual_bytes, after->resident_bytes);
  EXPECT_EQ(after->threads, before->threads + 1);
  EXPECT_EQ(after->open_fds, before->open_fds + 1);
}

TEST(Process, OthersByTheirNumberAndOneThatIsNotThere) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_TRUE(ReadProcessUsage(child).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto gone = ReadProcessUsage(child);
  EXPECT_EQ(gone.status().code(), Code::kNotFound);
  EXPECT_THAT(gone.status().message(), testing::HasSubstr("/proc/" + std::to_string(child)));
}

}  // namespace
}  // namespace foreshock
