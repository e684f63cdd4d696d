// What a trainer's calls become in a recording: one sample a step, the right windows, nothing from
// evaluation.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "foreshock/base/catalogue.h"
#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

using ::testing::HasSubstr;

class StepTest : public ::testing::Test {
 protected:
  fs_run* Open(void (*change)(fs_options*) = nullptr) {
    fs_options options = TestOptions(address_);
    if (change != nullptr) change(&options);
    fs_run* run = nullptr;
    EXPECT_EQ(fs_open(&options, &run), FS_OK);
    return run;
  }
  Recording Close(fs_run* run) {
    EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
    return ReadRecording(dir_ / "run.fsk");
  }

  TempDir dir_;
  std::string address_ = "file:" + (dir_ / "run.fsk");
};

TEST_F(StepTest, EveryStepHasAFrameAndEveryTenthIsSampled) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK) << fs_last_error(run);
  for (int t = 0; t < 25; ++t) model.Step(run, t);
  const Recording recording = Close(run);
  ASSERT_EQ(recording.frames.size(), 25u);
  for (int t = 0; t < 25; ++t) {
    const wire::Frame& frame = recording.frames[static_cast<size_t>(t)];
    EXPECT_EQ(frame.step, t);
    EXPECT_EQ(frame.seq, static_cast<uint64_t>(t + 1));
    const bool sampled = t % 10 == 0;
    for (const uint16_t signal : {kLogitMax, kQkSigma1, kUpdateProjection1, kOutputRoundingBias}) {
      EXPECT_EQ(frame.Find(signal, 1) != nullptr, sampled) << t << " " << signal;
    }
    ASSERT_NE(frame.Find(kLoss), nullptr);
    EXPECT_EQ(frame.Find(kLoss)->values[0], static_cast<float>(3.0 - 1e-3 * t));
    EXPECT_EQ(frame.Find(kLoss)->weights[0], 24.0f);
    EXPECT_EQ(frame.Find(kLossScale), nullptr) << "what was not given is missing";
  }
  ASSERT_EQ(recording.goodbyes.size(), 1u);
  EXPECT_EQ(recording.goodbyes[0].status, wire::GoodbyeStatus::kFinished);
  EXPECT_EQ(recording.goodbyes[0].step, 24);
}

TEST_F(StepTest, HelloDescribesTheModel) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  ASSERT_EQ(fs_unmonitored(run, "layer 7", "linear attention"), FS_OK);
  model.Step(run, 0);
  const Recording recording = Close(run);
  ASSERT_EQ(recording.hellos.size(), 1u);
  const wire::Hello& hello = recording.hellos[0];
  EXPECT_EQ(hello.run, "test-run");
  EXPECT_EQ(hello.attempt, "a1");
  EXPECT_EQ(hello.attempt_source, wire::AttemptSource::kExplicit);
  EXPECT_NE(hello.incarnation, 0u);
  ASSERT_EQ(hello.model.layers.size(), 2u);
  EXPECT_EQ(hello.model.layers[1].query_heads, 4u);
  EXPECT_EQ(hello.model.layers[1].kv_heads, 2u);
  EXPECT_EQ(hello.model.layers[1].scale, 1 / std::sqrt(8.0f));
  ASSERT_EQ(hello.unmonitored.size(), 1u);
  EXPECT_EQ(hello.unmonitored[0].reason, "linear attention");
}

TEST_F(StepTest, ACallMaySayThatItIsNotCausal) {
  // Layer 0 is causal and called as if it were not, layer 1 is declared so; layer 2 is as layer 0, and its
  // calls say nothing.
  ToyShape shape;
  shape.layers = 3;
  ToyModel model(shape);
  fs_run* run = Open();
  for (int l = 0; l < 3; ++l) {
    fs_layer layer = model.Layer(l);
    layer.causal = l != 1;
    ASSERT_EQ(fs_add_layer(run, &layer), FS_OK) << fs_last_error(run);
  }
  fs_step_begin(run, 0);
  for (uint32_t l = 0; l < 3; ++l) {
    fs_attention a = model.WithGradients();
    if (l == 0) a.causal = 0;
    EXPECT_EQ(fs_attention_forward(run, l, &a), FS_OK);
    EXPECT_EQ(fs_attention_backward(run, l, &a), FS_OK);
  }
  fs_step_end(run);
  const Recording recording = Close(run);
  for (const uint16_t signal : {kLogitMin, kEntropyMean, kOutputRoundingBias, kDeltaError}) {
    const auto* said = recording.Step(0)->Find(signal, 0);
    ASSERT_NE(said, nullptr) << signal;
    EXPECT_EQ(said->values, recording.Step(0)->Find(signal, 1)->values) << signal;
    EXPECT_NE(said->values, recording.Step(0)->Find(signal, 2)->values) << signal;
  }
}

// The window of frame t holds the single steps after the last frame with spectra, up to and with t.
TEST_F(StepTest, UpdateWindowsCountSingleStepsAndLeaveSkippedOnesOut) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int t = 0; t <= 20; ++t) {
    fs_step_begin(run, t);
    fs_scalar(run, FS_LEARNING_RATE, 1e-3);
    if (t == 13 || t == 17) {
      EXPECT_EQ(fs_step_skipped(run), FS_OK);
    } else {
      model.Move();
    }
    fs_step_end(run);
  }
  const Recording recording = Close(run);
  const auto n = [&](int64_t t) { return recording.Step(t)->Find(kUpdateProjection1, 0)->weights; };
  EXPECT_THAT(n(0), ::testing::Each(1.0f));
  EXPECT_EQ(recording.Step(0)->window_from, -1);
  EXPECT_THAT(n(10), ::testing::Each(10.0f));
  EXPECT_EQ(recording.Step(10)->window_from, 0);
  EXPECT_THAT(n(20), ::testing::Each(8.0f)) << "two of ten steps were skipped";
  EXPECT_EQ(recording.Step(20)->window_from, 10);
  EXPECT_TRUE(recording.Step(13)->skipped);
  EXPECT_FALSE(recording.Step(14)->skipped);
}

// Of a step whose weights the test sees before and after.
TEST_F(StepTest, ACopyOfTheWeightsGivesWhatTheStepDidToThem) {
  ToyModel model;
  fs_run* run = Open([](fs_options* o) { o->snapshot_bytes = 1 << 20; });
  ASSERT_EQ(model.Register(run), FS_OK);
  const auto before = model.wq;
  model.Step(run, 0);
  const auto after = model.wq;
  for (int t = 1; t <= 10; ++t) {
    fs_step_begin(run, t);
    if (t == 10) {
      EXPECT_EQ(fs_step_skipped(run), FS_OK);
    }
    fs_step_end(run);
  }
  const Recording recording = Close(run);
  const size_t head_size = static_cast<size_t>(model.s.model) * model.s.dim;
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto l = static_cast<uint32_t>(layer);
    const wire::Series* norm = recording.Step(0)->Find(kUpdateNorm, l);
    ASSERT_NE(norm, nullptr);
    ASSERT_EQ(norm->values.size(), 4u);
    for (size_t h = 0; h < 4; ++h) {
      double sum = 0;
      for (size_t i = h * head_size; i < (h + 1) * head_size; ++i) {
        const double change = static_cast<double>(after[layer][i]) - before[layer][i];
        sum += change * change;
      }
      EXPECT_NEAR(norm->values[h], std::sqrt(sum), 1e-5 * std::sqrt(sum)) << layer << "." << h;
    }
    const wire::Series* entropy = recording.Step(0)->Find(kQkUpdateEntropy, l);
    const wire::Series* participation = recording.Step(0)->Find(kQkUpdateParticipation, l);
    ASSERT_TRUE(entropy != nullptr && participation != nullptr);
    for (size_t h = 0; h < 4; ++h) {
      // A random change of full rank: nearly even over its 2 * head_dim directions.
      EXPECT_GT(entropy->values[h], 0.5f);
      EXPECT_LE(entropy->values[h], 1.0f);
      EXPECT_GT(participation->values[h], 2.0f);
      EXPECT_LE(participation->values[h], 16.0f);
    }
    EXPECT_EQ(recording.Step(10)->Find(kUpdateNorm, l), nullptr) << "the optimizer did not run";
  }
}

TEST_F(StepTest, CopiesOfLayersTakeTurnsInTheMemoryThatThereIs) {
  ToyModel model;
  // A layer: 4 query and 2 key heads of 24 x 8 floats.
  fs_run* run = Open([](fs_options* o) {
    o->snapshot_bytes = 6 * 24 * 8 * 4;
    o->spectra_every_steps = 1;
  });
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int t = 0; t < 4; ++t) model.Step(run, t);
  const Recording recording = Close(run);
  for (int64_t t = 0; t < 4; ++t) {
    for (uint32_t layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(recording.Step(t)->Find(kUpdateNorm, layer) != nullptr, t % 2 == layer) << t << " " << layer;
    }
  }
}

TEST_F(StepTest, WithoutMemoryForACopyItsSignalsAreUnmonitoredOrOff) {
  ToyModel model;
  fs_run* off = Open();
  ASSERT_EQ(model.Register(off), FS_OK);
  model.Step(off, 0);
  Recording recording = Close(off);
  EXPECT_EQ(recording.Step(0)->Find(kUpdateNorm, 0), nullptr);
  EXPECT_TRUE(recording.hellos[0].unmonitored.empty()) << "off by default is no finding";
  std::filesystem::remove(dir_ / "run.fsk");
  fs_run* small = Open([](fs_options* o) { o->snapshot_bytes = 100; });
  ASSERT_EQ(model.Register(small), FS_OK);
  model.Step(small, 0);
  recording = Close(small);
  EXPECT_EQ(recording.Step(0)->Find(kUpdateNorm, 0), nullptr);
  ASSERT_EQ(recording.hellos[0].unmonitored.size(), 2u);
  EXPECT_EQ(recording.hellos[0].unmonitored[0].name, "layer 0 update_norm");
  EXPECT_EQ(recording.hellos[0].unmonitored[0].reason, "snapshot_bytes: 100, needs 4608");
}

// c_i sums to u^T (W_end - W_begin) v: checked on a change along the first pair alone, whose size is known.
TEST_F(StepTest, GrowthAlongTheFirstPairIsMeasuredWithoutDecay) {
  ToyShape shape;
  shape.layers = 1;
  ToyModel model(shape);
  const int rows = shape.dim, columns = shape.model;  // one head as Linear stores it
  std::vector<float> rank_one(static_cast<size_t>(rows) * columns);
  // Head 0 becomes 5 * v u^T with unit vectors, so that pair 1 is known.
  for (int j = 0; j < rows; ++j) {
    for (int i = 0; i < columns; ++i) {
      rank_one[static_cast<size_t>(j * columns + i)] = 1 / std::sqrt(static_cast<float>(rows * columns));
    }
  }
  const auto set = [&](double sigma) {
    for (size_t i = 0; i < rank_one.size(); ++i) model.wq[0][i] = static_cast<float>(sigma) * rank_one[i];
  };
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  double sigma = 5;
  set(sigma);
  const double lr = 1e-2, lambda = 0.1;
  for (int t = 0; t <= 10; ++t) {
    fs_step_begin(run, t);
    fs_scalar(run, FS_LEARNING_RATE, lr);
    sigma = sigma * (1 - lr * lambda) + (t % 2 == 0 ? 0.02 : 0.01);  // decoupled decay, then growth
    set(sigma);
    fs_step_end(run);
  }
  const Recording recording = Close(run);
  const wire::Frame& frame = *recording.Step(10);
  // Steps 1..10: five of 0.01 and five of 0.02, the decay taken out.
  EXPECT_NEAR(frame.Find(kUpdateProjection1, 0)->values[0], 0.15, 1e-5);
  EXPECT_NEAR(frame.Find(kUpdateSignMean1, 0)->values[0], 10, 0);
  EXPECT_NEAR(frame.Find(kUpdateDriftRatio1, 0)->values[0], 0.15, 1e-5);
  EXPECT_NEAR(frame.Find(kUpdateDriftRatio1, 0)->weights[0], 0.15, 1e-5);
}

TEST_F(StepTest, GradientAccumulationGivesOneSampleOfTheFirstMicroBatch) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  fs_step_begin(run, 0);
  for (uint32_t micro = 0; micro < 3; ++micro) {
    for (uint32_t l = 0; l < 2; ++l) {
      // The second and third micro-batch would give logits a thousand times as large.
      ToyModel other(model.s, 2);
      for (float& x : other.q) x *= 1000;
      fs_attention a = micro == 0 ? model.Attention() : other.Attention();
      a.micro_batch = micro;
      EXPECT_EQ(fs_attention_forward(run, l, &a), FS_OK);
    }
    fs_loss(run, micro + 1.0, micro == 2 ? 200 : 100);
    // Backward of the last micro-batch first: only the sampled one's counts.
    const uint32_t back = 2 - micro;
    fs_attention b = model.WithGradients();
    b.micro_batch = back;
    EXPECT_EQ(fs_wants_attention_backward(run, 0), 1);
    EXPECT_EQ(fs_attention_backward(run, 0, &b), FS_OK);
  }
  fs_step_end(run);
  const Recording recording = Close(run);
  ASSERT_EQ(recording.frames.size(), 1u);
  const wire::Frame& frame = recording.frames[0];
  for (const float logit : frame.Find(kLogitMax, 0)->values) EXPECT_LT(logit, 50);
  EXPECT_NEAR(frame.Find(kLoss)->values[0], (1 * 100 + 2 * 100 + 3 * 200) / 400.0, 1e-6);
  EXPECT_EQ(frame.Find(kTokens)->values[0], 400);
  ASSERT_NE(frame.Find(kDeltaError, 0), nullptr);
  EXPECT_EQ(frame.Find(kDeltaError, 1), nullptr) << "layer 1 had no backward";
}

TEST_F(StepTest, RecomputedAndEvaluationForwardsAreNotSampled) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  const auto forward = [&](int grad_enabled, int recompute) {
    fs_attention a = model.Attention();
    a.grad_enabled = grad_enabled;
    a.recompute = recompute;
    EXPECT_EQ(fs_attention_forward(run, 0, &a), FS_OK);
  };
  forward(1, 0);  // outside a step
  fs_step_begin(run, 0);
  forward(0, 0);  // evaluation
  forward(1, 1);  // activation checkpointing runs forward again
  EXPECT_EQ(fs_wants_attention(run, 0), 1);
  fs_step_end(run);
  fs_step_begin(run, 10);
  forward(1, 0);
  EXPECT_EQ(fs_wants_attention(run, 0), 0);
  fs_step_end(run);
  const Recording recording = Close(run);
  EXPECT_EQ(recording.Step(0)->Find(kLogitMax, 0), nullptr);
  EXPECT_NE(recording.Step(10)->Find(kLogitMax, 0), nullptr);
}

TEST_F(StepTest, NanEverywhereTravelsAsNan) {
  ToyModel model;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (auto* t : {&model.q, &model.k, &model.v, &model.o, &model.d_o, &model.dq})
    std::fill(t->begin(), t->end(), nan);
  for (auto* side : {&model.wq, &model.wk}) {
    for (auto& w : *side) std::fill(w.begin(), w.end(), nan);
  }
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int t = 0; t < 21; ++t) {
    fs_step_begin(run, t);
    for (uint32_t l = 0; l < 2; ++l) {
      const fs_attention a = model.Attention(), b = model.WithGradients();
      EXPECT_EQ(fs_attention_forward(run, l, &a), FS_OK) << fs_last_error(run);
      EXPECT_EQ(fs_attention_backward(run, l, &b), FS_OK) << fs_last_error(run);
    }
    fs_loss(run, nan, 10);
    fs_scalar(run, FS_GRAD_NORM, std::numeric_limits<double>::infinity());
    fs_scalar(run, FS_LEARNING_RATE, nan);
    EXPECT_EQ(fs_step_end(run), FS_OK);
  }
  const Recording recording = Close(run);
  const wire::Frame& frame = *recording.Step(20);
  EXPECT_TRUE(std::isnan(frame.Find(kLoss)->values[0]));
  EXPECT_TRUE(std::isinf(frame.Find(kGradNorm)->values[0]));
  for (const uint16_t signal : {kWqSigma1, kQkSigma1, kLogitMax, kSaturatedRowFraction, kUpdateProjection1}) {
    const wire::Series* series = frame.Find(signal, 1);
    ASSERT_NE(series, nullptr) << signal;
    for (size_t h = 0; h < series->count(); ++h) {
      ASSERT_TRUE(series->has(h)) << signal;
      EXPECT_TRUE(std::isnan(series->values[h])) << signal;
    }
  }
}

TEST_F(StepTest, AnOpenStepIsEndedAsSkipped) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_step_begin(run, 1), FS_OK);
  const Recording recording = Close(run);
  ASSERT_EQ(recording.frames.size(), 2u);
  EXPECT_TRUE(recording.frames[0].skipped);
  EXPECT_TRUE(recording.frames[1].skipped);
}

TEST_F(StepTest, EventsKeepTheirPlaceAmongSteps) {
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  fs_event(run, FS_EVENT_RESUME, 200, nullptr);
  model.Step(run, 200);
  fs_event(run, FS_EVENT_CHECKPOINT, 200, "ckpt/200");
  model.Step(run, 201);
  fs_event(run, FS_EVENT_NOTE, 201, std::string(5000, 'x').c_str());
  const Recording recording = Close(run);
  ASSERT_EQ(recording.events.size(), 3u);
  EXPECT_EQ(recording.events[0].kind, wire::EventKind::kResume);
  EXPECT_EQ(recording.events[0].seq, 1u);
  EXPECT_EQ(recording.frames[0].seq, 2u);
  EXPECT_EQ(recording.events[1].seq, 3u);
  EXPECT_EQ(recording.events[1].detail, "ckpt/200");
  EXPECT_EQ(recording.events[2].detail.size(), 1000u) << "cut, not refused";
}

// T1: killed at 212, resumed at 200 under the same explicit attempt, in the same file.
TEST_F(StepTest, ARestartIsANewIncarnationAndBothAreKept) {
  {
    ToyModel model;
    fs_run* run = Open();
    ASSERT_EQ(model.Register(run), FS_OK);
    for (int t = 205; t <= 212; ++t) model.Step(run, t);
    Close(run);
  }
  ToyModel model;
  fs_run* run = Open();
  ASSERT_EQ(model.Register(run), FS_OK);
  for (int t = 200; t <= 213; ++t) model.Step(run, t);
  const Recording recording = Close(run);
  ASSERT_EQ(recording.hellos.size(), 2u);
  EXPECT_EQ(recording.hellos[0].attempt, recording.hellos[1].attempt);
  EXPECT_NE(recording.hellos[0].incarnation, recording.hellos[1].incarnation);
  EXPECT_EQ(recording.frames.size(), 8u + 14u);
}

TEST_F(StepTest, ReplicasShareTheWeightsBetweenThem) {
  Recording recordings[2];
  for (int r = 0; r < 2; ++r) {
    ToyModel model;
    fs_options options = TestOptions(address_);
    options.replica = r;
    options.replicas = 2;
    std::filesystem::remove(dir_ / "run.fsk");
    fs_run* run = nullptr;
    ASSERT_EQ(fs_open(&options, &run), FS_OK);
    ASSERT_EQ(model.Register(run), FS_OK);
    model.Step(run, 0);
    model.Step(run, 10);
    recordings[r] = Close(run);
  }
  for (const uint16_t signal : {kWqSigma1, kWkSigma1, kQkSigma1, kUpdateProjection1}) {
    const wire::Series* even = recordings[0].Step(10)->Find(signal, 0);
    const wire::Series* odd = recordings[1].Step(10)->Find(signal, 0);
    ASSERT_NE(even, nullptr);
    ASSERT_NE(odd, nullptr);
    for (size_t h = 0; h < even->count(); ++h) {
      EXPECT_EQ(even->has(h), h % 2 == 0) << signal << " " << h;
      EXPECT_EQ(odd->has(h), h % 2 == 1) << signal << " " << h;
    }
  }
}

}  // namespace
}  // namespace foreshock::testing
