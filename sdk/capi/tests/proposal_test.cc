// A switch of several ranks as one of them sees it: proposed, acknowledged, committed; and what a link can do
// to that.
#include <gmock/gmock.h>

#include "../../exporter/tests/test_receiver.h"
#include "guard_flow.h"

namespace foreshock::testing {
namespace {

using wire::ActionState;

class ProposalTest : public GuardFlowTest {
 protected:
  ProposalTest() { world_size_ = 2; }
  ~ProposalTest() override { fs_close(run_, FS_FINISHED); }

  void Begin(std::vector<const char*> allowed = {"enable_qk_norm"}) {
    run_ = Open("unix:" + (dir_ / "agent.sock"), std::move(allowed));
    fs_guard_options options;
    fs_guard_options_init(&options);
    options.automatic = 0;
    ASSERT_EQ(fs_guard_enable(run_, &options), FS_OK);
    TrainTo(3);
    ASSERT_TRUE(receiver_.WaitForHello(1));
  }
  void TrainTo(int64_t step) {
    for (; t_ < step; ++t_) Step(run_, t_, 0, 1, 1);
  }
  static wire::Action Switch(const std::string& id, int64_t at = 0, bool committed = false) {
    wire::Action action;
    action.id = id;
    action.kind = "enable_qk_norm";
    action.issuer = "operator";
    action.effective_step = at;
    action.committed = committed;
    return action;
  }
  void Receive(std::vector<wire::Action> proposals, std::vector<wire::Action> actions) {
    wire::Reply reply;
    reply.proposals = std::move(proposals);
    reply.actions = std::move(actions);
    receiver_.Reply(reply);
  }
  std::vector<wire::Event> Events() const {
    std::vector<wire::Event> events;
    for (const auto& record : receiver_.records()) {
      if (record.type == wire::RecordType::kEvent) events.push_back(*wire::DecodeEvent(record.payload));
    }
    return events;
  }
  size_t Count(const std::string& id, ActionState state) const {
    size_t count = 0;
    for (const wire::Event& event : Events()) count += event.action_id == id && event.action_state == state;
    return count;
  }
  // Polls without a step going by, until the other end has heard that often.
  bool AwaitWord(const std::string& id, ActionState state, size_t times = 1) {
    for (int i = 0; i < 20000; ++i) {
      Poll();
      if (Count(id, state) >= times) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  void Poll() {
    fs_action got = {};
    while (fs_action_poll(run_, &got) == FS_OK) {
      taken_.emplace_back(got.id, t_);
      fs_action_report(run_, got.id, FS_ACTION_TAKEN, nullptr);
    }
  }

  TestReceiver receiver_{dir_ / "agent.sock"};
  fs_run* run_ = nullptr;
  int64_t t_ = 0;
  std::vector<std::pair<std::string, int64_t>> taken_;  // id, step that comes next
};

TEST_F(ProposalTest, IsAcknowledgedAndDoneAtTheStepOfTheCommit) {
  Begin();
  EXPECT_EQ(receiver_.hellos()[0].action_protocol, 1u);
  Receive({Switch("a")}, {});
  ASSERT_TRUE(AwaitWord("a", ActionState::kAcknowledged));
  TrainTo(6);
  Poll();
  EXPECT_TRUE(taken_.empty()) << "a proposal is not to be done";
  EXPECT_EQ(fs_guard_active(run_, 0), 0);
  Receive({}, {Switch("a", 9, true)});
  ASSERT_TRUE(AwaitWord("a", ActionState::kDelivered));
  for (; t_ < 12; TrainTo(t_ + 1)) Poll();
  EXPECT_THAT(taken_, ::testing::ElementsAre(::testing::Pair("a", 9)));
  EXPECT_EQ(fs_guard_active(run_, 0), 1);
}

TEST_F(ProposalTest, ALateCommitIsDoneAtOnce) {
  Begin();
  TrainTo(8);
  Receive({}, {Switch("a", 5, true)});
  ASSERT_TRUE(AwaitWord("a", ActionState::kTaken)) << "the others have switched at step 5";
  EXPECT_THAT(taken_, ::testing::ElementsAre(::testing::Pair("a", 8)));
  EXPECT_EQ(Count("a", ActionState::kRefused), 0u);
}

TEST_F(ProposalTest, ACommitDoesNotExpireAlone) {
  Begin();
  wire::Action action = Switch("a", 5, true);
  action.expiry_step = 7;
  TrainTo(8);
  Receive({}, {action});
  EXPECT_TRUE(AwaitWord("a", ActionState::kTaken));
  EXPECT_EQ(Count("a", ActionState::kExpired), 0u);
}

// At least once and in any order: a link that breaks brings everything again.
TEST_F(ProposalTest, RepetitionsAndOvertaking) {
  Begin();
  Receive({Switch("a"), Switch("a")}, {});
  ASSERT_TRUE(AwaitWord("a", ActionState::kAcknowledged, 2)) << "the first word may have been dropped";
  Receive({Switch("b")}, {Switch("b", 4, true), Switch("b", 4, true)});
  ASSERT_TRUE(AwaitWord("b", ActionState::kDelivered));
  TrainTo(4);
  ASSERT_TRUE(AwaitWord("b", ActionState::kTaken));
  Receive({Switch("b"), Switch("end")}, {Switch("b", 4, true), Switch("b", 9, true)});
  ASSERT_TRUE(AwaitWord("end", ActionState::kAcknowledged));
  EXPECT_EQ(Count("b", ActionState::kAcknowledged), 1u) << "not behind its own commit";
  EXPECT_EQ(Count("b", ActionState::kTaken), 1u);
  TrainTo(12);
  Poll();
  EXPECT_THAT(taken_, ::testing::ElementsAre(::testing::Pair("b", 4)));
}

TEST_F(ProposalTest, SaysBeforehandWhatItWillNotDo) {
  Begin({"checkpoint"});
  wire::Action elsewhere = Switch("attempt");
  elsewhere.kind = "checkpoint";
  elsewhere.attempt = "another";
  Receive({Switch("list"), elsewhere}, {});
  ASSERT_TRUE(AwaitWord("list", ActionState::kRefused));
  ASSERT_TRUE(AwaitWord("attempt", ActionState::kRefused));
  EXPECT_EQ(Count("list", ActionState::kAcknowledged) + Count("attempt", ActionState::kAcknowledged), 0u);
  for (const wire::Event& event : Events()) {
    if (event.action_id == "list") {
      EXPECT_EQ(event.detail, "not on the trainer's allow-list");
    }
  }
}

TEST_F(ProposalTest, AGuardThatCouldNotBeEnabledIsRefusedBeforehand) {
  ToyModel narrow;  // heads of 8
  const std::string address = "unix:" + (dir_ / "agent.sock");
  fs_options options = TestOptions(address);
  const char* allowed[] = {"enable_qk_norm"};
  options.allowed_actions = allowed;
  options.allowed_action_count = 1;
  options.world_size = 2;
  options.rank = 0;
  ASSERT_EQ(fs_open(&options, &run_), FS_OK);
  ASSERT_EQ(narrow.Register(run_), FS_OK);
  fs_guard_options guard;
  fs_guard_options_init(&guard);
  guard.automatic = 0;
  ASSERT_EQ(fs_guard_enable(run_, &guard), FS_ERR_UNSUPPORTED);
  fs_step_begin(run_, 0);
  fs_step_end(run_);
  ASSERT_TRUE(receiver_.WaitForHello(1));
  Receive({Switch("a")}, {});
  ASSERT_TRUE(AwaitWord("a", ActionState::kRefused));
  EXPECT_THAT(Events().back().detail, ::testing::HasSubstr("scale * head_dim: 2.83, must be at least 4"));
}

TEST_F(ProposalTest, AFloodIsAnsweredInPartAndTrainingGoesOn) {
  Begin();
  std::vector<wire::Action> flood;
  for (int i = 0; i < 5000; ++i) flood.push_back(Switch("f" + std::to_string(i)));
  flood.push_back(Switch(std::string(5000, 'x')));  // longer than its room
  Receive(flood, {Switch("after", 4, true)});
  ASSERT_TRUE(AwaitWord("after", ActionState::kDelivered));
  TrainTo(6);
  Poll();
  EXPECT_THAT(taken_, ::testing::ElementsAre(::testing::Pair("after", 6)));
  EXPECT_LT(Events().size(), 500u);
}

}  // namespace
}  // namespace foreshock::testing
