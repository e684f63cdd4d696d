// foreshock runs, foreshock show RUN
#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

class Runs final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "runs", "List runs, newest first",
        "Examples:\n  foreshock runs\n  foreshock runs gpt-  # names that begin so\n  foreshock runs --json",
        [this](ArgSink& sink) {
          sink.OptionalPositional("PREFIX", &prefix_, "only names that begin with this");
          sink.Option("--label", &labels_, "only runs with this label, NAME=VALUE; may be repeated");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    const auto labels = ParseLabels(labels_);
    if (!labels.ok()) return Fail(context, labels.status());
    v1::ListRunsRequest request;
    request.set_name_prefix(prefix_);
    request.mutable_labels()->insert(labels->begin(), labels->end());
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.ListRuns(request); },
        [&](const v1::ListRunsReply& reply) { context.out << RenderRuns(reply, context.style); });
  }

 private:
  std::string prefix_;
  std::vector<std::string> labels_;
  ServerArgs server_;
};

class Show final : public Command {
 public:
  CommandSpec Spec() override {
    return {"show", "One run: state, attempts, sources, what fires, what is not monitored",
            "Exit status 1 when there is no such run.\n\nExamples:\n  foreshock show gpt-7\n"
            "  foreshock show gpt-7 --json",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const auto run = (*client)->GetRun(run_);
    if (!run.ok()) return Fail(context, run.status());
    if (server_.json()) {
      PrintJson(context, *run);
      return kExitOk;
    }
    context.out << RenderRun(*run, context.style);
    v1::ListAlertsRequest request;
    request.set_run(run_);
    request.set_firing_only(true);
    const auto alerts = (*client)->ListAlerts(request);
    if (!alerts.ok()) return Fail(context, alerts.status());
    for (const v1::Alert& alert : alerts->alerts()) {
      context.out << "\n" << RenderAlertDetail(alert, context.style);
    }
    const auto actions = (*client)->ListActions(run_);
    if (!actions.ok()) return Fail(context, actions.status());
    if (actions->actions_size() > 0) context.out << "\n" << RenderActions(*actions, context.style);
    return kExitOk;
  }

 private:
  std::string run_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeRuns() { return std::make_unique<Runs>(); }
std::unique_ptr<Command> MakeShow() { return std::make_unique<Show>(); }

}  // namespace foreshock::cli
