// Rollups say what the frames say, whatever came late, was deleted or lies behind a restart.
#include "rollup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "foreshock/archive/entry.h"
#include "foreshock/server/store/check.h"
#include "store_test_support.h"

namespace foreshock::store {
namespace {

using test::FrameOf;
using test::HeadSeries;
using test::HelloOf;
using test::Records;

class Rolled {
 public:
  Rolled() { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = Store::Open({.folder = folder_.path(), .write_buffer_bytes = 1 << 20});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  void Hello(uint64_t incarnation = 1) {
    const auto source = store_->OpenSource(HelloOf("run", {.incarnation = incarnation}), 1);
    ASSERT_TRUE(source.ok());
    id_ = source->id;
    next_seq_ = source->durable_seq + 1;
  }
  // Steps [first, last] at a distance; values differ by `add`. Now and then NaN, and a head that is missing.
  void Put(int64_t first, int64_t last, int64_t distance = 1, float add = 0) {
    for (int64_t step = first; step <= last;) {
      Records records(id_, next_seq_);
      for (int i = 0; i < 500 && step <= last; ++i, step += distance, ++next_seq_) {
        wire::Frame frame = FrameOf(step, add + static_cast<float>(step % 1000));
        const auto value = [&](int head) {
          return add + std::sin(0.01f * static_cast<float>(step)) * static_cast<float>(head);
        };
        frame.series.push_back(HeadSeries(kLogitMax, 1, {value(1), value(2), value(3)}));
        if (step % 7 == 0) frame.series.back().values[1] = std::nanf("");
        if (step % 11 == 0) frame.series.back().present = {1, 1, 0};
        if (step % 11 == 0) frame.series.back().values[2] = 0;
        // A ratio: numerator and denominator.
        wire::Series ratio = HeadSeries(kTiedRowFraction, 0, {static_cast<float>(step % 5), 1, 2});
        ratio.weights = {4, 0, 8};
        frame.series.push_back(std::move(ratio));
        records.Frame(std::move(frame));
      }
      ASSERT_TRUE(store_->AppendRecords(records.list).ok());
    }
  }
  void Settle() { ASSERT_TRUE(store_->Settle().ok()); }
  Store& store() { return *store_; }
  SourceId id() const { return id_; }
  std::string folder() const { return folder_.path(); }
  void Close() { store_.reset(); }

  // Every bucket holds what the frames between its steps hold; none is missing and none counts twice.
  void ExpectRight(SeriesQuery query) {
    const auto rollup = store_->ReadRollup(query);
    ASSERT_TRUE(rollup.ok()) << rollup.status().ToString();
    query.max_points = 0;
    const SignalInfo& info = *FindSignal(query.signal);
    using StepAndValue = std::pair<int64_t, float>;
    std::map<uint32_t, std::vector<StepAndValue>> values;
    std::vector<int64_t> steps;
    ASSERT_TRUE(store_
                    ->ReadSeries(query,
                                 [&](const SeriesPoint& point) {
                                   steps.push_back(point.step);
                                   for (size_t i = 0; i < point.series.count(); ++i) {
                                     if (!point.series.has(i)) continue;
                                     const auto shown =
                                         DisplayValue(info, point.series.values[i], point.series.weight(i));
                                     const uint32_t head =
                                         point.series.heads.empty() ? 0 : point.series.heads[i];
                                     if (shown)
                                       values[head].emplace_back(point.step, static_cast<float>(*shown));
                                   }
                                   return true;
                                 })
                    .ok());
    ASSERT_TRUE(std::ranges::is_sorted(steps));
    uint64_t covered = 0;
    int64_t before = kFirstStep;
    for (const RollupBucket& bucket : rollup->buckets) {
      ASSERT_GT(bucket.first_step, before);
      ASSERT_GE(bucket.last_step, bucket.first_step);
      before = bucket.last_step;
      covered += bucket.steps;
      for (size_t i = 0; i < rollup->heads.size(); ++i) {
        float min = 0, max = 0;
        double sum = 0;
        uint64_t count = 0;
        const auto& all = values[rollup->heads[i]];
        for (auto at = std::ranges::lower_bound(all, bucket.first_step, {}, &StepAndValue::first);
             at != all.end() && at->first <= bucket.last_step; ++at) {
          const float value = at->second;
          if (std::isnan(value)) continue;
          min = count == 0 ? value : std::min(min, value);
          max = count == 0 ? value : std::max(max, value);
          sum += value;
          ++count;
        }
        ASSERT_EQ(bucket.counts[i], count) << bucket.first_step << " head " << rollup->heads[i];
        if (count == 0) {
          ASSERT_TRUE(std::isnan(bucket.min[i]) && std::isnan(bucket.mean[i]) && std::isnan(bucket.max[i]));
          continue;
        }
        ASSERT_EQ(bucket.min[i], min);
        ASSERT_EQ(bucket.max[i], max);
        const double mean = sum / static_cast<double>(count);
        ASSERT_TRUE(std::abs(bucket.mean[i] - mean) <= 1e-4 * (1 + std::abs(mean)))
            << bucket.mean[i] << " " << mean;
      }
    }
    EXPECT_EQ(covered, steps.size());
    if (!steps.empty()) {
      ASSERT_FALSE(rollup->buckets.empty());
      EXPECT_EQ(rollup->buckets.front().first_step, steps.front());
      EXPECT_EQ(rollup->buckets.back().last_step, steps.back());
    }
  }
  void ExpectRight(int64_t from, int64_t to) {
    for (const size_t points : {1, 7, 40, 300, 5'000}) {
      ExpectRight({.run = "run", .signal = kLoss, .from_step = from, .to_step = to, .max_points = points});
      ExpectRight({.run = "run",
                   .signal = kLogitMax,
                   .layer = 1,
                   .from_step = from,
                   .to_step = to,
                   .max_points = points});
      ExpectRight({.run = "run",
                   .signal = kTiedRowFraction,
                   .layer = 0,
                   .heads = {2, 0},
                   .from_step = from,
                   .to_step = to,
                   .max_points = points});
    }
  }
  void ExpectRight() {
    ExpectRight(kFirstStep, kLastStep);
    ExpectRight(1'000, 7'777);
    ExpectRight(4'500, 4'600);
  }
  CheckReport Check() {
    Close();
    const auto report = CheckStore({.folder = folder()});
    EXPECT_TRUE(report.ok());
    for (const std::string& fault : report->first_faults) ADD_FAILURE() << fault;
    return *report;
  }

 private:
  test::Folder folder_;
  std::unique_ptr<Store> store_;
  SourceId id_;
  uint64_t next_seq_ = 1;
};

TEST(Rollup, SaysWhatTheFramesSay) {
  Rolled run;
  run.Hello();
  run.Put(1, 10'000);
  run.Settle();
  run.ExpectRight();
  EXPECT_GT(run.Check().rollups, 1u);
}

TEST(Rollup, WhatIsStillOpenCounts) {
  Rolled run;
  run.Hello();
  run.Put(0, 90'000, 10);
  run.Settle();
  run.Put(90'010, 90'500, 10);
  run.ExpectRight();
}

TEST(Rollup, ThreeLevels) {
  Rolled run;
  run.Hello();
  run.Put(1, 70'000);
  run.Settle();
  run.ExpectRight(kFirstStep, kLastStep);
  const auto rollup = run.store().ReadRollup({.run = "run", .signal = kLoss, .max_points = 10});
  ASSERT_TRUE(rollup.ok());
  EXPECT_LE(rollup->buckets.size(), 11u);
  EXPECT_GE(run.Check().rollups, 17u + 1u);
}

TEST(Rollup, ARestartGoesOn) {
  Rolled run;
  run.Hello();
  run.Put(1, 6'000);
  run.Settle();
  run.Reopen();
  run.Hello();
  run.Put(6'001, 13'000);
  run.Settle();
  run.ExpectRight();
  EXPECT_EQ(run.Check().rollups, 3u);
}

TEST(Rollup, LateAndRepeatedStepsAreRight) {
  Rolled run;
  run.Hello(1);
  run.Put(1, 9'000, 2);
  run.Put(9'001, 14'000);
  run.Settle();
  run.Put(2'000, 2'400, 2);  // late
  run.Settle();
  run.ExpectRight();
  run.Hello(2);  // a process that came back and sends steps again
  run.Put(12'000, 15'000, 1, 100);
  run.Settle();
  run.ExpectRight();
  run.Check();
}

// A frame of which parts were here alone, rolled up as they were.
TEST(Rollup, PartsThatAnArchiveBringsCount) {
  wire::Frame large = FrameOf(30, 1);
  for (uint32_t layer = 2; layer < 40; ++layer)
    large.series.push_back(HeadSeries(kLogitMax, layer, {1, 2, 3, 4}));
  Rolled from, to;
  from.Hello();
  from.Put(0, 29);
  Records parts(from.id(), 31);
  parts.Split(large, 1000);
  ASSERT_GT(parts.list.size(), 3u);
  ASSERT_TRUE(from.store().AppendRecords(std::span(parts.list).first(2)).ok());
  to.Hello();
  to.Put(0, 29);
  ASSERT_TRUE(to.store().AppendRecords(std::span(parts.list).subspan(2)).ok());
  to.Hello();
  to.Put(31, 6'000);
  to.Settle();
  const auto counted = [&] {
    SeriesQuery query;
    query.run = "run";
    query.signal = kLogitMax;
    query.layer = 2;
    query.max_points = 7;
    uint64_t count = 0;
    const auto rollup = to.store().ReadRollup(query);
    EXPECT_TRUE(rollup.ok()) << rollup.status().ToString();
    for (const RollupBucket& bucket : rollup->buckets) {
      for (const uint64_t of_head : bucket.counts) count += of_head;
    }
    return count;
  };
  EXPECT_EQ(counted(), 0u);
  auto import = *to.store().StartImport({"run", 1, 2, "test"}, 3);
  constexpr int64_t kLater = 3'600'000'000'000;  // nothing more comes
  const Status exported = from.store().ExportRun(
      "run", kLater, [&](archive::Entry entry) { return import->Add(std::move(entry)); });
  ASSERT_TRUE(exported.ok()) << exported.ToString();
  const auto outcome = import->Finish();
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->added.frames, 2u);
  EXPECT_EQ(counted(), 4u);
  to.Settle();
  EXPECT_EQ(counted(), 4u);
}

TEST(Rollup, GoesWithItsRun) {
  Rolled run;
  run.Hello();
  run.Put(1, 5'000);
  run.Settle();
  ASSERT_TRUE(run.store().DeleteRun("run").ok());
  run.Settle();
  EXPECT_EQ(run.Check().rollups, 0u);
}

TEST(Rollup, BadQueries) {
  Rolled run;
  run.Hello();
  run.Put(1, 10);
  EXPECT_EQ(run.store().ReadRollup({.run = "run", .signal = kLoss}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(run.store().ReadRollup({.run = "no", .signal = kLoss, .max_points = 1}).status().code(),
            Code::kNotFound);
  const auto none = run.store().ReadRollup({.run = "run", .signal = kWqSigma1, .layer = 7, .max_points = 5});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->buckets.empty());
}

TEST(RollupBytes, TornAndLyingBytesAreRefused) {
  RollupBuilder builder;
  std::mt19937 random(1);
  for (int b = 0; b < 3; ++b) {
    builder.StartBucket();
    builder.AddSteps(10 * b, 10 * b + 9, 10);
    for (int i = 0; i < 10; ++i)
      builder.Add(HeadSeries(kLogitMax, 0, {static_cast<float>(random() % 100), 2, 3}));
  }
  const std::string spans = builder.spans().Encode();
  const std::string column = builder.Take().begin()->second.Encode();
  ASSERT_TRUE(RollupSpans::Decode(spans).ok());
  ASSERT_TRUE(RollupColumn::Decode(column).ok());
  for (size_t bytes = 0; bytes < spans.size(); ++bytes)
    EXPECT_FALSE(RollupSpans::Decode(spans.substr(0, bytes)).ok());
  for (size_t bytes = 0; bytes < column.size(); ++bytes)
    EXPECT_FALSE(RollupColumn::Decode(column.substr(0, bytes)).ok()) << bytes;
  EXPECT_FALSE(RollupSpans::Decode(spans + "x").ok());
  EXPECT_FALSE(RollupColumn::Decode(column + "x").ok());
  // Whatever a byte says, nothing but an answer comes of it.
  for (size_t at = 0; at < column.size(); ++at) {
    for (const int value : {0, 1, 2, 0x7F, 0x80, 0xFF}) {
      std::string bad = column;
      bad[at] = static_cast<char>(value);
      const auto decoded = RollupColumn::Decode(bad);
      if (!decoded.ok()) continue;
      EXPECT_EQ(decoded->counts.size(), decoded->buckets * decoded->width());
    }
  }
  for (size_t at = 0; at < spans.size(); ++at) {
    for (const int value : {0, 1, 2, 0x7F, 0x80, 0xFF}) {
      std::string bad = spans;
      bad[at] = static_cast<char>(value);
      const auto decoded = RollupSpans::Decode(bad);
      if (!decoded.ok()) continue;
      EXPECT_EQ(decoded->first.size(), decoded->rows.size());
    }
  }
}

}  // namespace
}  // namespace foreshock::store
