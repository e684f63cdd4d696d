// A parameter that two ranks share (FSDP2): what both send adds up to what one process with the whole would
// have seen, step by step.
#include <gmock/gmock.h>

#include <cmath>

#include "foreshock/base/catalogue.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kRanks = 2;
constexpr int kHeads = 4, kKvHeads = 2, kDim = 8, kModel = 24;

// Rows of the stored matrix, as torch.nn.Linear has it: first and the one behind the last of a rank. Rank 0
// ends inside a head, as FSDP2's even split does.
struct Rows {
  int first, last;
};
Rows RowsOf(int rank, int all) {
  const int cut = all * 3 / 8 + 1;
  return rank == 0 ? Rows{0, cut} : Rows{cut, all};
}

// A rank's copy of its part, which the optimizer changes; the whole is model.wq, model.wk.
struct Shards {
  explicit Shards(const ToyModel& model, int of_rank) : rank(of_rank) { Refresh(model); }
  void Refresh(const ToyModel& model) {
    wq.clear();
    wk.clear();
    for (int l = 0; l < model.s.layers; ++l) {
      wq.push_back(Cut(model.wq[static_cast<size_t>(l)], kHeads * kDim));
      wk.push_back(Cut(model.wk[static_cast<size_t>(l)], kKvHeads * kDim));
    }
  }
  std::vector<float> Cut(const std::vector<float>& whole, int rows) const {
    const Rows held = RowsOf(rank, rows);
    return {whole.begin() + held.first * kModel, whole.begin() + held.last * kModel};
  }
  fs_weights Weights(const ToyModel& model, int layer, bool key_side) const {
    fs_weights w = model.Weights(layer, key_side);
    const Rows held = RowsOf(rank, (key_side ? kKvHeads : kHeads) * kDim);
    w.data = nullptr;
    w.sharded = 1;
    w.shard_data = (key_side ? wk : wq)[static_cast<size_t>(layer)].data();
    w.shard_begin = held.first * kModel;
    w.shard_end = held.last * kModel;
    w.shard = static_cast<uint32_t>(rank);
    w.shards = kRanks;
    return w;
  }
  int rank;
  std::vector<std::vector<float>> wq, wk;
};

class ShardTest : public ::testing::Test {
 protected:
  fs_run* Open(const std::string& name, int rank, int world) {
    addresses_.push_back("file:" + (dir_ / name));
    fs_options options = TestOptions(addresses_.back());
    options.rank = rank;
    options.world_size = world;
    fs_run* run = nullptr;
    EXPECT_EQ(fs_open(&options, &run), FS_OK);
    return run;
  }
  void Register(fs_run* run, const ToyModel& model, const Shards& shards) {
    for (int l = 0; l < model.s.layers; ++l) {
      const fs_weights wq = shards.Weights(model, l, false), wk = shards.Weights(model, l, true);
      fs_layer layer = model.Layer(l);
      layer.wq = &wq;
      layer.wk = &wk;
      ASSERT_EQ(fs_add_layer(run, &layer), FS_OK) << fs_last_error(run);
    }
  }
  // Shows the whole parameters where they are wanted, as a forward pass does.
  static int Forward(fs_run* run, const ToyModel& model) {
    int shown = 0;
    for (uint32_t l = 0; l < static_cast<uint32_t>(model.s.layers); ++l) {
      if (!fs_wants_unsharded(run, l)) continue;
      EXPECT_EQ(fs_layer_unsharded(run, l, model.wq[l].data(), model.wk[l].data()), FS_OK);
      EXPECT_FALSE(fs_wants_unsharded(run, l)) << "once a step";
      ++shown;
    }
    return shown;
  }

  TempDir dir_;
  std::vector<std::string> addresses_ = std::vector<std::string>();
};

TEST_F(ShardTest, PartsAddUpToWhatTheWholeWouldHaveShown) {
  addresses_.reserve(3);
  ToyModel model;
  fs_run* whole = Open("whole.fsk", 0, 1);
  ASSERT_EQ(model.Register(whole), FS_OK);
  Shards shards[] = {Shards(model, 0), Shards(model, 1)};
  fs_run* runs[] = {Open("0.fsk", 0, 2), Open("1.fsk", 1, 2)};
  for (int r = 0; r < kRanks; ++r) Register(runs[r], model, shards[r]);
  for (int t = 0; t <= 20; ++t) {
    const bool skipped = t == 13;
    for (fs_run* run : {whole, runs[0], runs[1]}) {
      fs_step_begin(run, t);
      fs_scalar(run, FS_LEARNING_RATE, 1e-3);
      EXPECT_EQ(Forward(run, model), run != whole && t % 10 == 0 ? 2 : 0) << t;
    }
    if (!skipped) model.Move();
    // In place: the pointers that were given stay.
    for (Shards& shard : shards) {
      for (size_t l = 0; l < 2; ++l) {
        const auto wq = shard.Cut(model.wq[l], kHeads * kDim), wk = shard.Cut(model.wk[l], kKvHeads * kDim);
        std::copy(wq.begin(), wq.end(), shard.wq[l].begin());
        std::copy(wk.begin(), wk.end(), shard.wk[l].begin());
      }
    }
    for (fs_run* run : {whole, runs[0], runs[1]}) {
      if (skipped) fs_step_skipped(run);
      fs_step_end(run);
    }
  }
  for (fs_run* run : {whole, runs[0], runs[1]}) EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const Recording expected = ReadRecording(dir_ / "whole.fsk");
  const Recording got[] = {ReadRecording(dir_ / "0.fsk"), ReadRecording(dir_ / "1.fsk")};
  for (const int64_t t : {0, 10, 20}) {
    for (const uint16_t signal : {kUpdateProjection1, kUpdateProjection3, kWkUpdateProjection2}) {
      const wire::Series* sum = expected.Step(t)->Find(signal, 1);
      const wire::Series* parts[] = {got[0].Step(t)->Find(signal, 1), got[1].Step(t)->Find(signal, 1)};
      ASSERT_TRUE(sum != nullptr && parts[0] != nullptr && parts[1] != nullptr) << t << " " << signal;
      const uint32_t n = t == 0 ? 1 : t == 10 ? 10 : 9;
      for (int r = 0; r < kRanks; ++r) {
        EXPECT_EQ(parts[r]->values_per_head, n);
        EXPECT_EQ(parts[r]->flags & wire::kPartial, wire::kPartial);
        EXPECT_EQ(parts[r]->shard, static_cast<uint32_t>(r));
        EXPECT_EQ(parts[r]->shards, 2u);
        EXPECT_THAT(parts[r]->weights, Each(static_cast<float>(n)));
        EXPECT_EQ(parts[r]->step_offsets.empty(), t != 20) << "step 13 left a hole";
      }
      EXPECT_EQ(parts[0]->direction_hash, parts[1]->direction_hash) << "derived by each rank itself";
      EXPECT_EQ(parts[0]->step_offsets, parts[1]->step_offsets);
      for (size_t h = 0; h < sum->values.size(); ++h) {
        double total = 0;
        for (uint32_t k = 0; k < n; ++k) {
          total += static_cast<double>(parts[0]->values[h * n + k]) + parts[1]->values[h * n + k];
        }
        EXPECT_NEAR(total, sum->values[h], 1e-6) << t << " " << signal << " head " << h;
      }
    }
    EXPECT_EQ(got[0].Step(t)->Find(kUpdateSignMean1, 1), nullptr) << "a part of a sum has no sign";
    EXPECT_EQ(got[0].Step(t)->Find(kWqSigma1, 1)->values, expected.Step(t)->Find(kWqSigma1, 1)->values);
  }
  EXPECT_EQ(got[0].Step(20)->Find(kUpdateProjection1, 0)->step_offsets,
            (std::vector<uint32_t>{9, 8, 6, 5, 4, 3, 2, 1, 0}));
}

TEST_F(ShardTest, WithoutItsWholeParametersNothingIsMadeUp) {
  addresses_.reserve(1);
  ToyModel model;
  const Shards shards(model, 0);
  fs_run* run = Open("run.fsk", 0, 2);
  Register(run, model, shards);
  for (int t = 0; t <= 10; ++t) {
    fs_step_begin(run, t);
    fs_step_end(run);
  }
  fs_close(run, FS_FINISHED);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  EXPECT_EQ(recording.Step(10)->Find(kWqSigma1, 0), nullptr);
  const wire::Series* projection = recording.Step(10)->Find(kUpdateProjection1, 0);
  if (projection != nullptr) {
    EXPECT_THAT(projection->present, Each(0));
  }
}

TEST_F(ShardTest, PartsThatCannotBeAreRefused) {
  addresses_.reserve(1);
  ToyModel model;
  const Shards shards(model, 0);
  fs_run* run = Open("run.fsk", 0, 2);
  const auto refusal = [&](auto spoil) {
    fs_weights wq = shards.Weights(model, 0, false), wk = shards.Weights(model, 0, true);
    spoil(&wq, &wk);
    fs_layer layer = model.Layer(0);
    layer.wq = &wq;
    layer.wk = &wk;
    EXPECT_NE(fs_add_layer(run, &layer), FS_OK);
    return std::string(fs_last_error(run));
  };
  EXPECT_THAT(refusal([](fs_weights* q, fs_weights*) { q->shard = 2; }), HasSubstr("wq.shard: 2 of 2"));
  EXPECT_THAT(refusal([](fs_weights* q, fs_weights*) { q->shard_end -= 3; }),
              HasSubstr("must not cut a column"));
  EXPECT_THAT(refusal([](fs_weights* q, fs_weights*) { q->shard_begin = q->shard_end + 1; }),
              HasSubstr("wq.shard_begin"));
  EXPECT_THAT(refusal([](fs_weights* q, fs_weights*) { q->shard_data = nullptr; }),
              HasSubstr("wq.shard_data: null"));
  EXPECT_THAT(refusal([&](fs_weights*, fs_weights* k) { *k = model.Weights(0, true); }),
              HasSubstr("wk.sharded: 0, must be that of wq"));
  fs_close(run, FS_STOPPED);
}

}  // namespace
}  // namespace foreshock::testing
