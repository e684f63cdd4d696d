#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/table.h"
#include "names.h"

namespace foreshock::cli {
namespace {

std::string PaintedState(v1::RunState state, const Style& style) {
  const Paint paint = state == v1::RUN_STATE_RUNNING                                   ? Paint::kGreen
                      : state == v1::RUN_STATE_FAILED || state == v1::RUN_STATE_SILENT ? Paint::kYellow
                                                                                       : Paint::kPlain;
  return style(paint, StateName(state));
}

std::string Firing(const v1::Run& run, const Style& style) {
  std::string text;
  if (run.firing_criticals() > 0) {
    text = style(Paint::kRed, std::to_string(run.firing_criticals()) + " critical");
  }
  if (run.firing_warnings() > 0) {
    if (!text.empty()) text += ", ";
    text += style(Paint::kYellow, std::to_string(run.firing_warnings()) + " warning");
  }
  return text.empty() ? "none" : text;
}

std::optional<double> LastLoss(const v1::Run& run) {
  if (!run.has_last_loss()) return std::nullopt;
  return run.last_loss();
}

std::string Shape(const v1::Model& model) {
  if (model.layers_size() == 0) return "unknown";
  const v1::Layer& first = model.layers(0);
  std::string text = std::to_string(model.layers_size()) + " layers, " + std::to_string(first.query_heads()) +
                     " heads of " + std::to_string(first.head_dim());
  if (first.kv_heads() != first.query_heads()) text += ", " + std::to_string(first.kv_heads()) + " KV heads";
  if (first.qk_norm()) text += ", QK normalization";
  return text;
}

std::string Attempts(const v1::Run& run, const Style& style) {
  Table table({{"attempt"}, {"by"}, {"ranks", Align::kRight}, {"steps", Align::kRight}, {"state"}, {"note"}});
  for (const v1::Attempt& attempt : run.attempts()) {
    table.AddRow({Printable(attempt.attempt()), SourceName(attempt.source()),
                  std::to_string(attempt.world_size()),
                  std::to_string(attempt.first_step()) + ".." + std::to_string(attempt.last_step()),
                  PaintedState(attempt.state(), style), Printable(attempt.goodbye_detail())});
  }
  return table.empty() ? "" : "\n" + table.Render(style);
}

std::string Sources(const v1::Run& run, const Style& style) {
  Table table({{"rank", Align::kRight},
               {"host"},
               {"frames", Align::kRight},
               {"last step", Align::kRight},
               {"dropped", Align::kRight},
               {"duplicates", Align::kRight},
               {"quarantined", Align::kRight},
               {"clock skew", Align::kRight}});
  for (const v1::Attempt& attempt : run.attempts()) {
    for (const v1::Source& source : attempt.sources()) {
      const std::string dropped = std::to_string(source.dropped());
      table.AddRow({std::to_string(source.rank()), Printable(source.host()), std::to_string(source.frames()),
                    std::to_string(source.last_step()),
                    source.dropped() > 0 ? style(Paint::kYellow, dropped) : dropped,
                    std::to_string(source.duplicates()), std::to_string(source.quarantined()),
                    FormatDuration(static_cast<double>(source.clock_skew_ns()) * 1e-9)});
    }
  }
  return table.empty() ? "" : "\n" + table.Render(style);
}

}  // namespace

std::string RenderRuns(const v1::ListRunsReply& reply, const Style& style) {
  if (reply.runs_size() == 0) return "no runs\n";
  Table table({{"run"},
               {"state"},
               {"step", Align::kRight},
               {"loss", Align::kRight},
               {"attempts", Align::kRight},
               {"firing"},
               {"last seen"}});
  for (const v1::Run& run : reply.runs()) {
    table.AddRow({Printable(run.run()), PaintedState(run.state(), style), std::to_string(run.last_step()),
                  FormatNumber(LastLoss(run)), std::to_string(run.attempts_size()), Firing(run, style),
                  FormatTime(run.last_unix_ns())});
  }
  return table.Render(style);
}

std::string RenderRun(const v1::Run& run, const Style& style) {
  std::string out =
      style(Paint::kBold, Printable(run.run())) + "  " + PaintedState(run.state(), style) + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    out += "  " + name + std::string(12 - std::min<size_t>(name.size(), 11), ' ') + value + "\n";
  };
  line("step", std::to_string(run.last_step()));
  line("loss", FormatNumber(LastLoss(run)));
  line("firing", Firing(run, style));
  line("model",
       Printable(run.model().name()) + (run.model().name().empty() ? "" : ": ") + Shape(run.model()));
  line("first seen", FormatTime(run.first_unix_ns()));
  line("last seen", FormatTime(run.last_unix_ns()));
  for (const auto& [key, value] : run.labels()) line("label", Printable(key) + "=" + Printable(value));
  for (const v1::Unmonitored& part : run.unmonitored()) {
    out += style(Paint::kYellow, "  unmonitored") + " " + Printable(part.name()) + ": " +
           Printable(part.reason()) + "\n";
  }
  return out + Attempts(run, style) + Sources(run, style);
}

}  // namespace foreshock::cli
