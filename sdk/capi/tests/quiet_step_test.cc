// After warm-up a step neither allocates nor frees, sampled or not. malloc and its kin are counted for the
// whole process, on the thread that calls the C interface. Not built under sanitizers, which own malloc.
#include <gtest/gtest.h>

#include <atomic>

#include "allocation_counter.h"
#include "recording_support.h"
#include "toy_model.h"

extern "C" {
void __libc_free(void*);

void free(void* p) {
  foreshock::testing::CountAllocatorCall();
  __libc_free(p);
}
}

namespace foreshock::testing {
namespace {

// Counts over one step; the toy model's own step allocates nothing.
int64_t CallsIn(ToyModel& model, fs_run* run, int64_t t) {
  allocator_calls = 0;
  counting = true;
  model.Step(run, t);
  counting = false;
  return allocator_calls;
}

TEST(QuietStepTest, TheCounterSeesAllocations) {
  allocator_calls = 0;
  counting = true;
  std::string* text = new std::string(1000, 'x');
  counting = false;
  EXPECT_GE(allocator_calls, 2);
  delete text;
}

TEST(QuietStepTest, NoAllocationAfterWarmUpOverAFile) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyShape shape;
  shape.dim = 16;  // the guard takes scale * head_dim of 4 and more
  ToyModel model(shape);
  ASSERT_EQ(model.Register(run), FS_OK);
  ASSERT_EQ(fs_guard_enable(run, nullptr), FS_OK);
  for (int64_t t = 0; t <= 10; ++t) model.Step(run, t);  // two sampled steps
  int64_t sampled = 0, other = 0;
  for (int64_t t = 11; t <= 120; ++t) (t % 10 == 0 ? sampled : other) += CallsIn(model, run, t);
  EXPECT_EQ(sampled, 0);
  EXPECT_EQ(other, 0);
  fs_action action;
  allocator_calls = 0;
  counting = true;
  EXPECT_EQ(fs_action_poll(run, &action), FS_NONE);
  fs_event(run, FS_EVENT_CHECKPOINT, 120, "ckpt/120");
  fs_step_begin(run, 121);
  fs_step_skipped(run);
  fs_step_end(run);
  counting = false;
  EXPECT_EQ(allocator_calls, 0);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  EXPECT_EQ(ReadRecording(dir / "run.fsk").frames.size(), 122u);
}

TEST(QuietStepTest, NoAllocationWhileNothingListens) {
  const std::string address = "unix:/nonexistent/foreshock.sock";
  fs_options options = TestOptions(address);
  options.queue_frames = 4;
  options.window_bytes = 4096;
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int64_t t = 0; t <= 10; ++t) model.Step(run, t);
  int64_t all = 0;
  for (int64_t t = 11; t <= 200; ++t) all += CallsIn(model, run, t);
  EXPECT_EQ(all, 0);
  fs_stats stats;
  fs_stats_init(&stats);
  fs_get_stats(run, &stats);
  EXPECT_EQ(stats.steps, 201u);
  EXPECT_EQ(stats.connected, 0u);
  EXPECT_NE(std::string(stats.not_recording).find("/nonexistent/foreshock.sock"), std::string::npos);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
}

// H10: a grad-disabled forward leaves nothing behind.
TEST(QuietStepTest, TenThousandForwardsWithoutGradientLeaveNoMemory) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  fs_options options = TestOptions(address);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ToyModel model;
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int64_t t = 0; t <= 10; ++t) model.Step(run, t);
  fs_step_begin(run, 20);
  fs_attention a = model.Attention();
  a.grad_enabled = 0;
  allocator_calls = 0;
  counting = true;
  for (int i = 0; i < 10'000; ++i) fs_attention_forward(run, 0, &a);
  counting = false;
  EXPECT_EQ(allocator_calls, 0);
  EXPECT_EQ(fs_wants_attention(run, 0), 1);
  fs_close(run, FS_FINISHED);
}

}  // namespace
}  // namespace foreshock::testing
