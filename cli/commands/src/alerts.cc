// foreshock alerts [RUN]
#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

class Alerts final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "alerts", "Alerts of one run or of all, newest first",
        "With --check: exit status 1 while a critical alert fires (for scripts).\n\nExamples:\n"
        "  foreshock alerts\n  foreshock alerts gpt-7 --detail\n  foreshock alerts gpt-7 --firing --check",
        [this](ArgSink& sink) {
          sink.OptionalPositional("RUN", &run_, "only this run");
          sink.Flag("--firing", &firing_, "only what fires now");
          sink.Option("--label", &labels_, "only alerts with this label, NAME=VALUE; may be repeated");
          sink.Flag("--detail", &detail_, "with evidence, last checkpoint and what to do");
          sink.Flag("--check", &check_, "exit status 1 while a critical alert fires");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    v1::ListAlertsRequest request;
    request.set_run(run_);
    request.set_firing_only(firing_);
    const auto labels = ParseLabels(labels_);
    if (!labels.ok()) return Fail(context, labels.status());
    request.mutable_labels()->insert(labels->begin(), labels->end());
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const auto reply = (*client)->ListAlerts(request);
    if (!reply.ok()) return Fail(context, reply.status());
    if (server_.json()) {
      PrintJson(context, *reply);
    } else if (detail_ && reply->alerts_size() > 0) {
      for (const v1::Alert& alert : reply->alerts()) context.out << RenderAlertDetail(alert, context.style);
    } else {
      context.out << RenderAlerts(*reply, run_.empty(), context.style);
    }
    if (!check_) return kExitOk;
    for (const v1::Alert& alert : reply->alerts()) {
      if (alert.state() == v1::ALERT_STATE_FIRING && alert.severity() == v1::SEVERITY_CRITICAL) {
        return kExitNegative;
      }
    }
    return kExitOk;
  }

 private:
  std::string run_;
  std::vector<std::string> labels_;
  bool firing_ = false, detail_ = false, check_ = false;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeAlerts() { return std::make_unique<Alerts>(); }

}  // namespace foreshock::cli
