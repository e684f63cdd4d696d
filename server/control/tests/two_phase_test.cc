// enable_qk_norm of several ranks: all of them at one step, or none. The ranks are written into the store as
// ingest would write them; what goes out to them is read from the outbox.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "foreshock/server/control/controls.h"
#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

using std::chrono::seconds;
using wire::ActionState;

class TwoPhaseOutbox final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action& action) override {
    std::lock_guard lock(mutex_);
    proposals_.erase(action.id);
    actions_[action.id] = action;
  }
  void PutProposal(const std::string&, const std::string&, const wire::Action& action) override {
    std::lock_guard lock(mutex_);
    proposals_[action.id] = action;
  }
  void WithdrawAction(const std::string&, const std::string&, const std::string& id) override {
    std::lock_guard lock(mutex_);
    proposals_.erase(id);
    actions_.erase(id);
  }
  void SetSampling(const std::string&, const std::string&, const wire::Sampling&) override {}
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
  std::map<std::string, wire::Action> actions() const {
    std::lock_guard lock(mutex_);
    return actions_;
  }
  std::map<std::string, wire::Action> proposals() const {
    std::lock_guard lock(mutex_);
    return proposals_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, wire::Action> actions_, proposals_;
};

class TwoPhaseTest : public testing::Test {
 protected:
  void Start() {
    outbox_ = std::make_unique<TwoPhaseOutbox>();
    ControlOptions options;
    options.store = &history_.store();
    options.outbox = outbox_.get();
    options.clock = &history_.clock();
    options.seed = 1;
    options.acknowledge_timeout = seconds(60);
    controls_ = *Controls::Start(options);
  }
  // A process of a rank, at step 100 of ten a second.
  void Join(uint32_t rank, uint64_t incarnation = 1, uint32_t protocol = 1) {
    wire::Hello hello = tests::SmallHello("run");
    hello.rank = rank;
    hello.world_size = world_size_;
    hello.incarnation = 100 * rank + incarnation;
    hello.action_protocol = protocol;
    hello.sdk_version = "0.4.0";
    ranks_[rank] = history_.Hello(hello);
  }
  void TrainTo(int64_t first, int64_t last) {
    for (const auto& [rank, source] : ranks_) history_.PutOfRank(source, tests::Loss(first, 4));
    history_.clock().Advance(std::chrono::milliseconds(100 * (last - first)));
    for (const auto& [rank, source] : ranks_) history_.PutOfRank(source, tests::Loss(last, 4));
  }
  void StartTwoRanks() {
    Start();
    Join(0);
    Join(1);
    TrainTo(0, 100);
  }
  std::string Propose(int64_t effective = 0, int64_t expiry = 0) {
    v1::ActRequest request;
    request.set_run("run");
    request.set_kind("enable_qk_norm");
    request.set_effective_step(effective);
    request.set_expiry_step(expiry);
    const auto reply = controls_->Act(request);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    return reply.ok() ? reply->action().id() : "";
  }
  void Say(uint32_t rank, const std::string& id, ActionState state, int64_t step = 100,
           const std::string& detail = "") {
    wire::Event event;
    event.kind = wire::EventKind::kAction;
    event.action = "enable_qk_norm";
    event.action_id = id;
    event.action_state = state;
    event.step = step;
    event.detail = detail;
    history_.Put(ranks_.at(rank), std::move(event));
  }
  v1::ActionRecord Record(const std::string& id) {
    controls_->Flush();
    v1::ListActionsRequest request;
    request.set_run("run");
    const auto reply = controls_->ListActions(request);
    if (reply.ok()) {
      for (const v1::ActionRecord& record : reply->actions()) {
        if (record.action().id() == id) return record;
      }
    }
    ADD_FAILURE() << "no action " << id;
    return {};
  }
  // Nobody was told to do anything, and nobody is asked any more.
  void ExpectWithdrawn(const std::string& id, const std::string& why) {
    const v1::ActionRecord record = Record(id);
    EXPECT_EQ(record.state(), v1::ACTION_STATE_WITHDRAWN);
    EXPECT_EQ(record.detail(), why);
    EXPECT_FALSE(record.action().committed());
    EXPECT_EQ(record.waits_for_ranks_size(), 0);
    EXPECT_FALSE(outbox_->actions().contains(id));
    EXPECT_FALSE(outbox_->proposals().contains(id));
  }

  uint32_t world_size_ = 2;
  tests::History history_;
  std::map<uint32_t, store::SourceId> ranks_;
  std::unique_ptr<TwoPhaseOutbox> outbox_;
  std::unique_ptr<Controls> controls_;
};

TEST_F(TwoPhaseTest, IsCommittedOnceEveryRankHasAcknowledged) {
  StartTwoRanks();
  const std::string id = Propose();
  EXPECT_TRUE(outbox_->proposals().contains(id));
  EXPECT_TRUE(outbox_->actions().empty()) << "nobody may do it yet";
  Say(1, id, ActionState::kAcknowledged);
  v1::ActionRecord record = Record(id);
  EXPECT_EQ(record.state(), v1::ACTION_STATE_PROPOSED);
  EXPECT_EQ(record.detail(), "waits for rank 0");
  ASSERT_EQ(record.waits_for_ranks_size(), 1);
  EXPECT_EQ(record.waits_for_ranks(0), 0u);
  EXPECT_TRUE(outbox_->actions().empty());

  Say(0, id, ActionState::kAcknowledged);
  record = Record(id);
  EXPECT_EQ(record.state(), v1::ACTION_STATE_COMMITTED);
  EXPECT_EQ(record.action().effective_step(), 200) << "ten seconds at ten steps a second";
  EXPECT_EQ(record.waits_for_ranks_size(), 0);
  ASSERT_TRUE(outbox_->actions().contains(id));
  EXPECT_TRUE(outbox_->actions()[id].committed);
  EXPECT_EQ(outbox_->actions()[id].effective_step, 200);
  EXPECT_TRUE(outbox_->proposals().empty());

  Say(0, id, ActionState::kDelivered, 110);
  Say(0, id, ActionState::kTaken, 199);
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_TAKEN);
  EXPECT_TRUE(outbox_->actions().contains(id)) << "rank 1 may connect again and still need it";
  Say(1, id, ActionState::kTaken, 199);
  record = Record(id);
  EXPECT_EQ(record.state(), v1::ACTION_STATE_TAKEN);
  EXPECT_EQ(record.detail(), "");
  EXPECT_TRUE(outbox_->actions().empty());
  Say(0, id, ActionState::kEffective, 230);
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_EFFECTIVE);
}

TEST_F(TwoPhaseTest, IsWithdrawnWhereOneRankIsNotHeardInTime) {
  StartTwoRanks();
  const std::string id = Propose();
  Say(0, id, ActionState::kAcknowledged);
  history_.clock().Advance(seconds(59));
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_PROPOSED);
  history_.clock().Advance(seconds(1));
  ExpectWithdrawn(id, "rank 1 did not acknowledge");
  Say(1, id, ActionState::kAcknowledged);
  ExpectWithdrawn(id, "rank 1 did not acknowledge");
}

TEST_F(TwoPhaseTest, SaysWhichRanksNeverCameAtAll) {
  world_size_ = 4;
  StartTwoRanks();
  const std::string id = Propose();
  Say(0, id, ActionState::kAcknowledged);
  EXPECT_EQ(Record(id).detail(), "waits for ranks 1, 2 and 3");
  history_.clock().Advance(seconds(60));
  ExpectWithdrawn(id, "ranks 1, 2 and 3 did not acknowledge (ranks 2 and 3 never connected)");
}

TEST_F(TwoPhaseTest, OneRankThatRefusesOrEndsEndsIt) {
  StartTwoRanks();
  const std::string refused = Propose(), ended = Propose();
  Say(0, refused, ActionState::kAcknowledged);
  Say(1, refused, ActionState::kRefused, 100, "not on the trainer's allow-list");
  ExpectWithdrawn(refused, "rank 1 refused: not on the trainer's allow-list");
  Say(0, ended, ActionState::kAcknowledged);
  history_.Goodbye(ranks_[1], 100);
  ExpectWithdrawn(ended, "rank 1 has ended");
}

// Killed between acknowledgement and commit, and started again: the new process has promised nothing.
TEST_F(TwoPhaseTest, ANewProcessOfARankMustAcknowledgeAnew) {
  StartTwoRanks();
  const std::string id = Propose();
  Say(1, id, ActionState::kAcknowledged);
  Join(1, 2);
  Say(0, id, ActionState::kAcknowledged);
  EXPECT_EQ(Record(id).detail(), "waits for rank 1");
  Say(1, id, ActionState::kAcknowledged);
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_COMMITTED);
}

TEST_F(TwoPhaseTest, ARestartGoesOnWhereItWas) {
  StartTwoRanks();
  const std::string id = Propose(), lost = Propose();
  Say(0, id, ActionState::kAcknowledged);
  Say(0, lost, ActionState::kRefused, 100, "no");
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_PROPOSED);
  ExpectWithdrawn(lost, "rank 0 refused: no");
  const auto restart = [&] {
    controls_.reset();
    history_.clock().Advance(seconds(50));
    history_.Reopen();
    Start();
  };
  restart();
  EXPECT_TRUE(outbox_->proposals().contains(id)) << "asked again";
  ExpectWithdrawn(lost, "rank 0 refused: no");
  history_.clock().Advance(seconds(50));
  EXPECT_EQ(Record(id).detail(), "waits for rank 1") << "rank 0's word is durable; its time began anew";
  Join(1);
  Say(1, id, ActionState::kAcknowledged);
  const int64_t step = Record(id).action().effective_step();
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_COMMITTED);
  EXPECT_GT(step, 1100) << "the ranks have gone on for a hundred seconds meanwhile";
  restart();
  ASSERT_TRUE(outbox_->actions().contains(id)) << "a commit stands";
  EXPECT_TRUE(outbox_->actions()[id].committed);
  EXPECT_EQ(outbox_->actions()[id].effective_step, step);
  EXPECT_TRUE(outbox_->proposals().empty());
  Join(0);
  Say(0, id, ActionState::kTaken, step - 1);
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_TAKEN);
  restart();
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_TAKEN);
  EXPECT_TRUE(outbox_->actions().contains(id)) << "rank 1 has not said that it did it";
}

TEST_F(TwoPhaseTest, ARestartInTimeForTheLastDeadlineWithdraws) {
  StartTwoRanks();
  const std::string id = Propose();
  controls_.reset();
  history_.Reopen();
  Start();
  history_.clock().Advance(seconds(60));
  ExpectWithdrawn(id, "ranks 0 and 1 did not acknowledge");
}

TEST_F(TwoPhaseTest, ARankWhoseSdkKnowsNoProposalsIsNamed) {
  Start();
  Join(0);
  Join(1, 1, 0);
  TrainTo(0, 100);
  const std::string id = Propose();
  const v1::ActionRecord record = Record(id);
  EXPECT_EQ(record.note(), "in one phase: rank 1 (SDK 0.4.0) knows no proposals");
  EXPECT_FALSE(record.two_phase());
  EXPECT_TRUE(outbox_->proposals().empty());
  ASSERT_TRUE(outbox_->actions().contains(id));
  EXPECT_FALSE(outbox_->actions()[id].committed);
  EXPECT_EQ(outbox_->actions()[id].effective_step, 200);
}

TEST_F(TwoPhaseTest, TwoAtOnceDoNotTouchEachOther) {
  StartTwoRanks();
  const std::string first = Propose(), second = Propose(500);
  Say(0, first, ActionState::kAcknowledged);
  Say(1, second, ActionState::kAcknowledged);
  EXPECT_EQ(Record(first).detail(), "waits for rank 1");
  EXPECT_EQ(Record(second).detail(), "waits for rank 0");
  EXPECT_TRUE(outbox_->actions().empty());
  Say(0, second, ActionState::kAcknowledged);
  EXPECT_EQ(Record(second).action().effective_step(), 500);
  EXPECT_EQ(Record(first).state(), v1::ACTION_STATE_PROPOSED);
  history_.clock().Advance(seconds(60));
  ExpectWithdrawn(first, "rank 1 did not acknowledge");
  EXPECT_EQ(Record(second).state(), v1::ACTION_STATE_COMMITTED);
}

// Whatever a trainer says out of turn, nobody is told to switch that the others do not follow.
TEST_F(TwoPhaseTest, WordsOutOfTurnChangeNothing) {
  StartTwoRanks();
  const std::string id = Propose();
  for (int again = 0; again < 3; ++again) Say(0, id, ActionState::kAcknowledged);
  Say(0, "another", ActionState::kAcknowledged);
  Say(1, "another", ActionState::kAcknowledged);
  Say(1, "", ActionState::kAcknowledged);
  Say(0, id, ActionState::kCommitted);
  Say(0, id, ActionState::kWithdrawn);
  Say(0, id, ActionState::kTaken);
  Say(0, id, ActionState::kUnspecified);
  Say(0, id, ActionState::kDelivered);
  Say(0, id, ActionState::kExpired);
  const v1::ActionRecord record = Record(id);
  EXPECT_EQ(record.state(), v1::ACTION_STATE_PROPOSED);
  EXPECT_EQ(record.detail(), "waits for rank 1");
  EXPECT_EQ(record.history_size(), 9);
  EXPECT_TRUE(outbox_->actions().empty());
}

// A rank beyond the world makes it larger: everyone else is waited for.
TEST_F(TwoPhaseTest, ARankBeyondTheWorldIsNoSubstitute) {
  StartTwoRanks();
  const std::string id = Propose();
  Say(0, id, ActionState::kAcknowledged);
  wire::Hello hello = tests::SmallHello("run");
  hello.rank = 2;
  hello.world_size = 3;
  hello.incarnation = 77;
  hello.action_protocol = 1;
  ranks_[2] = history_.Hello(hello);
  Say(2, id, ActionState::kAcknowledged);
  EXPECT_EQ(Record(id).detail(), "waits for rank 1");
}

TEST_F(TwoPhaseTest, WhoSwitchedLateOrNotAfterAllIsSaid) {
  world_size_ = 3;
  Start();
  for (uint32_t rank = 0; rank < 3; ++rank) Join(rank);
  TrainTo(0, 100);
  const std::string id = Propose();
  for (uint32_t rank = 0; rank < 3; ++rank) Say(rank, id, ActionState::kAcknowledged);
  ASSERT_EQ(Record(id).action().effective_step(), 200);
  Say(0, id, ActionState::kTaken, 199);
  Say(1, id, ActionState::kTaken, 211);
  Say(2, id, ActionState::kRefused, 199, "the guard is off");
  const v1::ActionRecord record = Record(id);
  EXPECT_EQ(record.state(), v1::ACTION_STATE_TAKEN);
  EXPECT_EQ(record.detail(), "rank 1 switched 12 steps late; rank 2 refused after all: the guard is off");
  EXPECT_TRUE(outbox_->actions().empty());
}

TEST_F(TwoPhaseTest, ACommitThatEveryRankRefusesIsRefused) {
  StartTwoRanks();
  const std::string id = Propose();
  for (uint32_t rank = 0; rank < 2; ++rank) Say(rank, id, ActionState::kAcknowledged);
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_COMMITTED);
  for (uint32_t rank = 0; rank < 2; ++rank) Say(rank, id, ActionState::kRefused, 199, "no");
  EXPECT_EQ(Record(id).state(), v1::ACTION_STATE_REFUSED);
  EXPECT_TRUE(outbox_->actions().empty());
}

TEST_F(TwoPhaseTest, ExpiryAndTheEndOfTheAttempt) {
  StartTwoRanks();
  const std::string narrow = Propose(0, 210), open = Propose();
  Say(0, narrow, ActionState::kAcknowledged);
  Say(0, open, ActionState::kAcknowledged);
  TrainTo(110, 120);
  Say(1, narrow, ActionState::kAcknowledged, 120);
  ExpectWithdrawn(narrow, "the ranks can switch at step 230 at the earliest, and it expires at 210");
  wire::Hello next = tests::SmallHello("run", "2");
  next.incarnation = 5;
  history_.Hello(next);
  EXPECT_EQ(Record(open).state(), v1::ACTION_STATE_EXPIRED);
  EXPECT_TRUE(outbox_->proposals().empty());
}

}  // namespace
}  // namespace foreshock::control
