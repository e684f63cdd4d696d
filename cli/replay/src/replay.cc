#include "foreshock/cli/replay.h"

#include <cstdio>
#include <ostream>

#include "foreshock/cli/player.h"
#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/rules/rules_file.h"

namespace foreshock::cli {
namespace {

constexpr int kDataError = 2;
constexpr int kUsageError = 3;

std::string Place(const alert::Alert& alert) {
  if (alert.layer < 0) return "-";
  std::string place = "layer " + std::to_string(alert.layer);
  if (alert.head >= 0) place += " head " + std::to_string(alert.head);
  return place;
}

void PrintRow(std::ostream& out, const std::string& step, std::string_view event, std::string_view severity,
              std::string_view rule, const std::string& place, std::string_view summary) {
  char row[160];
  std::snprintf(row, sizeof row, "%9s  %-8.*s  %-8.*s  %-22.*s  %-16s  ", step.c_str(),
                static_cast<int>(event.size()), event.data(), static_cast<int>(severity.size()),
                severity.data(), static_cast<int>(rule.size()), rule.data(), place.c_str());
  out << row << summary << '\n';
}

void PrintEvent(std::ostream& out, const alert::AlertEvent& event) {
  const alert::Alert& alert = event.alert;
  PrintRow(out, std::to_string(event.step), alert::AlertEventName(event.kind),
           detect::SeverityName(alert.severity), alert.rule, Place(alert), alert.summary);
}

void PrintEnd(std::ostream& out, const Player& player) {
  const auto firing = player.Firing();
  out << '\n' << player.steps() << " steps; ";
  if (firing.empty()) {
    out << "nothing fires at the end\n";
    return;
  }
  out << firing.size() << (firing.size() == 1 ? " alert fires" : " alerts fire") << " at the end\n";
  for (const alert::Alert& alert : firing) {
    out << "  " << detect::SeverityName(alert.severity) << ' ' << alert.rule << ", " << Place(alert)
        << ", first evidence at step " << alert.first_evidence_step;
    if (alert.last_checkpoint_step) out << ", last checkpoint before it " << *alert.last_checkpoint_step;
    out << ". " << alert.advice << '\n';
  }
}

}  // namespace

int RunReplay(const ReplayOptions& options, std::ostream& out, std::ostream& err) {
  for (const std::string& rule : options.disabled_rules) {
    if (detect::FindRule(rule)) continue;
    err << "foreshock replay: rule " << rule << ": unknown\n";
    return kUsageError;
  }
  detect::DetectorOptions detector;
  detector.disabled_rules = options.disabled_rules;
  if (!options.rules_path.empty()) {
    const auto rules = rules::LoadUserRules(options.rules_path);
    if (!rules.ok()) {
      err << "foreshock replay: " << rules.status().message() << '\n';
      return kDataError;
    }
    detector.user_rules = *rules;
  }
  const auto warn = [&](const std::string& warning) { err << options.path << ": " << warning << '\n'; };
  const auto print = [&](const alert::AlertEvent& event) {
    if (options.json) {
      out << alert::AlertEventToJsonLine(event) << '\n';
    } else {
      PrintEvent(out, event);
    }
  };
  Player player(std::move(detector), print, warn);
  if (!options.json) PrintRow(out, "step", "event", "severity", "rule", "where", "what");
  std::vector<std::string> warnings;
  const Status status = ReadRecording(options.path, &player, &warnings);
  player.Finish();
  for (const std::string& warning : warnings) warn(warning);
  if (!status.ok()) {
    err << "foreshock replay: " << options.path << ": " << status.message() << '\n';
    return kDataError;
  }
  if (!options.json) PrintEnd(out, player);
  return 0;
}

}  // namespace foreshock::cli
