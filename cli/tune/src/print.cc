#include "print.h"

#include <algorithm>
#include <cstdio>

#include "foreshock/cli/number.h"
#include "foreshock/cli/table.h"
#include "foreshock/json/writer.h"
#include "references.h"

namespace foreshock::cli {
namespace {

std::string Share(std::optional<double> value) {
  if (!value) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", *value);
  return text;
}

std::string Of(int64_t some, int64_t all) {
  return all == 0 ? "-" : std::to_string(some) + "/" + std::to_string(all);
}

std::string Percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::optional<double> Least(const Verdicts& v) {
  if (v.leads.empty()) return std::nullopt;
  return *std::min_element(v.leads.begin(), v.leads.end());
}

std::string IntervalText(const Verdicts& v, const TuneOptions& options) {
  const auto interval = BootstrapMedian(v.leads, options.bootstrap, options.seed);
  return interval ? Share(interval->low) + " to " + Share(interval->high) : "-";
}

std::string ThresholdText(const Verdicts& v) {
  if (v.most_threshold == 0) return "-";
  const std::string least = FormatNumber(v.least_threshold), most = FormatNumber(v.most_threshold);
  return least == most ? least : least + " to " + most;
}

std::string PrintTable(const std::vector<Verdicts>& all, const TuneOptions& options, const Style& style) {
  using enum Align;
  Table table({{"detector", kLeft},
               {"threshold", kRight},
               {"caught", kRight},
               {"median lead", kRight},
               {"95 %", kLeft},
               {"least", kRight},
               {"false", kRight},
               {"rate at most", kRight},
               {"failed", kRight},
               {"head", kRight}});
  for (const Verdicts& v : all) {
    table.AddRow({v.detector, ThresholdText(v), Of(v.caught, v.collapses), Share(Median(v.leads)),
                  IntervalText(v, options), Share(Least(v)), Of(v.false_alarms, v.chances),
                  Percent(UpperBound(v.false_alarms, v.chances)), Of(v.failed_seen, v.failed),
                  Of(v.heads_named, v.heads)});
  }
  return table.Render(style);
}

std::string PrintRuns(const std::vector<LabelledRun>& runs, const Style& style) {
  using enum Align;
  Table table({{"run", kLeft},
               {"onset", kRight},
               {"collapse", kRight},
               {"critical", kRight},
               {"lead", kRight},
               {"false", kLeft}});
  for (const LabelledRun& run : runs) {
    const Spoke spoke = RuleSpoke(run, "");
    Verdicts one;
    Add(run, spoke, &one);
    table.AddRow({Printable(run.run), std::to_string(run.truth.onset),
                  run.truth.collapse ? std::to_string(*run.truth.collapse) : "-",
                  spoke.step ? std::to_string(*spoke.step) : "-",
                  one.leads.empty() ? "-" : Share(one.leads[0]), spoke.false_alarm ? "false alarm" : ""});
  }
  return table.Render(style);
}

void PutVerdicts(const std::vector<Verdicts>& all, const TuneOptions& options, json::Writer* out) {
  const auto put = [out](std::optional<double> value) { value ? out->Double(*value) : out->Null(); };
  out->BeginArray();
  for (const Verdicts& v : all) {
    out->BeginObject().Key("detector").String(v.detector);
    if (v.most_threshold > 0) {
      out->Key("threshold").BeginArray().Double(v.least_threshold).Double(v.most_threshold).EndArray();
    }
    out->Key("collapses").Int(v.collapses).Key("caught").Int(v.caught).Key("median_lead");
    put(Median(v.leads));
    if (const auto interval = BootstrapMedian(v.leads, options.bootstrap, options.seed)) {
      out->Key("median_lead_95").BeginArray().Double(interval->low).Double(interval->high).EndArray();
    }
    out->Key("least_lead");
    put(Least(v));
    out->Key("false_alarms").Int(v.false_alarms).Key("chances").Int(v.chances);
    out->Key("false_alarm_rate_at_most")
        .Double(UpperBound(v.false_alarms, v.chances))
        .Key("false_runs")
        .BeginArray();
    for (const std::string& run : v.false_runs) out->String(run);
    out->EndArray().Key("failed").Int(v.failed).Key("failed_seen").Int(v.failed_seen);
    out->Key("heads").Int(v.heads).Key("heads_named").Int(v.heads_named).EndObject();
  }
  out->EndArray();
}

}  // namespace

void PrintText(const TuneResult& result, const TuneOptions& options, const Style& style, std::ostream& out) {
  const auto title = [&](const std::string& text) { out << '\n' << style(Paint::kBold, text) << '\n'; };
  out << result.runs.size() << " runs\n";
  if (options.runs) out << PrintRuns(result.runs, style);
  title("Rules as they are, criticals that last until the collapse");
  out << PrintTable(result.rules, options, style);
  title("Others, with thresholds in common use; once above is enough");
  out << PrintTable(result.references, options, style);
  if (!result.constants.empty()) {
    title("qk_runaway alone, as it is and with one inner constant changed");
    out << PrintTable(result.constants, options, style);
  }
  title("Thresholds and constants chosen without the run that they judge");
  out << PrintTable(result.left_out, options, style);
  title("Suggested thresholds: 1.05 times the largest score of all runs where nothing was wrong");
  for (size_t i = 0; !result.runs.empty() && i < result.runs[0].scores.size(); ++i) {
    out << "  " << result.runs[0].scores[i].name << ": "
        << FormatNumber(ChosenThreshold(result.runs, i, SIZE_MAX))
        << (result.runs[0].scores[i].name == kOwnScore ? " or less (critical at 1)" : "") << '\n';
  }
}

void PrintJson(const TuneResult& result, const TuneOptions& options, std::ostream& out) {
  json::Writer writer;
  writer.BeginObject().Key("runs").Int(static_cast<int64_t>(result.runs.size())).Key("rules");
  PutVerdicts(result.rules, options, &writer);
  writer.Key("references");
  PutVerdicts(result.references, options, &writer);
  if (!result.constants.empty()) {
    writer.Key("constants");
    PutVerdicts(result.constants, options, &writer);
  }
  writer.Key("leave_one_out");
  PutVerdicts(result.left_out, options, &writer);
  writer.Key("suggested").BeginObject();
  for (size_t i = 0; !result.runs.empty() && i < result.runs[0].scores.size(); ++i) {
    writer.Key(result.runs[0].scores[i].name).Double(ChosenThreshold(result.runs, i, SIZE_MAX));
  }
  writer.EndObject().EndObject();
  out << writer.Take() << '\n';
}

}  // namespace foreshock::cli
