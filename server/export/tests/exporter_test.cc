#include "foreshock/server/export/exporter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "foreshock/tests/history.h"
#include "foreshock/tests/program.h"

namespace foreshock::exporter {
namespace {

using tests::Heads;
using tests::History;
using tests::Loss;
using tests::Scalar;
using tests::Step;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ExporterTest : public testing::Test {
 protected:
  void Start(ExportOptions options = {}) {
    alert::AlertOptions alert_options;
    alert_options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(alert_options, &history_.store(), &history_.clock());
    options.store = &history_.store();
    options.alerts = alerts_.get();
    options.clock = &history_.clock();
    options.server = [] {
      return std::vector<ServerMetric>{{"ingest_frames", "frames that came", 12, true},
                                       {"ingest_streams", "open streams", 3, false}};
    };
    exporter_ = Exporter::Create(options);
  }
  // The value behind a series name and its labels, as text; "absent" when it is not there.
  std::string Value(const std::string& series) {
    const std::string page = exporter_->Scrape();
    const size_t at = page.find("\n" + series + " ");
    if (at == std::string::npos) return "absent";
    const size_t begin = at + series.size() + 2;
    return page.substr(begin, page.find('\n', begin) - begin);
  }

  History history_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExporterTest, ShowsScalarsStatisticsAndTheWorstHead) {
  Start();
  const auto source = history_.Hello("r");
  history_.Put(source, Step(7, {Scalar(kLoss, 2.5f), Heads(kLogitMax, 1, {3, 9, 5, 4}),
                                Heads(kEntropyMean, 1, {8, 2, 6, 4}, {2, 2, 2, 2}),
                                Heads(kUpdateSignMean1, 0, {4, -9, 1, 2}, {10, 10, 10, 10})}));
  EXPECT_EQ(Value("foreshock_loss{run=\"r\"}"), "2.5");
  EXPECT_EQ(Value("foreshock_step{run=\"r\"}"), "7");
  EXPECT_EQ(Value("foreshock_logit_max{run=\"r\",layer=\"1\",stat=\"max\"}"), "9");
  EXPECT_EQ(Value("foreshock_logit_max{run=\"r\",layer=\"1\",stat=\"median\"}"), "4.5");
  EXPECT_EQ(Value("foreshock_logit_max{run=\"r\",layer=\"1\",stat=\"min\"}"), "3");
  EXPECT_EQ(Value("foreshock_logit_max_worst_head{run=\"r\",layer=\"1\"}"), "1");
  EXPECT_EQ(Value("foreshock_entropy_mean{run=\"r\",layer=\"1\",stat=\"max\"}"), "4")
      << "a ratio is its quotient";
  EXPECT_EQ(Value("foreshock_entropy_mean_worst_head{run=\"r\",layer=\"1\"}"), "1") << "the narrowest";
  EXPECT_EQ(Value("foreshock_update_sign_mean_1_worst_head{run=\"r\",layer=\"0\"}"), "1") << "either sign";
  EXPECT_EQ(Value("foreshock_alerts_firing{run=\"r\",severity=\"critical\"}"), "0");
  EXPECT_EQ(exporter_->Scrape().find("foreshock_rule_alerts_firing"), std::string::npos) << "none fires";
  EXPECT_EQ(Value("foreshock_run_frames_total{run=\"r\"}"), "1");
  EXPECT_EQ(Value("foreshock_ingest_frames_total"), "12");
  EXPECT_EQ(Value("foreshock_ingest_streams"), "3");
  EXPECT_EQ(exporter_->Scrape().find("head=\""), std::string::npos) << "per-head series are opt-in";
}

TEST_F(ExporterTest, SampledSignalsStayWhileStepsWithoutThemPass) {
  Start();
  const auto source = history_.Hello("r");
  history_.Put(source, Step(10, {Scalar(kLoss, 2), Heads(kQkSigma1, 0, {1, 2, 3, 4})}));
  history_.Put(source, Loss(11, 3));
  EXPECT_EQ(Value("foreshock_loss{run=\"r\"}"), "3");
  EXPECT_EQ(Value("foreshock_qk_sigma1{run=\"r\",layer=\"0\",stat=\"max\"}"), "4");
}

TEST_F(ExporterTest, NanIsNanAndMissingIsAbsent) {
  Start();
  const auto source = history_.Hello("r");
  auto missing = Heads(kQkSigma1, 0, {0, 0, 0, 0});
  missing.present = {0, 0, 0, 0};
  history_.Put(source, Step(1, {Scalar(kLoss, kNan), Heads(kLogitMax, 0, {1, 2, kNan, 3}), missing,
                                Heads(kTiedRowFraction, 0, {1, 1, 1, 1}, {0, 0, 0, 0})}));
  alerts_->Flush();
  EXPECT_EQ(Value("foreshock_loss{run=\"r\"}"), "Nan") << "as Prometheus reads it, whatever the case";
  EXPECT_EQ(Value("foreshock_logit_max{run=\"r\",layer=\"0\",stat=\"max\"}"), "Nan");
  EXPECT_EQ(Value("foreshock_logit_max{run=\"r\",layer=\"0\",stat=\"median\"}"), "2");
  EXPECT_EQ(Value("foreshock_logit_max_worst_head{run=\"r\",layer=\"0\"}"), "2");
  EXPECT_EQ(Value("foreshock_qk_sigma1{run=\"r\",layer=\"0\",stat=\"max\"}"), "absent");
  EXPECT_EQ(Value("foreshock_tied_row_fraction{run=\"r\",layer=\"0\",stat=\"max\"}"), "absent");
  EXPECT_EQ(Value("foreshock_alerts_firing{run=\"r\",severity=\"critical\"}"), "1");
  EXPECT_EQ(Value("foreshock_rule_alerts_firing{run=\"r\",rule=\"non_finite\",severity=\"critical\"}"), "1");
}

TEST_F(ExporterTest, PerHeadSeriesOnRequest) {
  Start({.per_head = true});
  history_.Put(history_.Hello("r"), Step(1, {Heads(kLogitMax, 0, {1, 2, 3, 4})}));
  EXPECT_EQ(Value("foreshock_logit_max_head{run=\"r\",layer=\"0\",head=\"3\"}"), "4");
}

TEST_F(ExporterTest, ManyShortRunsLeaveAgain) {
  Start();
  size_t largest = 0;
  for (int i = 0; i < 200; ++i) {
    const auto source = history_.Hello("short" + std::to_string(i));
    history_.Put(source, Step(1, {Scalar(kLoss, 2), Heads(kLogitMax, 0, {1, 2, 3, 4})}));
    history_.Goodbye(source, 1);
    history_.clock().Advance(std::chrono::seconds(10));
    largest = std::max(largest, exporter_->Scrape().size());
  }
  EXPECT_LT(largest, 16'000u) << "at most the runs of the last minute";
  history_.clock().Advance(std::chrono::seconds(60));
  EXPECT_EQ(exporter_->Scrape().find("run=\"short"), std::string::npos);
}

TEST_F(ExporterTest, NoMoreRunsThanAllowedAndTheRestIsCounted) {
  Start({.max_runs = 3});
  for (int i = 0; i < 10; ++i) {
    history_.Put(history_.Hello("r" + std::to_string(i)), Loss(1, 2));
    history_.clock().Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(Value("foreshock_runs_shown"), "3");
  EXPECT_EQ(Value("foreshock_runs_left_out"), "7");
  EXPECT_EQ(Value("foreshock_loss{run=\"r9\"}"), "2");
  EXPECT_EQ(Value("foreshock_loss{run=\"r0\"}"), "absent");
}

TEST_F(ExporterTest, SilentRunsAndDeletedRunsLeave) {
  Start();
  history_.Put(history_.Hello("silent"), Loss(1, 2));
  history_.Put(history_.Hello("deleted"), Loss(1, 2));
  ASSERT_TRUE(history_.store().DeleteRun("deleted").ok());
  EXPECT_EQ(Value("foreshock_loss{run=\"deleted\"}"), "absent");
  EXPECT_EQ(Value("foreshock_loss{run=\"silent\"}"), "2");
  history_.clock().Advance(std::chrono::minutes(16));
  EXPECT_EQ(Value("foreshock_loss{run=\"silent\"}"), "absent");
}

TEST_F(ExporterTest, ANewAttemptStartsAnew) {
  Start();
  history_.Put(history_.Hello("r", "1"), Step(212, {Scalar(kLoss, 2), Scalar(kGradNorm, 7)}));
  history_.Put(history_.Hello("r", "2"), Loss(200, 3));
  EXPECT_EQ(Value("foreshock_step{run=\"r\"}"), "200");
  EXPECT_EQ(Value("foreshock_grad_norm{run=\"r\"}"), "absent");
  EXPECT_EQ(Value("foreshock_run_info{run=\"r\",attempt=\"2\"}"), "1");
}

// Every signal of the catalogue, a run whose name needs escaping, per-head series too.
TEST_F(ExporterTest, PromtoolIsContent) {
  Start({.per_head = true});
  std::vector<wire::Series> series;
  for (const SignalInfo& info : SignalCatalogue()) {
    if (info.scope == SignalScope::kScalar) {
      series.push_back(Scalar(info.id, 1.5f));
    } else {
      series.push_back(Heads(info.id, 0, {1, kNan, 3, 4}, {1, 2, 3, 4}));
    }
  }
  history_.Put(history_.Hello("a \"quoted\\ run\""), Step(1, std::move(series)));
  const std::string path = history_.folder() + "/metrics.txt";
  std::ofstream(path) << exporter_->Scrape();
  tests::Program promtool({"/bin/sh", "-c", "exec promtool check metrics < " + path});
  const int status = promtool.Wait();
  EXPECT_EQ(status, 0) << promtool.output();
  EXPECT_EQ(promtool.output(), "");
}

TEST_F(ExporterTest, ShowsWhatIsSilencedAndWhatIsTaken) {
  Start();
  auto audit = *alert::AuditLog::Open(&history_.store(), &history_.clock());
  auto silences = *alert::Silences::Start({&history_.store(), alerts_.get(), audit.get(), &history_.clock()});
  ExportOptions options;
  options.store = &history_.store();
  options.alerts = alerts_.get();
  options.clock = &history_.clock();
  options.silences = silences.get();
  exporter_ = Exporter::Create(options);
  history_.Put(history_.Hello("r"), Loss(1, kNan));
  alerts_->Flush();
  const std::string labels = "{run=\"r\",severity=\"critical\"}";
  EXPECT_EQ(Value("foreshock_alerts_silenced" + labels), "absent");
  alert::Silence wanted;
  wanted.run = "r";
  wanted.ends_unix_ns = history_.clock().WallNanos() + 1'000'000'000;
  ASSERT_TRUE(silences->Create(wanted).ok());
  EXPECT_EQ(Value("foreshock_alerts_silenced" + labels), "1");
  EXPECT_EQ(Value("foreshock_alerts_firing" + labels), "1") << "it fires all the same";
  EXPECT_EQ(Value("foreshock_silences"), "1");
  alert::AcknowledgeOptions ask;
  ask.run = "r";
  ASSERT_TRUE(silences->Acknowledge(ask).ok());
  EXPECT_EQ(Value("foreshock_alerts_acknowledged" + labels), "1");
  EXPECT_EQ(Value("foreshock_alerts_silenced" + labels), "absent") << "counted once";
  exporter_.reset();
}

}  // namespace
}  // namespace foreshock::exporter
