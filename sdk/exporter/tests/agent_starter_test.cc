#include "agent_starter.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace foreshock::sdk {
namespace {

// False below qemu-user, whose vfork is a fork: posix_spawn then says that a program which is not there was
// started.
bool SpawnTellsOfMissingPrograms() {
  char none[] = "/none";
  char* argv[] = {none, nullptr};
  pid_t pid = 0;
  return posix_spawn(&pid, none, nullptr, nullptr, argv, environ) == ENOENT;
}

class AgentStarterTest : public ::testing::Test {
 protected:
  AgentStarterTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foreshock.XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
  }
  ~AgentStarterTest() override { std::filesystem::remove_all(dir_); }

  // A program that writes down what it was given and ends.
  std::string Script(const std::string& body) {
    const std::string path = dir_ + "/agent";
    std::ofstream(path) << "#!/bin/sh\n" << body;
    chmod(path.c_str(), 0700);
    return path;
  }
  std::string WaitForFile(const std::string& name) {
    for (int i = 0; i < 4000; ++i) {
      std::ifstream in(dir_ + "/" + name);
      std::string text((std::istreambuf_iterator<char>(in)), {});
      if (!text.empty() && text.back() == '\n') return text;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "";
  }

  std::string dir_;
};

TEST_F(AgentStarterTest, StartsInItsOwnSessionWithArgumentsAndNoDescriptors) {
  // A descriptor without close-on-exec that must not leak.
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int leaky = fcntl(null, F_DUPFD, 57);
  ASSERT_EQ(leaky, 57);
  const std::string script =
      Script("{ echo \"$@\"; ps -o sid= -p $$ | tr -d ' '; ls /proc/$$/fd | tr '\\n' ' '; echo; } > " + dir_ +
             "/out.tmp; mv " + dir_ + "/out.tmp " + dir_ + "/out\n");
  AgentStarter starter({true, script, {"--server", "h:1"}});
  ASSERT_TRUE(starter.Start(dir_ + "/s.sock").ok());
  const std::string text = WaitForFile("out");
  close(leaky);
  close(null);
  std::istringstream lines(text);
  std::string arguments, session, fds;
  std::getline(lines, arguments);
  std::getline(lines, session);
  std::getline(lines, fds);
  EXPECT_EQ(arguments, "--listen unix:" + dir_ + "/s.sock --server h:1");
  if (!session.empty()) {
    EXPECT_NE(session, std::to_string(getsid(0)));
  }
  EXPECT_EQ((" " + fds).find(" 57 "), std::string::npos) << fds;
}

TEST_F(AgentStarterTest, OneOfSeveralProcessesStartsIt) {
  const std::string script = Script("exec sleep 30\n");
  const std::string socket = dir_ + "/s.sock";
  const int held = open((socket + ".start.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0660);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  AgentStarter second({true, dir_ + "/not-there", {}});
  EXPECT_TRUE(second.Start(socket).ok())
      << "another one is starting it, so the missing program is not even tried";
  close(held);
  if (!SpawnTellsOfMissingPrograms()) GTEST_SKIP() << "this system's posix_spawn does not tell";
  EXPECT_FALSE(second.Start(socket).ok());
}

TEST_F(AgentStarterTest, SaysWhyItCannot) {
  EXPECT_EQ(AgentStarter({false, "/bin/true", {}}).Start(dir_ + "/s").code(), Code::kFailedPrecondition);
  EXPECT_EQ(AgentStarter({true, "agent", {}}).Start(dir_ + "/s").code(), Code::kInvalidArgument);
  if (!SpawnTellsOfMissingPrograms()) GTEST_SKIP() << "this system's posix_spawn does not tell";
  const Status missing = AgentStarter({true, dir_ + "/none", {}}).Start(dir_ + "/s");
  EXPECT_NE(missing.message().find("No such file"), std::string::npos) << missing.ToString();
}

}  // namespace
}  // namespace foreshock::sdk
