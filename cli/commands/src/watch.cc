// foreshock watch RUN
#include <chrono>
#include <cmath>
#include <thread>

#include "commands.h"
#include "common.h"
#include "foreshock/cli/watch_view.h"

namespace foreshock::cli {
namespace {

class Watch final : public Command {
 public:
  CommandSpec Spec() override {
    return {"watch",
            "Follow a run live: step, loss, the head that grows, alerts with their lead over the loss",
            "Ends with the run. Exit status 0 when it finished, 1 when it failed, went silent or a critical "
            "alert\n"
            "fires at its end. With --json: one JSON object a line.\n\nExamples:\n  foreshock watch gpt-7\n"
            "  foreshock watch gpt-7 --every 10 --signal logit_max\n  foreshock watch gpt-7 --wait 60 --json",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Option("--every", &every_, "a line each time this many steps have gone by");
              sink.Option("--signal", &signal_, "the per-head signal whose growth is shown");
              sink.Flag("--all", &all_, "also alerts of severity info, and warnings that resolve");
              sink.Option("--wait", &wait_s_, "wait up to this many seconds for the run to appear");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    Status wrong = CheckSignal(signal_);
    if (wrong.ok()) wrong = CheckRange("every", *every_, 1, 1'000'000'000);
    if (wrong.ok()) wrong = CheckRange("wait", *wait_s_, 0, 86'400);
    if (!wrong.ok()) return Fail(context, wrong);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const Status there = AwaitRun(**client);
    if (!there.ok()) return Fail(context, there);

    WatchView view({.signal = signal_, .every_steps = *every_, .all_alerts = all_}, context.style);
    v1::WatchRequest request;
    request.set_run(run_);
    const Status status = (*client)->Watch(request, [&](const v1::WatchUpdate& update) {
      if (server_.json()) {
        PrintJson(context, update);
        view.Take(update, nullptr);  // for the exit status
      } else {
        context.out << view.Take(update, [&] { return Heads(**client, update.step().step()); });
      }
      context.out.flush();
      return context.out.good();
    });
    if (!status.ok()) return Fail(context, status);
    if (!server_.json()) context.out << view.Closing();
    return view.EndedWell() ? kExitOk : kExitNegative;
  }

 private:
  // The run, once it is there. A server that is not up yet is waited for as well.
  Status AwaitRun(Client& client) const {
    constexpr std::chrono::milliseconds kPoll(100);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(*wait_s_);
    for (;;) {
      const auto run = client.GetRun(run_);
      if (run.ok()) return OkStatus();
      const Code code = run.status().code();
      const bool may_come = code == Code::kNotFound || code == Code::kUnavailable;
      if (!may_come || std::chrono::steady_clock::now() >= deadline) return run.status();
      std::this_thread::sleep_for(kPoll);
    }
  }

  v1::StepReply Heads(Client& client, int64_t step) const {
    v1::ReadStepRequest request;
    request.set_run(run_);
    request.set_step(step);
    request.add_signals(signal_);
    auto reply = client.ReadStep(request);
    return reply.ok() ? *std::move(reply) : v1::StepReply();  // a run without the signal has no growing head
  }

  std::string run_, signal_ = "qk_sigma1";
  bool all_ = false;
  std::optional<int64_t> every_ = 50, wait_s_ = 0;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeWatch() { return std::make_unique<Watch>(); }

}  // namespace foreshock::cli
