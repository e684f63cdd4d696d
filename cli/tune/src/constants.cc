#include "constants.h"

#include <tuple>

#include "foreshock/cli/player.h"
#include "foreshock/server/detect/rule_info.h"

namespace foreshock::cli {
namespace {

constexpr char kRule[] = "qk_runaway";

Variant With(const std::string& name, double detect::QkRunawayConstants::*constant, double value) {
  Variant variant{name, {}};
  variant.constants.*constant = value;
  return variant;
}

Variant Window(const std::string& name, int64_t steps) {
  Variant variant{name, {}};
  variant.constants.window_steps = steps;
  return variant;
}

std::vector<std::string> AllOtherRules() {
  std::vector<std::string> names;
  for (const detect::RuleInfo& rule : detect::BuiltInRules()) {
    if (rule.name != kRule) names.emplace_back(rule.name);
  }
  return names;
}

Verdicts Judge(const std::vector<LabelledRun>& runs, const std::vector<std::vector<Spoke>>& tried,
               size_t variant, size_t without) {
  Verdicts verdicts;
  verdicts.detector = Variants()[variant].name;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (r != without) Add(runs[r], tried[r][variant], &verdicts);
  }
  return verdicts;
}

size_t Best(const std::vector<LabelledRun>& runs, const std::vector<std::vector<Spoke>>& tried,
            size_t without) {
  const auto worth = [&](size_t variant) {
    const Verdicts v = Judge(runs, tried, variant, without);
    return std::tuple(-v.false_alarms, v.caught, Median(v.leads).value_or(0));
  };
  size_t best = 0;
  for (size_t variant = 1; variant < Variants().size(); ++variant) {
    if (worth(variant) > worth(best)) best = variant;
  }
  return best;
}

}  // namespace

const std::vector<Variant>& Variants() {
  using C = detect::QkRunawayConstants;
  static const std::vector<Variant> variants = {{"as it is", {}},
                                                Window("window of 100 steps", 100),
                                                Window("window of 400 steps", 400),
                                                With("growth over 10 % of the run", &C::growth_share, 0.1),
                                                With("growth over 40 % of the run", &C::growth_share, 0.4),
                                                With("judged from 6 windows on", &C::young_windows, 6),
                                                With("grown up at 3 windows", &C::grown_up_windows, 3),
                                                With("grown up at 10 windows", &C::grown_up_windows, 10),
                                                With("agreement at 0.3", &C::agreement, 0.3),
                                                With("agreement at 1", &C::agreement, 1),
                                                With("directed at 8 %", &C::directed, 0.08),
                                                With("directed at 30 %", &C::directed, 0.3),
                                                With("saturated heads times 0.4", &C::used_to_it, 0.4),
                                                With("saturated heads as others", &C::used_to_it, 1)};
  return variants;
}

Result<std::vector<Spoke>> TryConstants(const std::string& path, const LabelledRun& run) {
  std::vector<std::vector<alert::AlertEvent>> told(Variants().size());
  std::vector<Player> players;
  for (size_t v = 0; v < told.size(); ++v) {
    detect::DetectorOptions options;
    options.disabled_rules = AllOtherRules();
    options.qk_runaway = Variants()[v].constants;
    // Collect has told of what is odd in the recording.
    players.emplace_back(
        options, [&told, v](const alert::AlertEvent& event) { told[v].push_back(event); },
        [](const std::string&) {});
  }
  std::vector<std::string> warnings;
  const auto to_all = [&](const wire::RecordingItem& item) {
    for (Player& player : players) player.Take(item);
  };
  FS_RETURN_IF_ERROR(ReadRecording(path, to_all, &warnings));
  std::vector<Spoke> spoke;
  for (size_t v = 0; v < told.size(); ++v) {
    players[v].Finish();
    spoke.push_back(
        RuleSpoke({.run = run.run, .truth = run.truth, .events = std::move(told[v]), .scores = {}}, kRule));
  }
  return spoke;
}

std::vector<Verdicts> JudgeConstants(const std::vector<LabelledRun>& runs,
                                     const std::vector<std::vector<Spoke>>& tried) {
  std::vector<Verdicts> all;
  for (size_t variant = 0; variant < Variants().size(); ++variant)
    all.push_back(Judge(runs, tried, variant, runs.size()));
  return all;
}

Verdicts LeaveOneOutConstants(const std::vector<LabelledRun>& runs,
                              const std::vector<std::vector<Spoke>>& tried) {
  Verdicts verdicts;
  verdicts.detector = "qk_runaway, its constants";
  for (size_t r = 0; r < runs.size(); ++r) Add(runs[r], tried[r][Best(runs, tried, r)], &verdicts);
  return verdicts;
}

}  // namespace foreshock::cli
