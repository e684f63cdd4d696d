#include "../src/rank_apart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "foreshock/server/alert/alert_service.h"
#include "foreshock/tests/history.h"

namespace foreshock::alert {
namespace {

using tests::Heads;
using tests::Scalar;
using tests::Step;

constexpr double kNoBaseline = std::numeric_limits<double>::quiet_NaN();

class RankApartTest : public testing::Test {
 protected:
  // One process a rank.
  void Begin(uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      wire::Hello hello = tests::SmallHello("run");
      hello.rank = rank;
      hello.world_size = ranks;
      hello.incarnation += rank;
      sources_.push_back(history_.Hello(hello));
    }
  }
  void Put(uint32_t rank, int64_t step, std::vector<wire::Series> series) {
    history_.PutOfRank(sources_[rank], Step(step, std::move(series)));
  }
  // Fired at step 12 for layer 1, head 2, with evidence from step 10 on.
  static Alert Of(const std::string& evidence, double usual) {
    Alert alert;
    alert.run = "run";
    alert.attempt = "1";
    alert.state = AlertState::kFiring;
    alert.layer = 1;
    alert.head = 2;
    alert.first_evidence_step = 10;
    alert.fired_step = 12;
    alert.summary = "so it is";
    alert.evidence = {{"score", 3, 0}, {evidence, 8, usual}};
    return alert;
  }
  std::optional<RankApart> Find(const Alert& alert) { return FindRankApart(history_.store(), alert); }

  tests::History history_;
  std::vector<store::SourceId> sources_;
};

TEST_F(RankApartTest, NamesTheRankWhoseValueIsFarFromTheUsual) {
  Begin(3);
  // A ratio: numerators and denominators. Rank 2 sent it last two steps before the alert fired.
  Put(0, 12, {Heads(kOutputRoundingBias, 1, {0, 0, 1, 0}, {10, 10, 10, 10})});
  Put(1, 12, {Heads(kOutputRoundingBias, 1, {0, 0, 160, 0}, {10, 10, 10, 10})});
  Put(2, 10, {Heads(kOutputRoundingBias, 1, {0, 0, -2, 0}, {10, 10, 10, 10})});
  Alert alert = Of("output_rounding_bias", kNoBaseline);
  const auto apart = Find(alert);
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->rank, 1u);
  EXPECT_DOUBLE_EQ(apart->value, 16);
  EXPECT_NEAR(apart->elsewhere, -0.2, 1e-6);
  TellRank(*apart, &alert);
  EXPECT_EQ(alert.summary, "so it is (rank 1 alone: output_rounding_bias 16, elsewhere -0.2 at most)");
  ASSERT_EQ(alert.evidence.size(), 3u);
  EXPECT_EQ(alert.evidence[2].name, "output_rounding_bias of rank 1");
  EXPECT_DOUBLE_EQ(alert.evidence[2].value, 16);
  alert.head = 3;  // all alike
  EXPECT_FALSE(Find(alert));
}

TEST_F(RankApartTest, TheUsualCountsAndNotTheSize) {
  Begin(2);
  Put(0, 12, {Heads(kEntropyMean, 1, {50, 50, 51, 50}, {10, 10, 10, 10})});
  Put(1, 12, {Heads(kEntropyMean, 1, {50, 50, 10, 50}, {10, 10, 10, 10})});
  const auto apart = Find(Of("entropy_mean", 5));
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->rank, 1u) << "it fell; the other is larger and as always";
}

TEST_F(RankApartTest, NobodyIsNamedWhereRanksAreAlikeOrSilent) {
  Begin(2);
  Put(0, 12, {Heads(kLogitMax, 1, {5, 5, 90, 5})});
  Put(1, 12, {Heads(kLogitMax, 1, {5, 5, 60, 5})});
  EXPECT_FALSE(Find(Of("logit_max", 5))) << "three times as far is not four times";
  Put(0, 20, {Heads(kLogitMax, 1, {5, 5, 90, 5})});
  Alert later = Of("logit_max", 5);
  later.first_evidence_step = later.fired_step = 20;
  EXPECT_FALSE(Find(later)) << "rank 1 has said nothing since the first evidence";
  EXPECT_FALSE(Find(Of("heads that run away", 0))) << "no signal";
}

TEST_F(RankApartTest, AHeadThatOneRankHoldsIsThatRanks) {
  Begin(2);
  wire::Series low = Heads(kLogitMax, 1, {5, 5}), high = Heads(kLogitMax, 1, {90, 5});
  high.heads = {2, 3};
  wire::Series weights = Heads(kWqSigma1, 1, {5, 5});
  weights.heads = {2, 3};
  Put(0, 12, {low, Heads(kWqSigma1, 1, {5, 5})});
  Put(1, 12, {high, weights});
  const auto apart = Find(Of("logit_max", 5));
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->rank, 1u);
  EXPECT_TRUE(std::isnan(apart->elsewhere));
  EXPECT_FALSE(Find(Of("wq_sigma1", 5))) << "replicas share the weights' heads out";
}

// The whole way: the alert, the one that is kept, and after a restart.
TEST_F(RankApartTest, TheServicesAlertNamesTheRank) {
  Begin(2);
  AlertOptions options;
  options.tick_interval = std::chrono::hours(1);
  auto service = AlertService::Start(options, &history_.store(), &history_.clock());
  ASSERT_TRUE(service.ok()) << service.status().ToString();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto step = [&](int64_t at, float loss) {
    Put(0, at, {Scalar(kLoss, 4)});
    const auto frame = history_.PutOfRank(sources_[1], tests::Loss(at, loss));
    ASSERT_TRUE(history_.store().PutMerged(sources_[0], frame, false, history_.store().Stamp()).ok());
  };
  step(1, 4);
  step(2, nan);
  (*service)->Flush();
  auto alerts = (*service)->OfRun("run");
  ASSERT_TRUE(alerts.ok());
  ASSERT_EQ(alerts->size(), 1u);
  EXPECT_NE((*alerts)[0].alert.summary.find("rank 1 alone: loss"), std::string::npos)
      << (*alerts)[0].alert.summary;
  (*service)->Tick();
  EXPECT_NE((*service)->Firing()[0].alert.summary.find("rank 1 alone"), std::string::npos)
      << "newer values too";
  service->reset();
  service = AlertService::Start(options, &history_.store(), &history_.clock());
  ASSERT_TRUE(service.ok());
  for (int64_t at = 3; at < 10; ++at) step(at, 4);
  (*service)->Flush();
  alerts = (*service)->OfRun("run");
  ASSERT_EQ(alerts->size(), 1u);
  EXPECT_EQ((*alerts)[0].alert.state, AlertState::kResolved);
  EXPECT_NE((*alerts)[0].alert.summary.find("rank 1 alone"), std::string::npos) << (*alerts)[0].alert.summary;
}

}  // namespace
}  // namespace foreshock::alert
