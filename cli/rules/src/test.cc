#include <ostream>

#include "foreshock/cli/rules.h"
#include "foreshock/server/scenario/scenario.h"
#include "outcome.h"

namespace foreshock::cli {
namespace {

void PrintEvents(const scenario::Outcome& outcome, std::ostream& out) {
  for (const alert::AlertEvent& event : outcome.events) {
    out << "      step " << event.step << ' ' << alert::AlertEventName(event.kind) << ' '
        << detect::SeverityName(event.alert.severity) << ' ' << event.alert.rule << ": "
        << event.alert.summary << '\n';
  }
}

void PrintText(const std::string& file, const scenario::Outcome& outcome, bool verbose, std::ostream& out) {
  const bool passed = outcome.failures.empty();
  out << (passed ? "ok      " : "FAILED  ") << file << ":" << outcome.line << ": " << outcome.name << " ("
      << outcome.samples << " samples, " << outcome.events.size() << " events)\n";
  for (const rules::RuleError& failure : outcome.failures)
    out << "    " << rules::ToText(file, failure) << '\n';
  if (passed && !verbose) return;
  out << (outcome.events.empty() ? "    nothing fired\n" : "    what came:\n");
  PrintEvents(outcome, out);
}

void PrintJson(const std::string& file, const scenario::Outcome& outcome, std::ostream& out) {
  json::Writer writer;
  writer.BeginObject().Key("file").String(file).Key("line").Int(outcome.line);
  writer.Key("scenario").String(outcome.name).Key("passed").Bool(outcome.failures.empty()).Key("failures");
  PutErrors(outcome.failures, &writer);
  writer.Key("events").BeginArray();
  for (const alert::AlertEvent& event : outcome.events) writer.Raw(alert::AlertEventToJsonLine(event));
  writer.EndArray().EndObject();
  out << writer.Take() << '\n';
}

}  // namespace

int RunRulesTest(const RulesTestOptions& options, std::ostream& out, std::ostream& err) {
  detect::UserRulesPtr rules;
  if (!options.rules_path.empty()) {
    const auto loaded = rules::LoadUserRules(options.rules_path);
    if (!loaded.ok()) {
      err << "foreshock rules: " << loaded.status().message() << '\n';
      return kBadInput;
    }
    rules = *loaded;
  }
  bool failed = false, bad = false;
  size_t passed = 0, all = 0;
  for (const std::string& file : options.files) {
    const auto report = scenario::RunScenarioFile(file, rules);
    if (!report.ok()) err << "foreshock rules: " << report.status().message() << '\n';
    bad = bad || !report.ok() || !report->errors.empty();
    if (!report.ok()) continue;
    for (const rules::RuleError& error : report->errors) err << rules::ToText(file, error) << '\n';
    for (const scenario::Outcome& outcome : report->outcomes) {
      ++all;
      passed += outcome.failures.empty() ? 1 : 0;
      failed = failed || !outcome.failures.empty();
      if (options.json) {
        PrintJson(file, outcome, out);
      } else {
        PrintText(file, outcome, options.verbose, out);
      }
    }
  }
  if (!options.json) out << passed << " of " << all << " scenarios passed\n";
  return bad ? kBadInput : failed ? kFailed : kPassed;
}

}  // namespace foreshock::cli
