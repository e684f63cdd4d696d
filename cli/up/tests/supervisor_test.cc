#include "foreshock/cli/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "foreshock/cli/up.h"

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foreshock-up-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  ChildSpec Shell(const std::string& name, const std::string& script) const {
    return {name, {"/bin/sh", "-c", script}, Path(name + ".ready")};
  }
  // A child that is ready at once, waits for SIGTERM and leaves a line in `order` when it ends.
  ChildSpec Good(const std::string& name) const {
    return Shell(name, "trap 'echo " + name + " >> " + Path("order") + "; exit 0' TERM; echo $$ > " +
                           Path(name + ".pid") + "; : > " + Path(name + ".ready") +
                           "; while :; do sleep 0.01; done");
  }
  pid_t PidOf(const std::string& name) const {
    std::ifstream in(Path(name + ".pid"));
    pid_t pid = 0;
    in >> pid;
    return pid;
  }

  std::string folder_;
  std::ostringstream log_;
};

TEST_F(SupervisorTest, StopsInReverseOrderOfStart) {
  Supervisor supervisor({}, log_);
  ASSERT_TRUE(supervisor.Start(Good("server")).ok());
  ASSERT_TRUE(supervisor.Start(Good("agent")).ok());
  supervisor.Stop();
  std::ifstream in(Path("order"));
  std::stringstream order;
  order << in.rdbuf();
  EXPECT_EQ(order.str(), "agent\nserver\n");
}

TEST_F(SupervisorTest, AProgramThatIsNotThere) {
  Supervisor supervisor({}, log_);
  const Status status = supervisor.Start({"agent", {"/no/such/program"}, Path("r")});
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/program: No such file"));
}

TEST_F(SupervisorTest, AChildThatEndsBeforeItIsReady) {
  Supervisor supervisor({}, log_);
  const Status status = supervisor.Start(Shell("server", "exit 7"));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("server"));
  EXPECT_THAT(status.message(), HasSubstr("exited with status 7"));
}

TEST_F(SupervisorTest, AReadyFileOfAnEarlierLifeDoesNotCount) {
  std::ofstream(Path("server.ready")) << "old";
  Supervisor supervisor({}, log_);
  EXPECT_FALSE(supervisor.Start(Shell("server", "exit 0")).ok());
}

TEST_F(SupervisorTest, WaitTellsWhichChildEnded) {
  Supervisor supervisor({}, log_);
  ASSERT_TRUE(supervisor.Start(Good("server")).ok());
  ASSERT_TRUE(supervisor.Start(Good("agent")).ok());
  kill(PidOf("agent"), SIGKILL);
  const Status status = supervisor.Wait();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("agent"));
  EXPECT_THAT(status.message(), HasSubstr("signal 9"));
}

TEST_F(SupervisorTest, ASignalEndsTheWait) {
  Supervisor supervisor({}, log_);
  ASSERT_TRUE(supervisor.Start(Good("server")).ok());
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(supervisor.Wait().ok());
}

TEST_F(SupervisorTest, AChildThatWillNotStopIsKilled) {
  Supervisor supervisor({.stop_timeout = std::chrono::milliseconds(50)}, log_);
  ASSERT_TRUE(supervisor
                  .Start(Shell("stubborn", "trap '' TERM; : > " + Path("stubborn.ready") +
                                               "; while :; do sleep 0.01; done"))
                  .ok());
  supervisor.Stop();
  EXPECT_THAT(log_.str(), HasSubstr("stubborn"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

TEST(DefaultDataFolder, InOrder) {
  EXPECT_EQ(DefaultDataFolder("/x", "/home/a"), "/x/foreshock");
  EXPECT_EQ(DefaultDataFolder("", "/home/a"), "/home/a/.local/share/foreshock");
  EXPECT_EQ(DefaultDataFolder(nullptr, nullptr), "./foreshock-data");
}

}  // namespace
}  // namespace foreshock::cli
