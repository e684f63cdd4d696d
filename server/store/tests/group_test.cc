// Sealed groups come back bit for bit, whatever the frames hold; damaged bytes are told, never followed.
#include "group.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "foreshock/wire/codec.h"

namespace foreshock::store {
namespace {

using Chunks = std::vector<std::pair<ColumnName, std::string>>;

// The frames of encoded chunks.
Result<std::vector<wire::Frame>> Unseal(const Chunks& chunks) {
  FS_ASSIGN_OR_RETURN(const GroupRows rows, GroupRows::Decode(chunks[0].second));
  std::vector<wire::Frame> frames;
  for (size_t row = 0; row < rows.size(); ++row) frames.push_back(rows.Frame(row));
  for (size_t i = 0; i < rows.columns.size(); ++i) {
    const ColumnName& name = rows.columns[i];
    if (i + 1 >= chunks.size() || !(chunks[i + 1].first == name)) return Status(Code::kDataLoss, "names");
    FS_ASSIGN_OR_RETURN(const Column column, Column::Decode(name.signal, name.layer, chunks[i + 1].second));
    for (size_t row = 0; row < column.rows(); ++row) {
      const auto at = static_cast<size_t>(column.group_rows()[row]);
      if (at >= frames.size()) return Status(Code::kDataLoss, "rows");
      frames[at].series.push_back(column.Row(row));
    }
  }
  return frames;
}

Chunks ChunksOf(GroupBuilder& builder) {
  Chunks chunks;
  builder.Encode(
      [&](const ColumnName& name, std::string_view bytes) { chunks.emplace_back(name, std::string(bytes)); });
  return chunks;
}

Chunks Seal(const std::vector<wire::Frame>& frames) {
  GroupBuilder builder;
  for (const wire::Frame& frame : frames) EXPECT_TRUE(builder.Add(frame));
  return ChunksOf(builder);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void ExpectSame(const wire::Frame& a, const wire::Frame& b) {
  EXPECT_EQ(wire::Encode(a), wire::Encode(b));
  ASSERT_EQ(a.series.size(), b.series.size());
  for (size_t i = 0; i < a.series.size(); ++i) {
    const wire::Series &s = a.series[i], &t = b.series[i];
    EXPECT_TRUE(SameBits(s.values, t.values) && SameBits(s.weights, t.weights) &&
                SameBits(s.moments, t.moments));
    EXPECT_EQ(s.present, t.present);
    EXPECT_EQ(s.rotated, t.rotated);
    EXPECT_EQ(s.heads, t.heads);
    EXPECT_EQ(s.direction_hash, t.direction_hash);
    EXPECT_EQ(s.flags, t.flags);
    EXPECT_EQ(s.step_offsets, t.step_offsets);
  }
}

void ExpectRoundTrip(const std::vector<wire::Frame>& frames) {
  const auto back = Unseal(Seal(frames));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_EQ(back->size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i) ExpectSame(frames[i], (*back)[i]);
}

wire::Series Series(uint16_t signal, std::optional<uint32_t> layer, std::vector<float> values) {
  wire::Series s;
  s.signal = signal;
  s.layer = layer;
  if (layer) {
    for (uint32_t i = 0; i < values.size(); ++i) s.heads.push_back(i);
  }
  s.values = std::move(values);
  return s;
}

wire::Frame Frame(int64_t step, std::vector<wire::Series> series) {
  wire::Frame frame;
  frame.step = step;
  frame.seq = static_cast<uint64_t>(step + 1'000'000);
  frame.series = std::move(series);
  return frame;
}

TEST(Group, NanPayloadsInfinitiesZerosAndDenormalsKeepTheirBits) {
  std::vector<wire::Frame> frames;
  const uint32_t bits[] = {0x7FC00012, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 0, 1};
  for (int64_t step = 0; step < 40; ++step) {
    std::vector<float> values;
    for (size_t i = 0; i < 8; ++i) values.push_back(std::bit_cast<float>(bits[(i + step) % 8]));
    frames.push_back(Frame(step, {Series(1, std::nullopt, {values[0]}), Series(9, 3, values)}));
  }
  ExpectRoundTrip(frames);
}

// Scalars every step, heads in every tenth, one more signal from the middle on; then fewer heads.
TEST(Group, SampledStepsNewSignalsAndChangingHeadCounts) {
  std::vector<wire::Frame> frames;
  for (int64_t step = -5; step < 95; ++step) {
    wire::Frame frame = Frame(step, {Series(1, std::nullopt, {1.5f * static_cast<float>(step)})});
    if (step % 10 == 0) {
      frame.series.push_back(Series(4, 0, std::vector<float>(step < 50 ? 12 : 8, 2.5f)));
    }
    if (step > 40) frame.series.insert(frame.series.begin() + 1, Series(2, std::nullopt, {0.1f}));
    frame.skipped = step % 7 == 0;
    frame.window_from = step - 10;
    frames.push_back(frame);
  }
  ExpectRoundTrip(frames);
}

TEST(Group, TheOrderOfSeriesIsKeptEvenWhereItChanges) {
  std::vector<wire::Frame> frames;
  frames.push_back(Frame(1, {Series(1, 0, {1}), Series(2, 0, {2}), Series(3, 0, {3})}));
  frames.push_back(Frame(2, {Series(3, 0, {1}), Series(1, 0, {2}), Series(2, 0, {3})}));
  frames.push_back(Frame(3, {Series(2, 0, {1}), Series(2, 0, {2})}));
  ExpectRoundTrip(frames);
}

TEST(Group, ShardsOfPartialValuesAreKept) {
  wire::Series first = Series(1, 0, {1, 2}), second = first, whole = first;
  first.shards = second.shards = 2;
  second.shard = 1;
  ExpectRoundTrip({Frame(1, {first}), Frame(2, {second}), Frame(3, {first, second}), Frame(4, {whole})});
}

TEST(Group, WhatCannotBeSealedIsRefusedAndChangesNothing) {
  GroupBuilder builder;
  ASSERT_TRUE(builder.Add(Frame(5, {Series(1, 0, {1, 2})})));
  EXPECT_FALSE(builder.Add(Frame(5, {}))) << "a step again";
  EXPECT_FALSE(builder.Add(Frame(4, {}))) << "a step back";
  wire::Frame part = Frame(6, {});
  part.parts = 2;
  EXPECT_FALSE(builder.Add(part));
  wire::Frame odd = Frame(6, {Series(1, 0, {1, 2})});
  odd.series[0].values.pop_back();
  EXPECT_FALSE(builder.Add(odd));
  const auto back = Unseal(ChunksOf(builder));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->size(), 1u);
}

TEST(Group, HeadsArePickedInTheOrderAskedFor) {
  wire::Series series = Series(7, 1, {10, 11, 12});
  series.present = {1, 0, 1};
  series.weights = {1, 2, 3};
  Column column(ShapeOf(series));
  column.Add(0, 1, series);
  const std::vector<size_t> places = {2, 1};
  const wire::Series picked = column.Row(0, &places);
  EXPECT_EQ(picked.heads, (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(picked.values, (std::vector<float>{12, 11}));
  EXPECT_EQ(picked.weights, (std::vector<float>{3, 2}));
  EXPECT_EQ(picked.present, (std::vector<uint8_t>{1, 0}));
}

// A walk with 1 % of noise, as sampled signals are: the aim is 2.8 bytes a value, all told.
TEST(Group, NoisyWalksTakeLessThanTwoAndAHalfBytesAValue) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> noise(0, 0.01f);
  std::vector<float> level(32, 3);
  std::vector<wire::Frame> frames;
  for (int64_t step = 0; step < 64; ++step) {
    for (float& x : level) x *= 1 + noise(random);
    frames.push_back(Frame(step, {Series(4, 0, level)}));
  }
  size_t bytes = 0;
  for (const auto& [name, chunk] : Seal(frames)) bytes += chunk.size();
  EXPECT_LT(static_cast<double>(bytes) / (64 * 32), 2.5);
}

// --- fuzz: frames of every kind, and damaged chunks

wire::Series AnySeries(std::mt19937_64& random) {
  wire::Series s;
  s.signal = static_cast<uint16_t>(1 + random() % 4);
  if (random() % 4 != 0) s.layer = static_cast<uint32_t>(random() % 3);
  const size_t heads = random() % 3 == 0 ? 0 : 1 + random() % 9;
  for (size_t i = 0; i < heads; ++i) s.heads.push_back(static_cast<uint32_t>(i * (1 + random() % 2)));
  if (random() % 4 == 0) s.values_per_head = static_cast<uint32_t>(1 + random() % 3);
  const size_t count = s.count();
  const auto floats = [&](size_t n) {
    std::vector<float> values;
    for (size_t i = 0; i < n; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    return values;
  };
  s.values = floats(count * s.values_per_head);
  if (random() % 2 != 0) s.weights = floats(random() % 2 != 0 ? 1 : count);
  if (random() % 4 == 0) s.moments = floats(count * wire::kMomentsPerHead);
  const auto bits = [&] {
    std::vector<uint8_t> list;
    for (size_t i = 0; i < count; ++i) list.push_back(random() % 2);
    return list;
  };
  if (random() % 4 == 0) s.present = bits();
  if (random() % 4 == 0) s.rotated = bits();
  if (random() % 4 == 0) {
    for (size_t i = 0; i < count; ++i) s.direction_hash.push_back(random());
  }
  if (random() % 4 == 0) s.shards = 1 + (s.shard = static_cast<uint32_t>(random() % 300));
  if (random() % 4 == 0) s.flags = static_cast<uint32_t>(random());
  if (random() % 4 == 0) s.step_offsets.assign(s.values_per_head, static_cast<uint32_t>(random()));
  return s;
}

std::vector<wire::Frame> AnyFrames(std::mt19937_64& random) {
  std::vector<wire::Frame> frames;
  int64_t step = static_cast<int64_t>(random() % 100) - 50;
  const size_t count = 1 + random() % 30;
  for (size_t i = 0; i < count; ++i) {
    wire::Frame frame = Frame(step, {});
    frame.seq = random();
    frame.time_unix_ns = random();
    frame.dropped_before = random() % 3;
    frame.window_from = static_cast<int64_t>(random());
    frame.skipped = random() % 2 != 0;
    const size_t series = random() % 6;
    for (size_t k = 0; k < series; ++k) frame.series.push_back(AnySeries(random));
    frames.push_back(std::move(frame));
    step += 1 + static_cast<int64_t>(random() % (random() % 5 == 0 ? 1'000'000 : 2));
  }
  return frames;
}

TEST(GroupFuzz, AnyFramesComeBack) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ExpectRoundTrip(AnyFrames(random));
  }
}

// Whatever the bytes, decoding ends, in time and memory bounded by limits, with frames or an error.
TEST(GroupFuzz, DamagedChunksDoNoHarm) {
  size_t refused = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    Chunks chunks = Seal(AnyFrames(random));
    std::string& bytes = chunks[random() % chunks.size()].second;
    switch (random() % 3) {
      case 0:
        bytes.resize(random() % bytes.size());
        break;
      case 1:
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
        break;
      default:
        bytes.insert(random() % bytes.size(), 1 + random() % 3, static_cast<char>(random()));
    }
    if (!Unseal(chunks).ok()) ++refused;
  }
  EXPECT_GT(refused, 100u) << "the damage is not reached";
}

}  // namespace
}  // namespace foreshock::store
