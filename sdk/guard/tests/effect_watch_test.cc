#include "foreshock/sdk/effect_watch.h"

#include <gtest/gtest.h>

#include <optional>

namespace foreshock::sdk {
namespace {

class EffectWatchTest : public ::testing::Test {
 protected:
  EffectWatchTest() {
    LayerSpec layer;
    layer.model_dim = layer.head_dim = 8;
    layer.query_heads = layer.kv_heads = layer.local_query_heads = layer.local_kv_heads = 1;
    layers_.push_back(layer);
    layout_.emplace(layers_);
    slot_.Shape(*layout_);
    watch_.Prepare();
  }
  // A sampled frame of `step`; the effect that it completed.
  std::optional<Effect> Frame(int64_t step, double logit) {
    slot_.Clear();
    slot_.step = step;
    ColumnWriter(*layout_, &slot_, 0, kLogitMax).Set(0, logit, 1);
    std::optional<Effect> done;
    watch_.Observe(*layout_, slot_, [&](const Effect& effect) { done = effect; });
    return done;
  }

  std::vector<LayerSpec> layers_;
  std::optional<FrameLayout> layout_;
  FrameSlot slot_;
  EffectWatch watch_{layers_};
};

TEST_F(EffectWatchTest, ComparesWithTheSampleBefore) {
  EXPECT_FALSE(Frame(1, 100));
  watch_.Start(Effect(), 2);
  EXPECT_FALSE(Frame(2, 5));
  EXPECT_FALSE(Frame(3, 300));  // one odd sample decides nothing
  const std::optional<Effect> done = Frame(4, 6);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->effective);
  EXPECT_EQ(done->before, 100);
  EXPECT_EQ(done->after, 6);
}

// Frames that a device still owed when the action was taken belong to the time before it.
TEST_F(EffectWatchTest, FramesFromBeforeTheActionAreNoSamplesOfIt) {
  EXPECT_FALSE(Frame(1, 100));
  watch_.Start(Effect(), 4);
  EXPECT_FALSE(Frame(2, 200));
  EXPECT_FALSE(Frame(3, 400));
  EXPECT_FALSE(Frame(4, 5));
  EXPECT_FALSE(Frame(5, 5));
  const std::optional<Effect> done = Frame(6, 5);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->effective);
  EXPECT_EQ(done->before, 400);
}

TEST_F(EffectWatchTest, SaysWhenNothingFell) {
  EXPECT_FALSE(Frame(1, 100));
  watch_.Start(Effect(), 2);
  EXPECT_FALSE(Frame(2, 99));
  EXPECT_FALSE(Frame(3, 95));
  const std::optional<Effect> done = Frame(4, 120);
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->effective);
}

}  // namespace
}  // namespace foreshock::sdk
