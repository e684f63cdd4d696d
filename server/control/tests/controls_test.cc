#include "foreshock/server/control/controls.h"
#include "foreshock/archive/entry.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "foreshock/rpc/server.h"
#include "foreshock/rpc/services.h"
#include "foreshock/server/control/control_service.h"
#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

using tests::History;
using tests::Loss;
using wire::ActionState;

// What would go to the trainers: ingest's part, which sends it, has tests of its own.
class Outgoing final : public ingest::Outbox {
 public:
  void PutAction(const std::string& run, const std::string& attempt, const wire::Action& action) override {
    std::lock_guard lock(mutex_);
    actions[run + "/" + attempt + "/" + action.id] = action;
  }
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {
    ADD_FAILURE() << "no rank here knows proposals";
  }
  void WithdrawAction(const std::string& run, const std::string& attempt, const std::string& id) override {
    std::lock_guard lock(mutex_);
    actions.erase(run + "/" + attempt + "/" + id);
  }
  void SetSampling(const std::string& run, const std::string& attempt,
                   const wire::Sampling& sampling) override {
    std::lock_guard lock(mutex_);
    samplings[run + "/" + attempt] = sampling;
  }
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return actions.size();
  }

  mutable std::mutex mutex_;
  std::map<std::string, wire::Action> actions;
  std::map<std::string, wire::Sampling> samplings;
};

class ControlsTest : public testing::Test {
 protected:
  void Start(ControlOptions options = {}) {
    outgoing_ = std::make_unique<Outgoing>();
    options.store = &history_.store();
    options.outbox = outgoing_.get();
    options.clock = &history_.clock();
    options.seed = 1;
    controls_ = *Controls::Start(options);
  }
  v1::ActRequest Ask(const std::string& kind) {
    v1::ActRequest request;
    request.set_run("run");
    request.set_kind(kind);
    return request;
  }
  std::string Act(const v1::ActRequest& request) {
    const auto reply = controls_->Act(request);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    return reply.ok() ? reply->action().id() : "";
  }
  // The code and the field that the refusal names.
  std::pair<Code, std::string> Refused(const v1::ActRequest& request) {
    const auto reply = controls_->Act(request);
    EXPECT_FALSE(reply.ok());
    const std::string& message = reply.status().message();
    return {reply.status().code(), message.substr(0, message.find(':'))};
  }
  void Tell(const store::SourceId& source, const std::string& id, int64_t step, ActionState state,
            const std::string& detail = "", std::optional<float> before = {},
            std::optional<float> after = {}) {
    wire::Event event;
    event.kind = wire::EventKind::kAction;
    event.step = step;
    event.action_id = id;
    event.action_state = state;
    event.detail = detail;
    event.logit_before = before;
    event.logit_after = after;
    history_.Put(source, std::move(event));
  }
  v1::ActionRecord Only() {
    controls_->Flush();
    v1::ListActionsRequest request;
    request.set_run("run");
    const auto reply = controls_->ListActions(request);
    EXPECT_TRUE(reply.ok() && reply->actions_size() == 1);
    return reply.ok() && reply->actions_size() == 1 ? reply->actions(0) : v1::ActionRecord();
  }

  History history_;
  std::unique_ptr<Outgoing> outgoing_;
  std::unique_ptr<Controls> controls_;
};

TEST_F(ControlsTest, AnActionIsFollowedFromProposalToEffect) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(10, 4));
  auto request = Ask("enable_qk_norm");
  request.add_layers(1);
  request.set_expiry_step(100);
  request.set_reason("logits run away");
  const std::string id = Act(request);
  ASSERT_EQ(outgoing_->size(), 1u);
  const wire::Action sent = outgoing_->actions.begin()->second;
  EXPECT_EQ(sent.id, id);
  EXPECT_EQ(sent.attempt, "1");
  EXPECT_EQ(sent.issuer, "operator");
  EXPECT_EQ(sent.layers, std::vector<uint32_t>{1});
  EXPECT_EQ(sent.expiry_step, 100);
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_PROPOSED);

  Tell(source, id, 11, ActionState::kDelivered);
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_DELIVERED);
  EXPECT_EQ(outgoing_->size(), 1u);
  Tell(source, id, 12, ActionState::kTaken);
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_TAKEN);
  EXPECT_EQ(outgoing_->size(), 0u) << "no need to send it again";
  Tell(source, id, 22, ActionState::kEffective, "", 180.5f, 3.25f);
  const v1::ActionRecord record = Only();
  EXPECT_EQ(record.state(), v1::ACTION_STATE_EFFECTIVE);
  EXPECT_EQ(record.state_step(), 22);
  EXPECT_EQ(record.logit_before(), 180.5f);
  EXPECT_EQ(record.logit_after(), 3.25f);
  EXPECT_EQ(record.history_size(), 3);
  history_.Put(source, Loss(150, 4));
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_EFFECTIVE) << "taken in time, so it does not expire";
}

TEST_F(ControlsTest, ARefusalKeepsItsReason) {
  Start();
  const auto source = history_.Hello("run");
  const std::string id = Act(Ask("stop"));
  Tell(source, id, 5, ActionState::kRefused, "stop is not on the allow-list");
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_REFUSED);
  EXPECT_EQ(Only().detail(), "stop is not on the allow-list");
  EXPECT_EQ(outgoing_->size(), 0u);
}

TEST_F(ControlsTest, WhatIsNotTakenInTimeExpires) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(10, 4));
  auto request = Ask("checkpoint");
  request.set_expiry_step(20);
  Act(request);
  history_.Put(source, Loss(19, 4));
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_PROPOSED);
  history_.Put(source, Loss(20, 4));
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_EXPIRED);
  EXPECT_EQ(Only().state_step(), 20);
  EXPECT_EQ(outgoing_->size(), 0u);
}

TEST_F(ControlsTest, TheEndOfTheAttemptExpiresIt) {
  Start();
  const auto first = history_.Hello("run", "1");
  history_.Put(first, Loss(10, 4));
  Act(Ask("checkpoint"));
  history_.Hello("run", "2");
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_EXPIRED);
  EXPECT_EQ(outgoing_->size(), 0u);
}

TEST_F(ControlsTest, AfterARestartWhatIsOpenIsSentAgainAndProgressMeanwhileIsSeen) {
  Start();
  auto source = history_.Hello("run");
  history_.Put(source, Loss(10, 4));
  const std::string id = Act(Ask("enable_qk_norm"));
  v1::SetSamplingRequest sampling;
  sampling.set_run("run");
  sampling.mutable_sampling()->set_attention_every_steps(5);
  ASSERT_TRUE(controls_->SetSampling(sampling).ok());
  controls_.reset();
  history_.Reopen();
  Start();
  ASSERT_EQ(outgoing_->size(), 1u);
  EXPECT_EQ(outgoing_->actions.begin()->second.id, id);
  EXPECT_EQ(outgoing_->samplings["run/1"].attention_every_steps, 5u);
  controls_.reset();
  source = history_.Hello("run");
  Tell(source, id, 11, ActionState::kTaken);  // while nobody followed
  Start();
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_TAKEN);
  EXPECT_EQ(outgoing_->size(), 0u);
}

TEST_F(ControlsTest, WhatAnArchiveBringsIsTakenUp) {
  Start();
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(10, 4));
  const std::string id = Act(Ask("checkpoint"));
  v1::SetSamplingRequest sampling;
  sampling.set_run("run");
  sampling.mutable_sampling()->set_attention_every_steps(5);
  ASSERT_TRUE(controls_->SetSampling(sampling).ok());

  History other;
  Outgoing outgoing;
  ControlOptions options;
  options.store = &other.store();
  options.outbox = &outgoing;
  options.clock = &other.clock();
  const auto controls = *Controls::Start(options);
  auto import = *other.store().StartImport({"run", 1, 1, "test"}, 1);
  ASSERT_TRUE(
      history_.store().ExportRun("run", 1, [&](archive::Entry entry) { return import->Add(entry); }).ok());
  // One that stands under another's name is none.
  v1::ActionRecord liar;
  liar.mutable_action()->set_id("another");
  liar.mutable_action()->set_attempt("1");
  ASSERT_TRUE(import->Add(archive::Note{"action", "liar", liar.SerializeAsString(), true}).ok());
  EXPECT_EQ(outgoing.size(), 0u);
  ASSERT_TRUE(import->Finish().ok());
  controls->Flush();
  ASSERT_EQ(outgoing.size(), 1u);
  EXPECT_EQ(outgoing.actions.begin()->second.id, id);
  EXPECT_EQ(outgoing.samplings["run/1"].attention_every_steps, 5u);
}

TEST(Supersedes, ACommitStands) {
  const auto record = [](const char* id, bool committed) {
    v1::ActionRecord made;
    made.mutable_action()->set_id(id);
    made.mutable_action()->set_committed(committed);
    made.set_state(committed ? v1::ACTION_STATE_COMMITTED : v1::ACTION_STATE_WITHDRAWN);
    return made.SerializeAsString();
  };
  EXPECT_TRUE(Supersedes("action", record("a", false), record("a", true)));
  EXPECT_FALSE(Supersedes("action", record("a", true), record("a", false)));
  EXPECT_FALSE(Supersedes("action", record("a", true), record("a", true)));
  EXPECT_FALSE(Supersedes("action", record("a", false), record("b", true)));
  EXPECT_FALSE(Supersedes("alert", record("a", false), record("a", true)));
  EXPECT_FALSE(Supersedes("action", record("a", false), "\xff"));
}

TEST_F(ControlsTest, OneRankThatTookItCountsMoreThanOneThatRefused) {
  Start();
  const auto source = history_.Hello("run");
  const std::string id = Act(Ask("enable_qk_norm"));
  Tell(source, id, 5, ActionState::kTaken);
  Tell(source, id, 5, ActionState::kRefused, "no");
  EXPECT_EQ(Only().state(), v1::ACTION_STATE_TAKEN);
  EXPECT_EQ(Only().history_size(), 2);
}

// Two ranks whose SDK knows no proposals, ten steps a second, the further one at step 100; its last record is
// five seconds old.
TEST_F(ControlsTest, OldRanksSwitchAtOneStepThatNoneHasReached) {
  Start();
  const int64_t second = 1'000'000'000;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    wire::Hello hello = tests::SmallHello("run");
    hello.rank = rank;
    hello.world_size = 2;
    hello.incarnation += rank;
    const auto source = history_.Hello(hello);
    history_.PutOfRank(source, Loss(50, 4));
    history_.clock().Advance(std::chrono::nanoseconds(5 * second));
    history_.PutOfRank(source, Loss(rank == 0 ? 100 : 90, 4));
  }
  const auto switch_at = [&](int64_t asked, const char* kind = "enable_qk_norm") {
    auto request = Ask(kind);
    request.set_effective_step(asked);
    const auto reply = controls_->Act(request);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    return reply.ok() ? reply->action().effective_step() : -1;
  };
  EXPECT_EQ(switch_at(0), 250) << "ten seconds are a hundred steps, and it may be five further";
  EXPECT_EQ(switch_at(120), 250);
  EXPECT_EQ(switch_at(500), 500);
  EXPECT_EQ(switch_at(0, "checkpoint"), 0) << "which each rank may take when it hears of it";
  auto request = Ask("enable_qk_norm");
  request.set_expiry_step(150);
  EXPECT_EQ(Refused(request), std::pair(Code::kInvalidArgument, std::string("expiry_step")));
}

TEST_F(ControlsTest, BadRequestsNameTheirField) {
  Start();
  history_.Put(history_.Hello("run"), Loss(50, 4));
  const auto invalid = [](const char* field) {
    return std::pair(Code::kInvalidArgument, std::string(field));
  };
  EXPECT_EQ(Refused(Ask("explode")), invalid("kind"));
  auto request = Ask("stop");
  request.set_run("");
  EXPECT_EQ(Refused(request), invalid("run"));
  request = Ask("enable_qk_norm");
  request.add_layers(2);
  EXPECT_EQ(Refused(request), invalid("layers"));
  request = Ask("qk_clip");
  EXPECT_EQ(Refused(request), invalid("value"));
  request.set_value(std::nan(""));
  EXPECT_EQ(Refused(request), invalid("value"));
  request = Ask("stop");
  request.set_value(1);
  EXPECT_EQ(Refused(request), invalid("value"));
  request = Ask("stop");
  request.set_expiry_step(50);
  EXPECT_EQ(Refused(request), invalid("expiry_step"));
  request.set_expiry_step(60);
  request.set_effective_step(60);
  EXPECT_EQ(Refused(request), invalid("expiry_step"));
  request.set_expiry_step(-1);
  EXPECT_EQ(Refused(request), invalid("expiry_step"));
  request = Ask("stop");
  request.set_issuer("rule:me");
  EXPECT_EQ(Refused(request), invalid("issuer"));
  request = Ask("stop");
  request.set_reason(std::string(2000, 'x'));
  EXPECT_EQ(Refused(request), invalid("reason"));
  request = Ask("stop");
  request.set_run("nobody");
  EXPECT_EQ(Refused(request).first, Code::kNotFound);
  request = Ask("stop");
  request.set_attempt("9");
  EXPECT_EQ(Refused(request).first, Code::kNotFound);
  EXPECT_EQ(outgoing_->size(), 0u);
}

TEST_F(ControlsTest, OldAttemptsAndEndedRunsTakeNoActions) {
  Start();
  history_.Hello("run", "1");
  const auto second = history_.Hello("run", "2");
  auto request = Ask("checkpoint");
  request.set_attempt("1");
  EXPECT_EQ(Refused(request).first, Code::kFailedPrecondition);
  history_.Goodbye(second, 0);
  EXPECT_EQ(Refused(Ask("checkpoint")).first, Code::kFailedPrecondition);
}

TEST_F(ControlsTest, RulesNeedTheirOptIns) {
  Start();
  history_.Hello("run");
  EXPECT_EQ(controls_->ActByRule("qk_runaway", Ask("checkpoint")).status().code(), Code::kPermissionDenied);
  controls_.reset();
  Start({.allow_rule_actions = true});
  EXPECT_EQ(controls_->ActByRule("qk_runaway", Ask("stop")).status().code(), Code::kPermissionDenied);
  const auto reply = controls_->ActByRule("qk_runaway", Ask("checkpoint"));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->action().issuer(), "rule:qk_runaway");
}

TEST_F(ControlsTest, SamplingIsCheckedAndHandedOn) {
  Start();
  history_.Hello("run");
  v1::SetSamplingRequest request;
  request.set_run("run");
  EXPECT_EQ(controls_->SetSampling(request).code(), Code::kInvalidArgument);
  request.mutable_sampling()->set_row_stride(1 << 20);
  EXPECT_EQ(controls_->SetSampling(request).code(), Code::kInvalidArgument);
  request.mutable_sampling()->set_row_stride(4);
  EXPECT_TRUE(controls_->SetSampling(request).ok());
  EXPECT_EQ(outgoing_->samplings["run/1"].row_stride, 4u);
}

TEST_F(ControlsTest, AnswersOverGrpc) {
  Start();
  history_.Hello("run");
  upkeep::UpkeepOptions upkeep_options;
  upkeep_options.store = &history_.store();
  upkeep_options.clock = &history_.clock();
  const auto upkeep = upkeep::Upkeep::Start(upkeep_options);
  const SilenceApi no_silences(nullptr, nullptr, nullptr);  // not asked here
  auto service = ControlService::Create(controls_.get(), upkeep.get(), &no_silences);
  auto server = *rpc::Server::Start({}, nullptr, {service->service()});
  auto stub = v1::Control::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()), grpc::InsecureChannelCredentials()));
  v1::ActReply reply;
  grpc::ClientContext first, second, third;
  EXPECT_EQ(stub->Act(&first, Ask("nothing"), &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(stub->Act(&second, Ask("checkpoint"), &reply).ok());
  v1::ListActionsRequest request;
  request.set_run("run");
  v1::ListActionsReply list;
  ASSERT_TRUE(stub->ListActions(&third, request, &list).ok());
  ASSERT_EQ(list.actions_size(), 1);
  EXPECT_EQ(list.actions(0).action().id(), reply.action().id());
  server->Stop(100);
}

}  // namespace
}  // namespace foreshock::control
