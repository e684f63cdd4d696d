// foreshock series RUN SIGNAL, foreshock heads RUN [SIGNAL]
#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

constexpr int64_t kMostLayers = 4095;
constexpr int64_t kMostHeads = 65535;
constexpr int64_t kMostSteps = 1'000'000'000'000;

class Series final : public Command {
 public:
  CommandSpec Spec() override {
    return {"series", "One signal over steps: a table, with a sparkline on a terminal",
            "Without --head the smallest, median and largest head of each layer. Exit status 1 when the run "
            "is not\n"
            "there or holds no such points.\n\nExamples:\n  foreshock series gpt-7 loss\n"
            "  foreshock series gpt-7 qk_sigma1 --layer 1 --head 3 --from 1000 --to 1400\n"
            "  foreshock series gpt-7 logit_max --json",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Positional("SIGNAL", &signal_, "a name from `foreshock catalogue`");
              sink.Option("--layer", &layer_, "only this layer");
              sink.Option("--head", &head_, "only this head");
              sink.Option("--from", &from_, "first step");
              sink.Option("--to", &to_, "last step");
              sink.Option("--rank", &rank_, "one rank's own values (default: merged over ranks)");
              sink.Option("--attempt", &attempt_, "an attempt (default: the newest)");
              sink.Option("--max-points", &max_points_, "thin out to about this many points");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    v1::ReadSeriesRequest request;
    const Status wrong = Fill(&request);
    if (!wrong.ok()) return Fail(context, wrong);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const auto points = (*client)->ReadSeries(request);
    if (!points.ok()) return Fail(context, points.status());
    if (server_.json()) {
      PrintJson(context, *points);
      return points->points_size() > 0 ? kExitOk : kExitNegative;
    }
    if (points->points_size() == 0) {
      return Fail(context, Status(Code::kNotFound, "run " + run_ + " has no " + signal_ + " in these steps"));
    }
    std::optional<uint32_t> head;
    if (head_) head = static_cast<uint32_t>(*head_);
    context.out << RenderSeries(*points, head, context.style);
    return kExitOk;
  }

 private:
  Status Fill(v1::ReadSeriesRequest* request) const {
    FS_RETURN_IF_ERROR(CheckSignal(signal_));
    FS_RETURN_IF_ERROR(CheckRange("layer", layer_.value_or(0), 0, kMostLayers));
    FS_RETURN_IF_ERROR(CheckRange("head", head_.value_or(0), 0, kMostHeads));
    FS_RETURN_IF_ERROR(CheckRange("from", from_.value_or(0), 0, kMostSteps));
    FS_RETURN_IF_ERROR(CheckRange("to", to_.value_or(0), 0, kMostSteps));
    FS_RETURN_IF_ERROR(CheckRange("rank", rank_.value_or(0), 0, UINT32_MAX));
    FS_RETURN_IF_ERROR(CheckRange("max-points", max_points_.value_or(0), 0, UINT32_MAX));
    if (to_ && from_ && *to_ < *from_) {
      return Status(Code::kInvalidArgument,
                    "to: " + std::to_string(*to_) + ": before --from " + std::to_string(*from_));
    }
    request->set_run(run_);
    request->set_attempt(attempt_);
    request->set_signal(signal_);
    if (layer_) request->set_layer(static_cast<uint32_t>(*layer_));
    if (head_) request->add_heads(static_cast<uint32_t>(*head_));
    request->set_from_step(from_.value_or(0));
    request->set_to_step(to_.value_or(0));
    if (rank_) request->set_rank(static_cast<uint32_t>(*rank_));
    request->set_max_points(static_cast<uint32_t>(max_points_.value_or(0)));
    return OkStatus();
  }

  std::string run_, signal_, attempt_;
  std::optional<int64_t> layer_, head_, from_, to_, rank_, max_points_;
  ServerArgs server_;
};

class Heads final : public Command {
 public:
  CommandSpec Spec() override {
    return {"heads", "Layers x heads of a signal at one step: a heat map on a terminal, numbers elsewhere",
            "The step shown is the one asked for or the last one before it that has the signal. Exit status "
            "1 when\n"
            "there is none.\n\nExamples:\n  foreshock heads gpt-7\n  foreshock heads gpt-7 logit_max --step "
            "1200\n"
            "  NO_COLOR=1 foreshock heads gpt-7   # numbers on a terminal too",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.OptionalPositional("SIGNAL", &signal_, "a per-head signal (default: qk_sigma1)");
              sink.Option("--step", &step_, "a step (default: the last)");
              sink.Option("--attempt", &attempt_, "an attempt (default: the newest)");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    Status wrong = CheckSignal(signal_);
    if (wrong.ok()) wrong = CheckRange("step", step_.value_or(0), 0, kMostSteps);
    if (!wrong.ok()) return Fail(context, wrong);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    v1::ReadStepRequest request;
    request.set_run(run_);
    request.set_attempt(attempt_);
    request.set_step(step_.value_or(-1));
    request.add_signals(signal_);
    const auto reply = (*client)->ReadStep(request);
    if (!reply.ok()) return Fail(context, reply.status());
    if (server_.json()) {
      PrintJson(context, *reply);
    } else {
      context.out << RenderHeads(*reply, signal_, context.style);
    }
    return reply->frame().series_size() > 0 ? kExitOk : kExitNegative;
  }

 private:
  std::string run_, signal_ = "qk_sigma1", attempt_;
  std::optional<int64_t> step_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeSeries() { return std::make_unique<Series>(); }
std::unique_ptr<Command> MakeHeads() { return std::make_unique<Heads>(); }

}  // namespace foreshock::cli
