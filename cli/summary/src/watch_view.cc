#include "foreshock/cli/watch_view.h"

#include <cmath>
#include <vector>

#include "foreshock/cli/lead.h"
#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/summary.h"
#include "foreshock/cli/values.h"

namespace foreshock::cli {
namespace {

constexpr double kWorthColour = 1.5;  // a head that grew this much more than the median one

std::string PadLeft(std::string text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

WatchView::WatchView(WatchOptions options, Style style) : options_(std::move(options)), style_(style) {}

std::string WatchView::Take(const v1::WatchUpdate& update, const std::function<v1::StepReply()>& heads) {
  switch (update.update_case()) {
    case v1::WatchUpdate::kStep:
      return OnStep(update.step(), heads);
    case v1::WatchUpdate::kAlert:
      return OnAlert(update.alert());
    case v1::WatchUpdate::kEvent:
      return EventLine(update.event(), style_);
    case v1::WatchUpdate::kState:
      return OnState(update.state());
    case v1::WatchUpdate::UPDATE_NOT_SET:
      return "";
  }
  return "";
}

std::string WatchView::OnStep(const v1::StepReply& step, const std::function<v1::StepReply()>& heads) {
  const std::optional<double> loss = ScalarValue(step.frame(), "loss");
  if (loss && step.step() % kDefaultEverySteps == 0) loss_.Add(step.step(), *loss);
  std::string out = CollapseLine();
  // Lines stand at multiples of every_steps, whenever the watcher came; a resumed run that goes back gets one
  // too.
  if (last_line_ && step.step() / options_.every_steps == *last_line_ / options_.every_steps) return out;
  last_line_ = step.step();
  out += "step " + PadLeft(std::to_string(step.step()), 7) + "  loss " + PadLeft(FormatNumber(loss), 6);
  if (const auto norm = ScalarValue(step.frame(), "grad_norm")) {
    out += "  grad " + PadLeft(FormatNumber(norm), 7);
  }
  if (heads != nullptr) out += Growing(heads());
  return out + "\n";
}

std::string WatchView::Growing(const v1::StepReply& heads) {
  std::vector<HeadSample> samples;
  for (const v1::Series& series : heads.frame().series()) {
    if (!series.has_layer() || SignalName(series) != options_.signal) continue;
    for (const HeadValue& value : HeadValues(series)) {
      if (value.value) samples.push_back({series.layer(), value.head, *value.value});
    }
  }
  const std::optional<HeadGrowth> top = growth_.Add(samples);
  if (!top) return "";
  const std::string text = "layer " + std::to_string(top->layer) + " head " + std::to_string(top->head) +
                           " " + options_.signal + " " + FormatNumber(top->value) + ", " +
                           FormatNumber(top->factor) + "x the median head's growth";
  return "  " + style_(top->factor >= kWorthColour ? Paint::kYellow : Paint::kDim, text);
}

std::string WatchView::OnAlert(const v1::Alert& alert) {
  if (alert.state() == v1::ALERT_STATE_PENDING) return "";
  if (alert.severity() == v1::SEVERITY_CRITICAL) criticals_[alert.id()] = alert;
  const bool resolved = alert.state() == v1::ALERT_STATE_RESOLVED;
  const auto least = resolved ? v1::SEVERITY_CRITICAL : v1::SEVERITY_WARNING;
  if (!options_.all_alerts && alert.severity() < least) return "";
  std::string out = AlertLine(alert, style_);
  if (alert.state() != v1::ALERT_STATE_FIRING || alert.severity() != v1::SEVERITY_CRITICAL) return out;
  out += "          ";
  out += loss_.collapse_step() ? "the loss had risen at step " + std::to_string(*loss_.collapse_step())
                               : "the loss has not moved yet: " + FormatNumber(loss_.smoothed()) +
                                     ", at its lowest " + FormatNumber(loss_.minimum());
  out += "\n";
  if (!alert.advice().empty()) out += "          do: " + Printable(alert.advice()) + "\n";
  return out;
}

std::string WatchView::CollapseLine() {
  const std::optional<int64_t> step = loss_.collapse_step();
  if (!step) {
    collapse_told_ = false;  // it recovered: the next rise is told again
    return "";
  }
  if (collapse_told_) return "";
  collapse_told_ = true;
  std::vector<FiringSpan> spans;
  for (const auto& [id, alert] : criticals_) {
    const bool firing = alert.state() == v1::ALERT_STATE_FIRING;
    spans.push_back({alert.fired_step(), firing ? FiringSpan::kStillFiring : alert.resolved_step()});
  }
  std::string out = style_(Paint::kRed, "COLLAPSE  ") + "step " + std::to_string(*step) + "  smoothed loss " +
                    FormatNumber(loss_.smoothed()) + ", more than 0.5 above its minimum " +
                    FormatNumber(loss_.minimum());
  if (const auto since = LastingSince(spans, *step)) {
    out += "; the critical alert of step " + std::to_string(*since) + " came " +
           std::to_string(*step - *since) + " steps before";
  } else {
    out += "; no critical alert before it";
  }
  return out + "\n";
}

std::string WatchView::OnState(v1::RunState state) {
  if (state == state_) return "";
  state_ = state;
  if (state == v1::RUN_STATE_RUNNING) return "";
  return "run is " + StateName(state) + "\n";
}

std::string WatchView::Closing() const {
  if (loss_.collapse_step()) return "collapsed at step " + std::to_string(*loss_.collapse_step()) + "\n";
  if (!loss_.smoothed()) return "no loss was seen\n";
  return "final loss " + FormatNumber(loss_.smoothed()) + " (smoothed), no collapse\n";
}

bool WatchView::EndedWell() const {
  for (const auto& [id, alert] : criticals_) {
    if (alert.state() == v1::ALERT_STATE_FIRING) return false;
  }
  return state_ == v1::RUN_STATE_FINISHED || state_ == v1::RUN_STATE_STOPPED;
}

}  // namespace foreshock::cli
