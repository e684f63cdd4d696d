#include "foreshock/wire/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "foreshock/base/catalogue.h"

namespace foreshock::wire {
namespace {

Series PerHead(uint16_t signal, uint32_t layer, uint32_t heads, float value) {
  Series s;
  s.signal = signal;
  s.layer = layer;
  for (uint32_t h = 0; h < heads; ++h) {
    s.heads.push_back(h);
    s.values.push_back(value + static_cast<float>(h));
  }
  return s;
}

TEST(Codec, FrameSurvivesBitForBit) {
  Frame frame;
  frame.seq = 1;
  frame.step = -5;
  frame.skipped = true;
  Series s = PerHead(kLogitMax, 7, 5, 0);
  s.values = {0.1f, -0.0f, std::bit_cast<float>(0x7fc12345u), std::numeric_limits<float>::denorm_min(),
              3e38f};
  s.weights = {1, 2, 3, 4, 5};
  frame.series = {s};
  const auto back = DecodeFrame(Encode(frame));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->step, -5);
  EXPECT_TRUE(back->skipped);
  ASSERT_EQ(back->series.size(), 1u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(back->series[0].values[i]), std::bit_cast<uint32_t>(s.values[i]));
  }
  EXPECT_EQ(back->series[0].weights, s.weights);
}

TEST(Codec, MissingIsNeitherZeroNorNan) {
  Frame frame;
  Series s = PerHead(kQkSigma1, 0, 3, 1);
  s.present = {0, 1, 0};
  s.weights = {9, 8, 7};
  frame.series = {s};
  const auto back = DecodeFrame(Encode(frame));
  ASSERT_TRUE(back.ok());
  const Series& r = back->series[0];
  EXPECT_FALSE(r.has(0));
  EXPECT_TRUE(r.has(1));
  EXPECT_EQ(r.values[1], 2.f);
  EXPECT_EQ(*r.weight(1), 8.f);
}

TEST(Codec, AllHeadsMissing) {
  Frame frame;
  Series s = PerHead(kQkSigma1, 0, 3, 1);
  s.present = {0, 0, 0};
  frame.series = {s};
  const auto back = DecodeFrame(Encode(frame));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->series[0].count(), 3u);
  EXPECT_FALSE(back->series[0].has(2));
}

TEST(Codec, SizesThatDoNotFitNameTheField) {
  // signal 40, layer 0, first_head 0, head_count 3, but two values.
  std::string series("\x08\x28\x10\x00\x20\x03\x3a\x08", 8);
  series += std::string(8, '\0');
  std::string frame("\x4a", 1);
  frame += static_cast<char>(series.size());
  frame += series;
  const auto result = DecodeFrame(frame);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find("values: 2 entries, expected 3"), std::string::npos)
      << result.status().message();
}

TEST(Codec, HugeHeadCountIsRefusedNotAllocated) {
  const std::string series("\x08\x28\x20\xff\xff\xff\xff\x0f", 8);
  std::string frame("\x4a", 1);
  frame += static_cast<char>(series.size());
  frame += series;
  const auto result = DecodeFrame(frame);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("head_count"), std::string::npos);
}

TEST(Codec, LongRunNameIsRefused) {
  Hello hello;
  hello.run = std::string(300, 'x');
  const auto result = DecodeHello(Encode(hello));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), "run: 300 bytes, at most 200");
}

TEST(Codec, UnknownFieldsAreSkipped) {
  std::string bytes = Encode(Goodbye{1, 2, 3, 0, GoodbyeStatus::kFailed, "x"});
  bytes += std::string("\xf8\x07\x01", 3);  // field 127, varint 1
  const auto back = DecodeGoodbye(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->status, GoodbyeStatus::kFailed);
}

// Found by fuzzing: two layers of defaults alone are one layer twice, for whoever hears of them next, too.
TEST(Codec, MessagesOfDefaultsAloneAreKept) {
  Hello hello;
  hello.model.layers = {Layer{}, Layer{}};
  hello.unmonitored = {Unmonitored{}};
  const auto back = DecodeHello(Encode(hello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->model.layers.size(), 2u);
  EXPECT_EQ(back->unmonitored.size(), 1u);

  Reply reply;
  reply.hello.emplace();
  reply.sampling.emplace();
  reply.error.emplace();
  reply.actions = {Action{}};
  reply.proposals = {Action{}, Action{}};
  const auto answered = DecodeReply(Encode(reply));
  ASSERT_TRUE(answered.ok());
  EXPECT_TRUE(answered->hello.has_value());
  EXPECT_TRUE(answered->sampling.has_value());
  EXPECT_TRUE(answered->error.has_value());
  EXPECT_EQ(answered->actions.size(), 1u);
  EXPECT_EQ(answered->proposals.size(), 2u);
}

TEST(Codec, WithDroppedBeforeReplaces) {
  Frame frame;
  frame.seq = 4;
  frame.dropped_before = 1;
  const auto back = DecodeFrame(WithDroppedBefore(Encode(frame), 9));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->dropped_before, 9u);
  const auto head = PeekHead(WithDroppedBefore(Encode(frame), 9));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->seq, 4u);
  EXPECT_EQ(head->dropped_before, 9u);
}

// CASES T5: a step of 128 layers x 128 heads is split below the receiver's limit and loses nothing.
TEST(Codec, WithoutSeriesKeepsAllElse) {
  Frame frame{1, -2, 3, 4, true, 5, 6, 7, {}};
  const std::string head = Encode(frame);
  frame.series = {PerHead(kLogitMax, 0, 4, 1), PerHead(kLogitMax, 1, 4, 1)};
  ASSERT_NE(Encode(frame), head);
  EXPECT_EQ(Encode(WithoutSeries(frame)), head);
  EXPECT_EQ(frame.series.size(), 2u);
}

TEST(Codec, LargeStepIsSplitBelowTheLimit) {
  Frame frame;
  frame.seq = 10;
  frame.dropped_before = 3;
  for (uint16_t signal : {kWqSigma1, kWkSigma1, kQkSigma1, kLogitMax, kTiedRowFraction}) {
    for (uint32_t layer = 0; layer < 128; ++layer) frame.series.push_back(PerHead(signal, layer, 128, 1));
  }
  const size_t total = frame.series.size();
  const auto parts = SplitFrame(frame, 64 << 10);
  ASSERT_GT(parts.size(), 1u);
  size_t series = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_LE(Encode(parts[i]).size(), size_t{64} << 10);
    EXPECT_EQ(parts[i].seq, 10 + i);
    EXPECT_EQ(parts[i].part, i);
    EXPECT_EQ(parts[i].parts, parts.size());
    EXPECT_EQ(parts[i].dropped_before, i == 0 ? 3u : 0u);
    series += parts[i].series.size();
  }
  EXPECT_EQ(series, total);
}

TEST(Codec, SmallFrameStaysWhole) {
  Frame frame;
  frame.series = {PerHead(kWqSigma1, 0, 4, 1)};
  const auto parts = SplitFrame(frame, 64 << 10);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].parts, 1u);
}

// A frame of everything that a frame can hold.
Frame Everything() {
  Frame frame;
  frame.seq = 300;
  frame.step = -5;
  frame.time_unix_ns = 1'700'000'000'123'456'789;
  frame.dropped_before = 2;
  frame.skipped = true;
  frame.part = 1;
  frame.parts = 3;
  frame.window_from = 190;
  Series sparse = PerHead(kWqSigma1, 0, 9, 1);
  sparse.present = {1, 0, 1, 1, 1, 1, 0, 1, 1};
  sparse.rotated.assign(9, 1);
  sparse.weights.assign(9, 4);
  sparse.moments.assign(9 * kMomentsPerHead, 2);
  Series partial = PerHead(kUpdateProjection1, 300, 2, 1);
  partial.heads = {4, 900};
  partial.values_per_head = 2;
  partial.values = {1, 2, 3, 4};
  partial.direction_hash = {1, 0xFFFFFFFFFFFFFFFFu};
  partial.flags = kPartial;
  partial.step_offsets = {300, 1};
  partial.shard = 1;
  partial.shards = 200;
  Series loss;
  loss.signal = kLoss;
  loss.values = {std::bit_cast<float>(0x7fc12345u)};
  loss.weights = {7};
  frame.series = {sparse, partial, loss, Series{}};
  return frame;
}

// As if it encoded and compared; a frame that differs in one byte is another.
TEST(Codec, EncodesToSaysWhatEncodingWouldSay) {
  Frame frame = Everything();
  const std::string bytes = Encode(frame);
  EXPECT_TRUE(EncodesTo(frame, bytes));
  EXPECT_FALSE(EncodesTo(frame, bytes + '\0'));
  EXPECT_FALSE(EncodesTo(frame, WithDroppedBefore(bytes, 2))) << "a field that stands there twice";
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(EncodesTo(frame, std::string_view(bytes).substr(0, i))) << i;
    for (const int bit : {1, 0x80}) {
      std::string other = bytes;
      other[i] = static_cast<char>(other[i] ^ bit);
      EXPECT_FALSE(EncodesTo(frame, other)) << i;
    }
  }
  // A length that takes more bytes than it needs.
  Frame small;
  small.series = {PerHead(kLogitMax, 1, 2, 1)};
  const std::string tight = Encode(small);
  ASSERT_LT(static_cast<uint8_t>(tight[1]), 0x80);
  std::string loose = tight.substr(0, 1) + static_cast<char>(tight[1] | 0x80) + '\0' + tight.substr(2);
  ASSERT_TRUE(DecodeFrame(loose).ok());
  EXPECT_TRUE(EncodesTo(small, tight));
  EXPECT_FALSE(EncodesTo(small, loose));
}

// Random damage never crashes a decoder, and what it returns is consistent enough to be encoded again.
TEST(Codec, RandomDamage) {
  const unsigned seed = 20261129;
  std::mt19937 random(seed);
  Frame frame;
  frame.series = {PerHead(kWqSigma1, 0, 16, 1), PerHead(kLogitMax, 1, 16, 2)};
  frame.series[0].present.assign(16, 1);
  frame.series[0].present[3] = 0;
  const std::string good = Encode(frame);
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int flips = 0; flips < 1 + round % 4; ++flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    const auto result = DecodeFrame(bytes);
    if (result.ok()) {
      ASSERT_EQ(EncodesTo(*result, bytes), Encode(*result) == bytes)
          << "seed " << seed << ", round " << round;
    } else {
      ++refused;
    }
    DecodeHello(bytes).IgnoreError();
    DecodeReply(bytes).IgnoreError();
    PeekHead(bytes).IgnoreError();
  }
  EXPECT_GT(refused, 1000u) << "seed " << seed;
}

}  // namespace
}  // namespace foreshock::wire
