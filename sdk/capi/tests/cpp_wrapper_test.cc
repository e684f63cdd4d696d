// The C++ layer, used as its header's example uses it.
#include <gtest/gtest.h>

#include "foreshock/base/catalogue.h"
#include "foreshock/foreshock.hpp"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

TEST(CppWrapperTest, AWholeRun) {
  TempDir dir;
  const std::string address = "file:" + (dir / "run.fsk");
  ToyModel model;
  {
    Options options;
    options.Run("cpp").Address(address.c_str()).Budget(1).Allow("checkpoint");
    foreshock::Run run(options);
    ASSERT_EQ(run.open_status(), FS_OK);
    ASSERT_TRUE(run.attached());
    for (uint32_t l = 0; l < 2; ++l) {
      ASSERT_EQ(run.AddLayer(foreshock::Layer(l, 4, 8).KvHeads(2).Weights(
                    24, LinearWeights(model.wq[l].data(), FS_FP32, 24, 8, 0.1),
                    LinearWeights(model.wk[l].data(), FS_FP32, 24, 8, 0.1))),
                FS_OK)
          << run.last_error();
    }
    EXPECT_EQ(run.EnableGuard(), FS_ERR_UNSUPPORTED);
    EXPECT_TRUE(run.GuardState().empty());
    for (int64_t t = 0; t < 11; ++t) {
      Step step(run, t);
      EXPECT_EQ(step.Forward(0, [&](fs_attention& a) { a = model.Attention(); }), FS_OK);
      EXPECT_EQ(step.Backward(0, [&](fs_attention& a) { a = model.WithGradients(); }), FS_OK);
      step.Loss(2, 24);
      step.LearningRate(1e-3);
      model.Move();
    }
    run.PollActions([](const fs_action&) { return true; });
    EXPECT_EQ(run.Stats().steps, 11u);
    foreshock::Run moved = std::move(run);
    EXPECT_FALSE(run.attached());
    EXPECT_TRUE(moved.attached());
  }
  const Recording recording = ReadRecording(dir / "run.fsk");
  EXPECT_EQ(recording.frames.size(), 11u);
  EXPECT_NE(recording.Step(10)->Find(kDeltaError, 0), nullptr);
  ASSERT_EQ(recording.goodbyes.size(), 1u);
  EXPECT_EQ(recording.goodbyes[0].status, wire::GoodbyeStatus::kStopped) << "closed by the destructor";
}

TEST(CppWrapperTest, AnEmptyRunIsFree) {
  foreshock::Run run;
  EXPECT_FALSE(run.attached());
  Step step(run, 0);
  EXPECT_EQ(step.Loss(1, 1), FS_OK);
}

}  // namespace
}  // namespace foreshock::testing
