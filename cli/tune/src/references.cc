#include "references.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "foreshock/base/catalogue.h"

namespace foreshock::cli {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::optional<double> ScalarOf(const detect::StepSample& sample, uint16_t signal) {
  for (const detect::ScalarSample& scalar : sample.scalars) {
    if (scalar.signal == signal) return scalar.value;
  }
  return std::nullopt;
}

class MaxLogit final : public Reference {
 public:
  std::string name() const override { return "largest logit"; }
  double threshold() const override { return 100; }
  std::optional<double> Score(const detect::StepSample& sample) override {
    std::optional<double> largest;
    for (const detect::SeriesSample& series : sample.series) {
      if (series.signal != kLogitMax) continue;
      for (const double value : series.values) {
        largest = std::max(largest.value_or(-kInf), std::isfinite(value) ? value : kInf);
      }
    }
    return largest;
  }
};

// Standard deviations above the mean of the samples before.
class Sigmas final : public Reference {
 public:
  Sigmas(std::string name, uint16_t signal) : name_(std::move(name)), signal_(signal) {}
  std::string name() const override { return name_; }
  double threshold() const override { return 6; }
  std::optional<double> Score(const detect::StepSample& sample) override {
    const auto value = ScalarOf(sample, signal_);
    if (!value) return std::nullopt;
    if (!std::isfinite(*value)) return kInf;
    std::optional<double> score;
    if (past_.size() == kSamples) {
      const double mean = std::accumulate(past_.begin(), past_.end(), 0.0) / kSamples;
      double squares = 0;
      for (const double v : past_) squares += (v - mean) * (v - mean);
      const double sigma = std::sqrt(squares / kSamples);
      if (sigma > 0) score = (*value - mean) / sigma;
      past_.pop_front();
    }
    past_.push_back(*value);
    return score;
  }

 private:
  static constexpr size_t kSamples = 128;
  const std::string name_;
  const uint16_t signal_;
  std::deque<double> past_;
};

// |loss - running mean of 10| over the mean.
class LightningSpike final : public Reference {
 public:
  std::string name() const override { return "loss spike as Lightning's"; }
  double threshold() const override { return 2; }
  std::optional<double> Score(const detect::StepSample& sample) override {
    const auto loss = ScalarOf(sample, kLoss);
    if (!loss) return std::nullopt;
    if (!std::isfinite(*loss)) return kInf;
    std::optional<double> score;
    if (!past_.empty()) {
      const double mean =
          std::accumulate(past_.begin(), past_.end(), 0.0) / static_cast<double>(past_.size());
      if (*loss > mean && mean > 0) score = (*loss - mean) / mean;
    }
    past_.push_back(*loss);
    if (past_.size() > kSamples) past_.pop_front();
    return score.value_or(0);
  }

 private:
  static constexpr size_t kSamples = 10;
  std::deque<double> past_;
};

class OwnScore final : public Reference {
 public:
  explicit OwnScore(const detect::RunInfo& info) : detector_(info, Options()) {}
  std::string name() const override { return kOwnScore; }
  double threshold() const override { return 1; }
  std::optional<double> Score(const detect::StepSample& sample) override {
    for (const detect::Verdict& verdict : detector_.Observe(sample)) {
      if (verdict.rule != "qk_runaway") continue;
      if (verdict.findings.empty()) return 0;
      for (const detect::Evidence& evidence : verdict.findings[0].evidence) {
        if (evidence.name == "score") return evidence.value;
      }
    }
    return std::nullopt;
  }

 private:
  static detect::DetectorOptions Options() {
    detect::DetectorOptions options;
    for (const detect::RuleInfo& rule : detect::BuiltInRules()) {
      if (rule.name != "qk_runaway") options.disabled_rules.emplace_back(rule.name);
    }
    return options;
  }
  detect::Detector detector_;
};

}  // namespace

std::vector<std::unique_ptr<Reference>> MakeReferences(const detect::RunInfo& info) {
  std::vector<std::unique_ptr<Reference>> references;
  references.push_back(std::make_unique<OwnScore>(info));
  references.push_back(std::make_unique<MaxLogit>());
  references.push_back(std::make_unique<Sigmas>("loss, sigmas of 128 samples", kLoss));
  references.push_back(std::make_unique<Sigmas>("gradient norm, the same", kGradNorm));
  references.push_back(std::make_unique<LightningSpike>());
  return references;
}

}  // namespace foreshock::cli
