// What the folders of older versions in data/ hold. The stores that wrote them compiled this file, too: it
// uses what all of them have.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "foreshock/server/store/store.h"
#include "store_test_support.h"

namespace foreshock::store::test {

inline constexpr int64_t kOldSteps = 40;

// Bits at random, NaN with payloads among them, a head missing; and part of a parameter that has two shards.
inline wire::Frame OldFrame(int64_t step, uint32_t rank) {
  std::mt19937 random(static_cast<uint32_t>(step) * 31 + rank);
  const auto any = [&] {
    const auto bits = static_cast<uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  wire::Frame frame = FrameOf(step, any());
  frame.time_unix_ns = static_cast<uint64_t>(step) * 1000 + rank;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    wire::Series heads = HeadSeries(kLogitMax, layer, {any(), 0, any()});
    heads.present = {1, 0, 1};
    heads.weights = {8, 0, 8};
    frame.series.push_back(std::move(heads));
  }
  wire::Series partial = HeadSeries(kUpdateProjection1, 0, {any(), any(), any()});
  partial.flags = wire::kPartial;
  partial.direction_hash = {random(), random(), random()};
  const auto set_shard = [rank](auto& series) {
    if constexpr (requires { series.shard; }) {  // senders of version 1's time had none
      series.shard = rank % 2;
      series.shards = 2;
    }
  };
  set_shard(partial);
  frame.series.push_back(std::move(partial));
  return frame;
}

// A run of two ranks, of which rank 1 starts again, merged but for its last steps; one of a single rank that
// goes back, with a frame in parts and one of a newer sender. Events, a quarantined record, a goodbye and an
// alert.
inline void FillOldFolder(Store* store) {
  const auto put = [&](const Records& records) { (void)store->AppendRecords(records.list).ok(); };
  std::vector<SourceId> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank)
    ranks.push_back(store->OpenSource(HelloOf("pair", {"1", rank, 2, 7 + rank}), 1'000)->id);
  const SourceId again = store->OpenSource(HelloOf("pair", {"1", 1, 2, 9}), 2'000)->id;
  Records zero(ranks[0]), one(ranks[1]), two(again);
  for (int64_t step = 0; step < kOldSteps; ++step) {
    zero.Frame(OldFrame(step, 0));
    (step < 25 ? one : two).Frame(OldFrame(step, 1));
  }
  zero.Event(39, wire::EventKind::kCheckpoint, "ckpt/39").Event(39);
  zero.list.back().quarantine = "strange";
  two.Goodbye(wire::GoodbyeStatus::kFinished);
  for (const Records* records : {&zero, &one, &two}) put(*records);
  for (int64_t step = 0; step < kOldSteps - 5; ++step) {
    wire::Frame merged = OldFrame(step, 2);
    (void)store->PutMerged(ranks[0], std::make_shared<const wire::Frame>(merged), false, store->Stamp()).ok();
  }
  const SourceId alone = store->OpenSource(HelloOf("alone", {"1", 0, 1, 5}), 3'000)->id;
  Records steps(alone);
  for (int64_t step = 0; step < kOldSteps; ++step) steps.Frame(OldFrame(step, 0));
  for (int64_t step = 20; step < kOldSteps; ++step) steps.Frame(OldFrame(step, 1));
  steps.Split(OldFrame(kOldSteps, 1), 100);
  for (int64_t step = kOldSteps + 1; step < kOldSteps + 20; ++step) steps.Frame(OldFrame(step, 1));
  steps.list[30].payload += std::string("\xf2\x3f\x02hi", 5);
  put(steps);
  const std::vector<MetaEntry> notes = {{"alert", "pair", "pair/x", "{\"alert\":1}"},
                                        {"audit", "", "1", "{}"}};
  (void)store->PutMeta(notes).ok();
}

}  // namespace foreshock::store::test
