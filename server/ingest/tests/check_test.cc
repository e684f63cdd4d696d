#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/ingest/check_frame.h"
#include "foreshock/wire/check.h"

namespace foreshock::ingest {
namespace {

using wire::CheckHello, wire::CheckName;

wire::Hello GoodHello() {
  wire::Hello hello;
  hello.run = "gpt/seed 1 \xC3\xA9";
  hello.incarnation = 7;
  hello.model.layers.resize(2);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    hello.model.layers[layer].layer = layer;
    hello.model.layers[layer].query_heads = 8;
    hello.model.layers[layer].kv_heads = 2;
  }
  return hello;
}

// The message of a Hello that was changed by `change`.
template <typename Change>
std::string Refusal(Change change) {
  wire::Hello hello = GoodHello();
  change(hello);
  const Status status = CheckHello(hello);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.message();
}

TEST(CheckHello, RefusalsNameFieldValueAndLimit) {
  EXPECT_TRUE(CheckHello(GoodHello()).ok());
  EXPECT_EQ(Refusal([](auto& h) { h.run = ""; }), "run: empty");
  EXPECT_EQ(Refusal([](auto& h) { h.run = std::string(310, 'x'); }), "run: 310 bytes, at most 200");
  EXPECT_EQ(Refusal([](auto& h) { h.run = "/etc"; }), "run: '/etc' begins with '/'");
  EXPECT_EQ(Refusal([](auto& h) { h.run = "a\nb"; }), "run: byte 10 at position 1, must be printable UTF-8");
  EXPECT_EQ(Refusal([](auto& h) { h.attempt = "a\xFF"; }),
            "attempt: byte 255 at position 1, must be printable UTF-8");
  EXPECT_EQ(Refusal([](auto& h) { h.wire_version = 2; }), "wire_version: 2, this receiver speaks 1");
  EXPECT_EQ(Refusal([](auto& h) { h.incarnation = 0; }),
            "incarnation: 0, must be a random number other than 0");
  EXPECT_EQ(Refusal([](auto& h) { h.rank = 1; }), "rank: 1, must be less than world_size, 1");
  EXPECT_EQ(Refusal([](auto& h) { h.world_size = 0; }), "world_size: 0, must be 1 to 1048576");
  EXPECT_EQ(Refusal([](auto& h) { h.model.layers[1].layer = 0; }), "model.layers: layer 0 is there twice");
  EXPECT_EQ(Refusal([](auto& h) { h.model.layers[1].kv_heads = 3; }),
            "model.layers[1].kv_heads: 3, must divide query_heads, 8");
  EXPECT_EQ(Refusal([](auto& h) { h.model.layers[1].kv_heads = 9; }),
            "model.layers[1].kv_heads: 9, at most query_heads, 8");
}

TEST(CheckHello, Utf8IsTakenByItsRules) {
  for (const char* good : {"\xC2\x80", "\xE0\xA0\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(CheckName("run", good).ok());
  }
  for (const char* bad :
       {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC2", "\x80", "\x7F"}) {
    EXPECT_FALSE(CheckName("run", bad).ok());
  }
}

TEST(CheckHeads, AreCountedOverAllLayers) {
  wire::Model model;
  for (uint32_t index = 0; index < 3; ++index) {
    wire::Layer layer;
    layer.layer = index;
    layer.query_heads = 8;
    model.layers.push_back(layer);
  }
  EXPECT_TRUE(CheckHeads(model, 24).ok());
  const Status refused = CheckHeads(model, 23);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(), "model.layers: 24 heads in all, at most 23 (max_heads_per_run)");
  for (wire::Layer& layer : model.layers) layer.query_heads = UINT32_MAX;
  EXPECT_FALSE(CheckHeads(model, 1u << 20).ok()) << "no sum wraps";
}

wire::Frame FrameWith(uint16_t signal, std::optional<uint32_t> layer, std::vector<uint32_t> heads) {
  wire::Series series;
  series.signal = signal;
  series.layer = layer;
  series.values.resize(std::max<size_t>(heads.size(), 1));
  series.heads = std::move(heads);
  wire::Frame frame;
  frame.series.push_back(series);
  return frame;
}

TEST(ModelShape, KnowsLayersAndHeads) {
  const ModelShape shape(GoodHello().model);
  EXPECT_TRUE(shape.Check(FrameWith(kLogitMax, 1, {0, 7})).ok());
  EXPECT_TRUE(shape.Check(FrameWith(kWkSigma1, 1, {1})).ok());
  EXPECT_TRUE(shape.Check(FrameWith(kLoss, std::nullopt, {})).ok());
  EXPECT_TRUE(shape.Check(FrameWith(9'999, 1, {7})).ok()) << "a newer sender's signal";
  EXPECT_EQ(shape.Check(FrameWith(kLogitMax, 2, {0})).message(),
            "series logit_max: layer 2 is not in the Hello's model of 2 layers");
  EXPECT_EQ(shape.Check(FrameWith(kLogitMax, 1, {8})).message(),
            "series logit_max: head 8 of layer 1, must be less than 8");
  EXPECT_EQ(shape.Check(FrameWith(kWkSigma1, 1, {2})).message(),
            "series wk_sigma1: head 2 of layer 1, must be less than 2");
  EXPECT_EQ(shape.Check(FrameWith(kLogitMax, std::nullopt, {0})).message(), "series logit_max: no layer");
  EXPECT_EQ(shape.Check(FrameWith(kLogitMax, 1, {})).message(), "series logit_max: no heads");
  EXPECT_EQ(shape.Check(FrameWith(kLoss, 1, {0})).message(),
            "series loss: has a layer or heads, but it is a scalar");
  wire::Frame frame;
  frame.part = 3;
  frame.parts = 3;
  EXPECT_EQ(shape.Check(frame).message(), "part: 3, must be less than parts, 3");
  frame.seq = 5000;
  frame.parts = 4096;
  EXPECT_TRUE(shape.Check(frame).ok());
  frame.parts = 4097;
  EXPECT_EQ(shape.Check(frame).message(), "parts: 4097, at most 4096");
}

TEST(ModelShape, RowsWeightsAndPartialValues) {
  const ModelShape shape(GoodHello().model);
  wire::Frame frame = FrameWith(kLogitMax, 1, {0});
  frame.series.push_back(frame.series[0]);
  EXPECT_EQ(shape.Check(frame).message(),
            "series logit_max of layer 1: stands there twice, must stand once a frame");
  frame.series[1].layer = 0;
  EXPECT_TRUE(shape.Check(frame).ok());

  frame = FrameWith(kLogitMax, 1, {0});
  frame.series[0].weights = {std::nanf("")};
  EXPECT_EQ(shape.Check(frame).message(), "series logit_max: weights nan, must be finite counts");
  frame = FrameWith(kDeltaOutputBias, 1, {0});
  frame.series[0].weights = {std::nanf("")};  // sum |delta| of a head whose gradients are NaN
  EXPECT_TRUE(shape.Check(frame).ok());

  frame = FrameWith(kLogitMax, 1, {0});
  frame.series[0].flags = wire::kPartial;
  EXPECT_EQ(shape.Check(frame).message(),
            "series logit_max: flags say partial, only update projections can be");
  frame = FrameWith(kUpdateProjection1, 1, {0});
  frame.series[0].flags = wire::kPartial;
  EXPECT_EQ(shape.Check(frame).message(),
            "series update_projection_1: direction_hash missing, partial values need one a head");
  frame.series[0].direction_hash = {7};
  EXPECT_TRUE(shape.Check(frame).ok());

  frame.part = 2;
  frame.parts = 3;
  frame.seq = 2;
  EXPECT_EQ(shape.Check(frame).message(), "part: 2, must be less than seq, 2");
}

TEST(StepGuard, OneWildStepDoesNotBlockWhatFollows) {
  StepGuard guard(999'999'999, 10'000'000, std::nullopt);
  EXPECT_TRUE(guard.Check(1'000).ok());
  EXPECT_FALSE(guard.Check(1'000'000'000).ok());
  EXPECT_FALSE(guard.Check(999'999'999).ok());
  EXPECT_FALSE(guard.Check(-1).ok());
  EXPECT_TRUE(guard.Check(1'001).ok());
  EXPECT_TRUE(guard.Check(200).ok()) << "a resumed process goes back";
}

TEST(StepGuard, AWildFirstStepIsNoticed) {
  StepGuard guard(999'999'999, 10'000'000, std::nullopt);
  EXPECT_TRUE(guard.Check(900'000'000).ok()) << "nobody can know yet";
  EXPECT_FALSE(guard.Check(1).ok());
  EXPECT_FALSE(guard.Check(2).ok());
  for (int64_t step = 3; step < 10; ++step) EXPECT_TRUE(guard.Check(step).ok()) << step;
}

TEST(StepGuard, ScatteredWildStepsAreNeverBelieved) {
  StepGuard guard(999'999'999, 10'000'000, 5);
  for (const int64_t step : {900'000'000, 100'000'000, 500'000'000, 300'000'000}) {
    EXPECT_FALSE(guard.Check(step).ok());
  }
  EXPECT_TRUE(guard.Check(6).ok());
}

}  // namespace
}  // namespace foreshock::ingest
