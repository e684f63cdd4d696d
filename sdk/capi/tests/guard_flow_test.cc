// The guard and actions through the C interface, against a receiver that speaks the real protocol.
#include <gmock/gmock.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "../../exporter/tests/test_receiver.h"
#include "foreshock/base/catalogue.h"
#include "guard_flow.h"

namespace foreshock::testing {
namespace {

TEST_F(GuardFlowTest, SwitchesOnTheLayerThatSaturatesAndSaysThatItHelped) {
  fs_run* run = Open(file_);
  ASSERT_EQ(fs_guard_enable(run, nullptr), FS_OK) << fs_last_error(run);
  int64_t t = 0;
  for (; t < 40; ++t) Step(run, t, 1, 2, 1);
  EXPECT_EQ(fs_guard_active(run, 1), 0);
  float factor = 1;
  while (t < 80 && !fs_guard_active(run, 1)) Step(run, t++, 1, 2, factor *= 1.5f);
  ASSERT_EQ(fs_guard_active(run, 1), 1);
  EXPECT_EQ(fs_guard_active(run, 0), 0);
  for (const int64_t end = t + 6; t < end; ++t) Step(run, t, 1, 2, factor);
  fs_stats stats;
  fs_stats_init(&stats);
  fs_get_stats(run, &stats);
  EXPECT_EQ(stats.guard_layers, 1u);
  ASSERT_EQ(fs_close(run, FS_FINISHED), FS_OK);

  const Recording recording = ReadRecording(dir_ / "run.fsk");
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_EQ(recording.events[0].kind, wire::EventKind::kGuard);
  EXPECT_EQ(recording.events[0].detail, "on");
  EXPECT_THAT(recording.events[0].layers, ::testing::ElementsAre(1u));
  const wire::Event& effect = recording.events[1];
  EXPECT_EQ(effect.kind, wire::EventKind::kAction);
  EXPECT_EQ(effect.action, "enable_qk_norm");
  EXPECT_EQ(effect.action_state, wire::ActionState::kEffective);
  EXPECT_GT(*effect.logit_before, *effect.logit_after);
  EXPECT_LE(*effect.logit_after, 4.0f) << "scale * head_dim bounds normalised logits";
  // Weight norms of a normalised layer are marked as no cause.
  const wire::Frame* last = nullptr;
  for (const auto& frame : recording.frames) {
    if (frame.Find(kWqSigma1, 1) != nullptr) last = &frame;
  }
  EXPECT_EQ(recording.frames[10].Find(kWqSigma1, 1)->flags, 0u);
  if (last->step > recording.events[0].step) {
    EXPECT_EQ(last->Find(kWqSigma1, 1)->flags, wire::kNotCausal);
    EXPECT_EQ(last->Find(kWqSigma1, 0)->flags, 0u);
  }
}

TEST_F(GuardFlowTest, ATrainerThatDoesNotObeyIsToldSo) {
  fs_run* run = Open(file_);
  fs_guard_options options;
  fs_guard_options_init(&options);
  options.automatic = 0;
  ASSERT_EQ(fs_guard_enable(run, &options), FS_OK);
  int64_t t = 0;
  for (; t < 5; ++t) Step(run, t, 0, 0, 100, false);
  EXPECT_EQ(fs_guard_activate(run, 0), FS_OK);
  EXPECT_EQ(fs_guard_activate(run, 9), FS_ERR_UNKNOWN_LAYER);
  EXPECT_EQ(fs_guard_active(run, 0), 0) << "from the next step on";
  for (; t < 10; ++t) Step(run, t, 0, 0, 100, false);
  EXPECT_EQ(fs_guard_active(run, 0), 1);
  fs_close(run, FS_FINISHED);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_EQ(recording.events[1].action_state, wire::ActionState::kNoEffect);
}

TEST_F(GuardFlowTest, StateSurvivesARestart) {
  std::vector<char> state;
  {
    fs_run* run = Open(file_);
    ASSERT_EQ(fs_guard_enable(run, nullptr), FS_OK);
    for (int64_t t = 0; t < 30; ++t) Step(run, t, 0, 0, 1);
    fs_guard_activate(run, 1);
    Step(run, 30, 0, 0, 1);
    size_t bytes = 0;
    ASSERT_EQ(fs_guard_save(run, nullptr, &bytes), FS_OK);
    state.resize(bytes);
    size_t too_small = bytes - 1;
    EXPECT_EQ(fs_guard_save(run, state.data(), &too_small), FS_ERR_LIMIT);
    ASSERT_EQ(fs_guard_save(run, state.data(), &bytes), FS_OK);
    fs_close(run, FS_FINISHED);
  }
  fs_run* run = Open(file_);
  ASSERT_EQ(fs_guard_enable(run, nullptr), FS_OK);
  EXPECT_EQ(fs_guard_restore(run, state.data(), state.size() - 3), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run), ::testing::HasSubstr("cut short"));
  EXPECT_EQ(fs_guard_active(run, 1), 0) << "a failed call changes nothing";
  ASSERT_EQ(fs_guard_restore(run, state.data(), state.size()), FS_OK) << fs_last_error(run);
  EXPECT_EQ(fs_guard_active(run, 1), 1) << "before the first step, so that it is normalised too";
  std::vector<char> again(state.size());
  size_t bytes = again.size();
  ASSERT_EQ(fs_guard_save(run, again.data(), &bytes), FS_OK);
  EXPECT_EQ(again, state) << "baselines included";
  fs_event(run, FS_EVENT_RESUME, 31, nullptr);
  Step(run, 31, 0, 0, 1);
  fs_close(run, FS_FINISHED);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  EXPECT_THAT(recording.events.back().detail, "");  // the resume
  EXPECT_EQ(recording.events[recording.events.size() - 2].detail, "restored");
}

TEST_F(GuardFlowTest, AResumeWithoutStateIsReported) {
  fs_run* run = Open(file_);
  ASSERT_EQ(fs_guard_enable(run, nullptr), FS_OK);
  fs_event(run, FS_EVENT_RESUME, 31, nullptr);
  Step(run, 31, 0, 0, 1);
  fs_close(run, FS_FINISHED);
  const Recording recording = ReadRecording(dir_ / "run.fsk");
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_EQ(recording.events[1].kind, wire::EventKind::kGuard);
  EXPECT_EQ(recording.events[1].detail, "missing");
}

TEST_F(GuardFlowTest, RefusesWhatItCannotGuard) {
  ToyModel narrow;  // heads of 8: normalised logits would be bounded by 2.8
  fs_options options = TestOptions(file_);
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ASSERT_EQ(narrow.Register(run), FS_OK);
  EXPECT_EQ(fs_guard_enable(run, nullptr), FS_ERR_UNSUPPORTED);
  EXPECT_THAT(fs_last_error(run), ::testing::HasSubstr("scale * head_dim: 2.83, must be at least 4"));
  fs_close(run, FS_FINISHED);
  options.world_size = 2;
  options.rank = 0;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  ASSERT_EQ(model_.Register(run), FS_OK);
  EXPECT_EQ(fs_guard_enable(run, nullptr), FS_ERR_UNSUPPORTED) << "ranks would switch at different steps";
  fs_close(run, FS_FINISHED);
}

TEST_F(GuardFlowTest, OneOfSeveralRanksThatHearsOfASwitchTooLateRefuses) {
  TestReceiver receiver(dir_ / "agent.sock");
  world_size_ = 2;
  fs_run* run = Open("unix:" + (dir_ / "agent.sock"), {"enable_qk_norm", "checkpoint"});
  fs_guard_options options;
  fs_guard_options_init(&options);
  options.automatic = 0;
  ASSERT_EQ(fs_guard_enable(run, &options), FS_OK);
  for (int64_t t = 0; t < 3; ++t) Step(run, t, 0, 1, 1);
  ASSERT_TRUE(receiver.WaitForHello(1));
  wire::Reply reply;
  for (const auto& [id, kind, at] :
       {std::tuple("late", "enable_qk_norm", 2), std::tuple("any", "checkpoint", 2),
        std::tuple("now", "enable_qk_norm", 3)}) {
    wire::Action action;
    action.id = id;
    action.kind = kind;
    action.issuer = "operator";
    action.effective_step = at;
    reply.actions.push_back(action);
  }
  receiver.Reply(reply);
  std::vector<std::string> polled;
  fs_action got = {};
  for (int i = 0; i < 20000 && polled.size() < 2; ++i) {
    if (fs_action_poll(run, &got) == FS_OK) {
      polled.push_back(got.id);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_THAT(polled, ::testing::ElementsAre("any", "now")) << "a checkpoint may be late";
  const auto refusal = [](const auto& records) -> std::optional<wire::Event> {
    for (const auto& record : records) {
      if (record.type != wire::RecordType::kEvent) continue;
      const wire::Event event = *wire::DecodeEvent(record.payload);
      if (event.action_state == wire::ActionState::kRefused) return event;
    }
    return std::nullopt;
  };
  ASSERT_TRUE(receiver.WaitFor([&](const auto& records) { return refusal(records).has_value(); }));
  const wire::Event event = *refusal(receiver.records());
  EXPECT_EQ(event.action_id, "late");
  EXPECT_EQ(event.detail, "came too late: the ranks switch at step 2, this one is at 3");
  fs_close(run, FS_FINISHED);
}

TEST_F(GuardFlowTest, ActionsAreDeliveredOnceAndTheirEffectIsMeasured) {
  TestReceiver receiver(dir_ / "agent.sock");
  fs_run* run = Open("unix:" + (dir_ / "agent.sock"), {"enable_qk_norm"});
  fs_guard_options options;
  fs_guard_options_init(&options);
  options.automatic = 0;
  ASSERT_EQ(fs_guard_enable(run, &options), FS_OK);
  int64_t t = 0;
  for (; t < 3; ++t) Step(run, t, 0, 1, 50);
  ASSERT_TRUE(receiver.WaitForHello(1));
  EXPECT_THAT(receiver.hellos()[0].allowed_actions, ::testing::ElementsAre("enable_qk_norm"));
  ASSERT_TRUE(receiver.WaitFor([](const auto& got) { return got.size() >= 3; }));

  wire::Reply reply;
  wire::Action action;
  action.id = "act-1";
  action.kind = "enable_qk_norm";
  action.issuer = "rule:qk_runaway";
  action.effective_step = 6;
  reply.actions.push_back(action);
  reply.actions.push_back(action);  // at least once
  action.id = "act-2";
  action.kind = "stop";
  reply.actions.push_back(action);
  action.id = "act-3";
  action.kind = "enable_qk_norm";
  action.effective_step = 0;
  action.expiry_step = 2;
  reply.actions.push_back(action);
  receiver.Reply(reply);
  const auto events_of = [&](const std::vector<TestReceiver::Got>& got) {
    std::vector<wire::Event> events;
    for (const auto& record : got) {
      if (record.type == wire::RecordType::kEvent) events.push_back(*wire::DecodeEvent(record.payload));
    }
    return events;
  };
  // Waiting for the answers needs steps to go by only for those that the trainer must see.
  fs_action got = {};
  ASSERT_TRUE([&] {
    for (int i = 0; i < 20000; ++i) {
      EXPECT_EQ(fs_action_poll(run, &got), FS_NONE) << "step 6 has not come";
      if (events_of(receiver.records()).size() >= 3) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }());
  while (t < 6) Step(run, t++, 0, 1, 50);
  ASSERT_EQ(fs_action_poll(run, &got), FS_OK);
  EXPECT_STREQ(got.id, "act-1");
  EXPECT_STREQ(got.issuer, "rule:qk_runaway");
  EXPECT_EQ(fs_action_report(run, "act-1", FS_ACTION_TAKEN, "as you wish"), FS_OK);
  EXPECT_EQ(fs_action_report(run, "act-1", FS_ACTION_TAKEN, nullptr), FS_ERR_ARGUMENT) << "once";
  EXPECT_EQ(fs_action_poll(run, &got), FS_NONE);
  while (t < 12) Step(run, t++, 0, 1, 50);
  ASSERT_TRUE(receiver.WaitFor([&](const auto& all) {
    const auto events = events_of(all);
    return !events.empty() && events.back().action_id == "act-1" &&
           events.back().action_state == wire::ActionState::kEffective;
  }));
  std::vector<std::string> story;
  for (const auto& event : events_of(receiver.records())) {
    story.push_back(
        event.action_id + " " +
        std::string(event.kind == wire::EventKind::kGuard ? event.detail : wire::Name(event.action_state)));
  }
  EXPECT_THAT(story, ::testing::ElementsAre("act-1 delivered", "act-2 refused", "act-3 delivered",
                                            "act-3 expired", "act-1 taken", " on", "act-1 effective"));
  fs_close(run, FS_FINISHED);
}

// H8, C users: the norm's gradient agrees with differences.
TEST(QkNormTest, BackwardIsTheGradientOfForward) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const int n = 5;
  std::vector<float> x(n), dy(n), dx(n), y(n);
  for (int i = 0; i < n; ++i)
    x[i] = static_cast<float>(normal(random)), dy[i] = static_cast<float>(normal(random));
  const auto view = [&](std::vector<float>& data) {
    return fs_tensor_bshd(data.data(), FS_FP32, 1, 1, 1, n);
  };
  const fs_tensor tx = view(x), ty = view(y), tdy = view(dy), tdx = view(dx);
  ASSERT_EQ(fs_qk_norm_backward(&tx, &tdy, &tdx), FS_OK);
  const auto dot = [&](int i, float by) {
    std::vector<float> moved = x;
    moved[i] += by;
    const fs_tensor tm = view(moved);
    EXPECT_EQ(fs_qk_norm_forward(&tm, &ty), FS_OK);
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += static_cast<double>(y[j]) * dy[j];
    return sum;
  };
  for (int i = 0; i < n; ++i) EXPECT_NEAR(dx[i], (dot(i, 1e-2f) - dot(i, -1e-2f)) / 2e-2, 2e-3) << i;
  fs_tensor wrong = tdx;
  wrong.dim = 4;
  EXPECT_EQ(fs_qk_norm_backward(&tx, &tdy, &wrong), FS_ERR_SHAPE);
}

TEST_F(GuardFlowTest, ProjectOutRemovesTheLeadingDirectionsOnly) {
  fs_run* run = Open(file_);
  std::vector<float> delta = model_.wq[0];
  EXPECT_EQ(fs_project_out(run, 0, FS_WQ, 1, delta.data(), 1, 16), FS_ERR_STATE) << "no spectrum yet";
  Step(run, 0, 0, 0, 1);
  // W itself: without its three leading pairs its largest singular value is the fourth, so u1^T W v1 is 0,
  // which a second projection shows by changing nothing.
  delta = model_.wq[0];
  float* head = delta.data() + 16 * 16;
  double before = 0, after = 0, moved = 0;
  for (int i = 0; i < 256; ++i) before += head[i] * head[i];
  ASSERT_EQ(fs_project_out(run, 0, FS_WQ, 1, head, 1, 16), FS_OK) << fs_last_error(run);
  std::vector<float> once(head, head + 256);
  for (const float value : once) after += value * value;
  ASSERT_EQ(fs_project_out(run, 0, FS_WQ, 1, head, 1, 16), FS_OK);
  for (int i = 0; i < 256; ++i) moved += (head[i] - once[i]) * (head[i] - once[i]);
  EXPECT_LT(after, 0.8 * before);
  EXPECT_LT(moved, 1e-8 * before);
  float factors[4];
  ASSERT_EQ(fs_qk_clip_factors(run, 0, 1e-3, factors, 4), FS_OK);
  for (const float factor : factors) EXPECT_LT(factor, 1);
  ASSERT_EQ(fs_qk_clip_factors(run, 0, 1e6, factors, 4), FS_OK);
  for (const float factor : factors) EXPECT_EQ(factor, 1);
  fs_close(run, FS_FINISHED);
}

}  // namespace
}  // namespace foreshock::testing
