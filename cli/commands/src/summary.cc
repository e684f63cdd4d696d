// foreshock summary RUN...
#include "foreshock/cli/summary.h"

#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

Result<RunRecord> Fetch(Client& client, const std::string& name) {
  RunRecord record;
  FS_ASSIGN_OR_RETURN(record.run, client.GetRun(name));
  v1::ReadSeriesRequest series;
  series.set_run(name);
  series.set_signal("loss");
  FS_ASSIGN_OR_RETURN(record.loss, client.ReadSeries(series));
  v1::ListAlertsRequest alerts;
  alerts.set_run(name);
  FS_ASSIGN_OR_RETURN(const v1::ListAlertsReply alerts_reply, client.ListAlerts(alerts));
  record.alerts.assign(alerts_reply.alerts().begin(), alerts_reply.alerts().end());
  v1::ListEventsRequest events;
  events.set_run(name);
  FS_ASSIGN_OR_RETURN(const v1::ListEventsReply events_reply, client.ListEvents(events));
  record.events.assign(events_reply.events().begin(), events_reply.events().end());
  return record;
}

class Summary final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "summary", "Runs side by side: collapse, critical alert and its lead, guard, verdict",
        "Collapse: the loss, smoothed by an average of weight 0.1 a sample, stays more than 0.5 above its "
        "minimum\n"
        "to the end after it had fallen by 1 nat. Lead: from the critical alert that lasted to the "
        "collapse.\n"
        "Contained: the guard switched on after the fault's onset, no collapse, no critical at the end, and "
        "the\n"
        "final loss within 0.25 nat of the first healthy run's. Verdicts: healthy, not_learned, collapsed,\n"
        "contained, not_contained, critical. Exit status 1 when an --expect does not hold.\n\nExamples:\n"
        "  foreshock summary gpt-7\n  foreshock summary healthy faulty guarded --json\n"
        "  foreshock summary a b --expect healthy --expect collapsed",
        [this](ArgSink& sink) {
          sink.Positionals("RUN", &runs_, "runs' names");
          sink.Option("--expect", &expected_, "verdict expected of each run, in their order");
          sink.Option("--onset", &onset_, "step at which a fault began, where the runs do not tell");
          sink.Option("--every", &every_, "a loss sample is a step divisible by this");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    const Status wrong = Check();
    if (!wrong.ok()) return Fail(context, wrong);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    std::vector<RunRecord> records;
    for (const std::string& name : runs_) {
      auto record = Fetch(**client, name);
      if (!record.ok()) return Fail(context, record.status().Annotate(name));
      records.push_back(*std::move(record));
    }
    const std::vector<RunSummary> summaries =
        Summarise(records, {.every_steps = *every_, .onset_step = onset_});
    if (server_.json()) {
      context.out << SummariesToJson(summaries) << "\n";
    } else {
      context.out << RenderSummaries(summaries, context.style);
    }
    return Compare(context, summaries);
  }

 private:
  Status Check() const {
    FS_RETURN_IF_ERROR(CheckRange("every", *every_, 1, 1'000'000'000));
    if (!expected_.empty() && expected_.size() != runs_.size()) {
      return Status(Code::kInvalidArgument, "expect: given " + std::to_string(expected_.size()) +
                                                " times for " + std::to_string(runs_.size()) + " runs");
    }
    for (const std::string& verdict : expected_) {
      if (ParseVerdict(verdict)) continue;
      return Status(Code::kInvalidArgument, "expect: '" + verdict +
                                                "': expected healthy, not_learned, collapsed, contained, "
                                                "not_contained or critical");
    }
    return OkStatus();
  }

  int Compare(Context& context, const std::vector<RunSummary>& summaries) const {
    int exit = kExitOk;
    for (size_t i = 0; i < expected_.size(); ++i) {
      const std::string verdict = VerdictName(summaries[i].verdict);
      if (verdict == expected_[i]) continue;
      context.out.flush();
      context.err << "foreshock: " << Printable(runs_[i]) << ": " << verdict << ", expected " << expected_[i]
                  << "\n";
      exit = kExitNegative;
    }
    return exit;
  }

  std::vector<std::string> runs_, expected_;
  std::optional<int64_t> every_ = kDefaultEverySteps, onset_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeSummary() { return std::make_unique<Summary>(); }

}  // namespace foreshock::cli
