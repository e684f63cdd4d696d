// qk_runaway: one head's query-key weights leave the others behind, faster and faster. The early one.
//
// The score of GrowthTracker on wq_sigma1 says so; qk_sigma1 (or the logits) must agree, which a single wrong
// value does not make them do. Where weight norms move nothing (QK normalization) the logits alone are looked
// at, and while they lie within the bound that normalised q and k have, nothing can run away.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "growth_tracker.h"
#include "moving_means.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kCritical = 1.0;
constexpr double kWarning = 0.8;
constexpr double kSaturatedAllAlong = 0.5;  // of a head's rows, median of 48 samples
// Extremes of logits jump about more than norms of weights do: alone they must say more.
constexpr double kLogitsAlone = 0.5;
constexpr int kWarningSamples = 2;
constexpr double kStirring = 0.5;  // from this score on, a head's first evidence is counted
// An alarmed head is calm again when its logits, or its lead over the median head, fell to this share.
constexpr double kCalm = 0.5;
// By how many factors of e the norm of W_Q would still grow, at the alarm's pace, until the loss goes: median
// of the recorded collapses, and what all but the outermost lay between (docs/design/2026-11-30-trust.md).
constexpr double kFolds = 1.75, kLeastFolds = 0.6, kMostFolds = 3.6;

class QkRunaway final : public Rule {
 public:
  QkRunaway(size_t heads, const QkRunawayConstants& constants)
      : constants_(constants),
        wq_(heads, constants),
        qk_(heads, constants),
        logit_(heads, constants),
        smooth_logits_(heads, 0, 5),
        saturated_(heads, 48, 5),
        share_(heads),
        states_(heads) {}

  std::string_view name() const override { return "qk_runaway"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const HeadValues& wq = step.Heads(kWqSigma1);
    const HeadValues& logit = step.Heads(kLogitMax);
    if (!wq.any && !logit.any) return std::nullopt;
    if (context.any_guard_switched()) logit_.Clear();
    Update(wq, step.step(), &wq_);
    Update(step.Heads(kQkSigma1), step.step(), &qk_);
    if (logit.any) {
      smooth_logits_.PushAll(logit);
      logs_.resize(states_.size());
      for (size_t h = 0; h < logs_.size(); ++h)
        logs_[h] = std::log(std::max(std::abs(smooth_logits_.Level(h)), 1.0));
      logit_.Update(step.step(), logs_);
    }
    if (step.Heads(kSaturatedRowFraction).any) saturated_.PushAll(step.Heads(kSaturatedRowFraction));
    PushShares(step, &share_);
    stirs_.assign(step.layers(), false);
    for (size_t layer = 0; layer < step.layers(); ++layer) JudgeLayer(step, context, layer);
    return Findings(step);
  }

  void Inform(RunContext* context) const override { context->SetStirs(stirs_); }

 private:
  struct State {
    double score = 0;
    bool by_logits = false;
    int64_t stirring_since = -1;  // -1: not stirring
    int warned = 0;               // samples in a row at the warning score
    int64_t alarmed_at = -1;      // -1: not alarmed
    double alarm_logit = 0, alarm_level = 0;
    double alarm_rate = 0;  // growth of log wq_sigma1 a step; 0 where the logits alone were looked at
  };

  void Update(const HeadValues& values, int64_t step, GrowthTracker* tracker) {
    if (!values.any) return;
    logs_.resize(states_.size());
    for (size_t head = 0; head < logs_.size(); ++head) {
      const double value = values.ValueOrNan(head);
      logs_[head] = value > 0 ? std::log(value) : kNan;
    }
    tracker->Update(step, logs_);
  }

  double Score(const HeadValues& wq, bool guarded, size_t head, State* state) const {
    const bool causal =
        wq.any && wq.present[head] && !(wq.flags[head] & SeriesSample::kWeightNormsNotCausal) && !guarded;
    state->by_logits = !causal;
    if (!causal) return logit_.ready() ? kLogitsAlone * logit_.score(head) : 0;
    if (!wq_.ready()) return 0;
    double score = wq_.score(head);
    if (score >= kStirring && saturated_.Get(head).median >= kSaturatedAllAlong)
      score *= constants_.used_to_it;
    return score <= kStirring || Agreed(head) ? score : kStirring;
  }

  // Weights that grow for the task's sake leave logits and update directions much as they were. Signals that
  // are not measured have no vote.
  bool Agreed(size_t head) const {
    if (qk_.ready() && qk_.score(head) < constants_.agreement) return false;
    const double directed = share_.Full(head) ? share_.Mean(head) : kNan;
    if (!logit_.ready() && std::isnan(directed)) return true;
    return (logit_.ready() && logit_.score(head) >= constants_.agreement) || directed >= constants_.directed;
  }

  double Level(const State& state, size_t head) const {
    return (state.by_logits ? logit_ : wq_).Of(head).level;
  }

  void JudgeLayer(const StepView& step, const RunContext& context, size_t layer) {
    const bool bounded = context.logits_bounded(layer);
    bool stirs = false;
    for (size_t head = layer * step.heads(); head < (layer + 1) * step.heads(); ++head) {
      JudgeHead(step, context, head, bounded, context.guarded(layer));
      stirs = stirs || states_[head].stirring_since >= 0 || states_[head].alarmed_at >= 0;
    }
    stirs_[layer] = stirs;
  }

  void JudgeHead(const StepView& step, const RunContext& context, size_t head, bool bounded, bool guarded) {
    State& state = states_[head];
    const double logit = context.recent_logit(head);
    const bool held_down = bounded && logit <= 1.01 * context.logit_bound();
    state.score = held_down ? 0 : Score(step.Heads(kWqSigma1), guarded, head, &state);
    if (state.score < kStirring) {
      state.stirring_since = -1;
    } else if (state.stirring_since < 0) {
      state.stirring_since = step.step();
    }
    state.warned = state.score >= kWarning ? state.warned + 1 : 0;
    if (state.alarmed_at >= 0 && (held_down || Calm(state, head, logit))) state.alarmed_at = -1;
    if (state.alarmed_at < 0 && state.score >= kCritical) {
      state.alarmed_at = step.step();
      state.alarm_logit = logit;
      state.alarm_level = Level(state, head);
      state.alarm_rate = state.by_logits ? 0 : wq_.Of(head).rate;
    }
  }

  bool Calm(const State& state, size_t head, double logit) const {
    return logit < kCalm * state.alarm_logit || Level(state, head) < kCalm * state.alarm_level;
  }

  // When the loss will go, as far as the pace at the alarm tells. Nothing once that is past.
  static void AddStepsLeft(const StepView& step, const State& state, Finding* finding) {
    if (state.alarmed_at < 0 || !(state.alarm_rate > 0)) return;
    const auto passed = static_cast<double>(step.step() - state.alarmed_at);
    const auto left = [&](double folds) {
      return std::max(0.0, std::round(folds / state.alarm_rate - passed));
    };
    const double most = left(kMostFolds);
    if (!(most > 0)) return;
    finding->evidence.push_back({"steps left, estimated", left(kFolds), kNan});
    finding->evidence.push_back({"steps left, at least", left(kLeastFolds), kNan});
    finding->evidence.push_back({"steps left, at most", most, kNan});
    finding->summary += "; at this pace the loss goes in about " + Rounded(left(kFolds)) + " steps (" +
                        Rounded(left(kLeastFolds)) + " to " + Rounded(most) + ")";
  }

  // Two digits: the estimate knows no more.
  static std::string Rounded(double steps) {
    const double unit = steps < 100 ? 1 : std::pow(10, std::floor(std::log10(steps)) - 1);
    return std::to_string(static_cast<int64_t>(std::round(steps / unit) * unit));
  }

  // The head that was alarmed first stands for the others; of several at one step, the one that grows most.
  std::vector<Finding> Findings(const StepView& step) const {
    const State* worst = nullptr;
    size_t alarmed = 0;
    for (const State& state : states_) {
      if (state.alarmed_at < 0) continue;
      ++alarmed;
      const bool earlier = !worst || state.alarmed_at < worst->alarmed_at;
      if (earlier || (state.alarmed_at == worst->alarmed_at && state.score > worst->score)) worst = &state;
    }
    if (worst) return {Make(step, *worst, Severity::kCritical, alarmed)};
    for (const State& state : states_) {
      if (state.warned >= kWarningSamples && (!worst || state.score > worst->score)) worst = &state;
    }
    if (worst) return {Make(step, *worst, Severity::kWarning, 0)};
    return {};
  }

  Finding Make(const StepView& step, const State& state, Severity severity, size_t alarmed) const {
    const auto head = static_cast<size_t>(&state - states_.data());
    const GrowthTracker& tracker = state.by_logits ? logit_ : wq_;
    const GrowthTracker::Features f = tracker.Of(head);
    const std::string signal = state.by_logits ? "logit_max" : "wq_sigma1";
    Finding finding = HeadFinding(step, head, severity);
    finding.first_step = state.stirring_since >= 0 ? state.stirring_since : step.step();
    finding.baseline = std::exp(tracker.median_log());
    finding.value = finding.baseline * std::exp(f.level);
    finding.evidence = {{signal, finding.value, finding.baseline},
                        {signal + " growth exponent in the run's age", f.slope, 1},
                        {signal + " growth beyond the other heads', in their usual spread", f.z, 1},
                        {signal + " growth over the last fifth of the run, factor", std::exp(f.growth), 1},
                        {"score", state.score, kCritical}};
    if (alarmed > 1) finding.evidence.push_back({"heads that run away", static_cast<double>(alarmed), 0});
    finding.summary = "query-key weights of " + Place(step, head) + " run away: " + signal + " " +
                      Short(finding.value) + ", " + Short(std::exp(f.level)) +
                      " times the median head, growing as the " + Short(f.slope) +
                      "th power of the run's age";
    if (alarmed > 1) finding.summary += "; " + std::to_string(alarmed) + " heads in all";
    if (severity == Severity::kCritical) AddStepsLeft(step, state, &finding);
    return finding;
  }

  QkRunawayConstants constants_;
  GrowthTracker wq_, qk_, logit_;
  HeadWindows smooth_logits_, saturated_;
  MovingMeans share_;
  std::vector<State> states_;
  std::vector<double> logs_;
  std::vector<bool> stirs_;  // a layer
};

}  // namespace

std::unique_ptr<Rule> MakeQkRunaway(const RunInfo& info, const QkRunawayConstants& constants) {
  return std::make_unique<QkRunaway>(size_t{info.layers} * info.heads, constants);
}

}  // namespace foreshock::detect
