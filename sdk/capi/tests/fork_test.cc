// T3: a forked child, as data loaders make them, neither hangs nor sends, and the parent goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

TEST(ForkTest, AForkedChildIsInert) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int64_t t = 0; t < 5; ++t) model.Step(run, t);

  const pid_t child = fork();
  if (child == 0) {
    // Statuses only: gtest's asserts would report in the wrong process.
    int wrong = fs_attached(run) != 0;
    for (int64_t t = 5; t < 50; ++t) model.Step(run, t);
    wrong += fs_step_begin(run, 99) != FS_OK;
    wrong += fs_wants_attention(run, 0) != 0;
    fs_action action;
    wrong += fs_action_poll(run, &action) != FS_NONE;
    fs_stats stats;
    fs_stats_init(&stats);
    wrong += fs_get_stats(run, &stats) != FS_OK;
    wrong += std::string(stats.not_recording) != "a forked child";
    wrong += fs_close(run, FS_FINISHED) != FS_OK;
    _exit(wrong);
  }
  ASSERT_GT(child, 0);
  for (int64_t t = 5; t < 20; ++t) model.Step(run, t);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 0);
  EXPECT_EQ(fs_attached(run), 1) << "the parent is not affected";
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);

  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_EQ(recording.frames.size(), 20u);
  EXPECT_EQ(recording.hellos.size(), 1u);
  EXPECT_EQ(recording.goodbyes.size(), 1u);
  EXPECT_TRUE(recording.warnings.empty());
}

// A process that ends by exit() sends what it has and announces no end; its own forked child that exits does
// neither.
TEST(ForkTest, ExitWithoutCloseLosesNothing) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  const pid_t child = fork();
  if (child == 0) {
    fs_options options = TestOptions(address);
    fs_run* run = nullptr;
    ToyModel model;
    if (fs_open(&options, &run) != FS_OK || model.Register(run) != FS_OK) _exit(1);
    for (int64_t t = 0; t < 50; ++t) model.Step(run, t);
    if (fork() == 0) exit(0);
    exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_EQ(recording.frames.size(), 50u);
  EXPECT_TRUE(recording.goodbyes.empty());
}

TEST(ForkTest, AChildMayOpenItsOwnRun) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot follow a thread that a forked child starts";
#endif
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk"), own = "file:" + (dir / "child.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  model.Step(run, 0);
  const pid_t child = fork();
  if (child == 0) {
    options.address = own.c_str();
    fs_run* mine = nullptr;
    int wrong = fs_open(&options, &mine) != FS_OK;
    wrong += model.Register(mine) != FS_OK;
    for (int64_t t = 0; t < 3; ++t) model.Step(mine, t);
    wrong += fs_close(mine, FS_FINISHED) != FS_OK;
    _exit(wrong);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  EXPECT_EQ(ReadRecording(dir / "child.fsk").frames.size(), 3u);
  EXPECT_EQ(ReadRecording(dir / "run.fsk").frames.size(), 1u);
}

}  // namespace
}  // namespace foreshock::testing
