#include "attempts.h"

#include <gtest/gtest.h>

namespace foreshock::agent {
namespace {

wire::Hello HelloOf(uint32_t rank, uint64_t incarnation, const std::string& attempt = "") {
  wire::Hello hello;
  hello.run = "run";
  hello.rank = rank;
  hello.incarnation = incarnation;
  hello.attempt = attempt;
  if (!attempt.empty()) hello.attempt_source = wire::AttemptSource::kExplicit;
  return hello;
}

class AttemptsTest : public ::testing::Test {
 protected:
  wire::Hello Join(uint32_t rank, uint64_t incarnation) {
    wire::Hello hello = HelloOf(rank, incarnation);
    attempts_.Assign(&hello);
    return hello;
  }

  ManualClock clock_;
  Attempts attempts_{clock_, 1};
};

TEST_F(AttemptsTest, RanksThatStartTogetherShareOne) {
  const wire::Hello zero = Join(0, 10);
  const wire::Hello one = Join(1, 11);
  EXPECT_FALSE(zero.attempt.empty());
  EXPECT_EQ(zero.attempt_source, wire::AttemptSource::kMinted);
  EXPECT_EQ(one.attempt, zero.attempt);
}

TEST_F(AttemptsTest, ARestartedRankGetsANewOneAndTheOthersFollow) {
  const wire::Hello zero = Join(0, 10);
  const wire::Hello one = Join(1, 11);
  attempts_.Release(zero);  // rank 0 died; rank 1 still hangs
  const wire::Hello zero_again = Join(0, 20);
  EXPECT_NE(zero_again.attempt, zero.attempt);
  attempts_.Release(one);
  EXPECT_EQ(Join(1, 21).attempt, zero_again.attempt);
}

TEST_F(AttemptsTest, AFinishedRunStartedAgainIsNew) {
  const wire::Hello zero = Join(0, 10);
  attempts_.Release(zero);
  EXPECT_NE(Join(1, 11).attempt, zero.attempt);
}

TEST_F(AttemptsTest, TheSameProcessKeepsIts) {
  const wire::Hello zero = Join(0, 10);
  attempts_.Release(zero);
  EXPECT_EQ(Join(0, 10).attempt, zero.attempt);
  attempts_.Remember("run", 5, 50, "from before");
  EXPECT_EQ(Join(5, 50).attempt, "from before");
}

TEST_F(AttemptsTest, OthersJoinAnAttemptMintedBeforeARestart) {
  wire::Hello zero = HelloOf(0, 10, "minted earlier");
  zero.attempt_source = wire::AttemptSource::kMinted;
  attempts_.Assign(&zero);
  EXPECT_EQ(Join(1, 11).attempt, "minted earlier");
}

TEST_F(AttemptsTest, GivenAttemptsStay) {
  wire::Hello hello = HelloOf(0, 10, "slurm-7-0");
  attempts_.Assign(&hello);
  EXPECT_EQ(hello.attempt, "slurm-7-0");
  EXPECT_EQ(hello.attempt_source, wire::AttemptSource::kExplicit);
  EXPECT_NE(Join(1, 11).attempt, "slurm-7-0");
}

TEST_F(AttemptsTest, SeveralNodesAreMarkedUnknown) {
  wire::Hello hello = HelloOf(0, 10);
  hello.world_size = 16;
  hello.local_world_size = 8;
  attempts_.Assign(&hello);
  EXPECT_EQ(hello.attempt_source, wire::AttemptSource::kUnknown);
  EXPECT_FALSE(hello.attempt.empty());
}

}  // namespace
}  // namespace foreshock::agent
