// foreshock act RUN KIND, foreshock actions RUN
#include <algorithm>
#include <array>
#include <string_view>

#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"
#include "watch_action.h"

namespace foreshock::cli {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"enable_qk_norm", "qk_clip", "checkpoint", "stop"};

class Act final : public Command {
 public:
  CommandSpec Spec() override {
    return {"act", "Propose an action to a run's trainer: enable_qk_norm, qk_clip, checkpoint, stop",
            "The trainer takes only what is on its own allow-list; nothing is forced. With --wait: exit "
            "status 0\n"
            "when it was taken, 1 when it was refused, expired or withdrawn (enable_qk_norm of several "
            "ranks: all "
            "of\nthem at one step, or none).\n\nExamples:\n"
            "  foreshock act gpt-7 enable_qk_norm\n  foreshock act gpt-7 qk_clip --value 100 --layer 3 "
            "--layer 4\n"
            "  foreshock act gpt-7 checkpoint --wait 60\n  foreshock act gpt-7 stop --expires 1500",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Positional("KIND", &kind_, "enable_qk_norm, qk_clip, checkpoint or stop");
              sink.Option("--layer", &layers_, "only this layer; may be repeated (default: all)");
              sink.Option("--value", &value_, "qk_clip: the logit to clip to");
              sink.Option("--at", &at_, "not before this step (default: at once)");
              sink.Option("--expires", &expires_, "void from this step on (default: never)");
              sink.Option("--reason", &reason_, "why, for the record");
              sink.Option("--wait", &wait_s_, "wait up to this many seconds for the outcome");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    const Status wrong = Check();
    if (!wrong.ok()) return Fail(context, wrong);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    const auto reply = (*client)->Act(Request());
    if (!reply.ok()) return Fail(context, reply.status());
    if (!wait_s_) {
      if (server_.json()) {
        PrintJson(context, *reply);
      } else {
        context.out << "proposed " << Printable(kind_) << " to " << Printable(run_) << ": action "
                    << Printable(reply->action().id()) << "\n";
      }
      return kExitOk;
    }
    return Await(context, **client, reply->action().id());
  }

 private:
  Status Check() const {
    if (std::find(kKinds.begin(), kKinds.end(), kind_) == kKinds.end()) {
      return Status(Code::kInvalidArgument,
                    "kind: '" + kind_ + "': expected enable_qk_norm, qk_clip, checkpoint or stop");
    }
    for (const int64_t layer : layers_) FS_RETURN_IF_ERROR(CheckRange("layer", layer, 0, 4095));
    FS_RETURN_IF_ERROR(CheckRange("at", at_.value_or(0), 0, INT64_MAX));
    FS_RETURN_IF_ERROR(CheckRange("expires", expires_.value_or(0), 0, INT64_MAX));
    FS_RETURN_IF_ERROR(CheckRange("wait", wait_s_.value_or(0), 0, 86'400));
    if (kind_ == "qk_clip" && !(value_ && *value_ > 0)) {
      return Status(Code::kInvalidArgument, "value: qk_clip needs --value, the logit to clip to, above 0");
    }
    return OkStatus();
  }

  v1::ActRequest Request() const {
    v1::ActRequest request;
    request.set_run(run_);
    request.set_kind(kind_);
    for (const int64_t layer : layers_) request.add_layers(static_cast<uint32_t>(layer));
    request.set_value(value_.value_or(0));
    request.set_effective_step(at_.value_or(0));
    request.set_expiry_step(expires_.value_or(0));
    request.set_issuer(UserName());
    request.set_reason(reason_);
    return request;
  }

  int Await(Context& context, Client& client, const std::string& id) const {
    const auto record = AwaitAction(client, run_, id, *wait_s_);
    if (!record.ok()) return Fail(context, record.status());
    if (server_.json()) {
      PrintJson(context, *record);
    } else {
      v1::ListActionsReply one;
      *one.add_actions() = *record;
      context.out << RenderActions(one, context.style);
    }
    switch (record->state()) {
      case v1::ACTION_STATE_TAKEN:
      case v1::ACTION_STATE_EFFECTIVE:
        return kExitOk;
      default:
        return kExitNegative;
    }
  }

  std::string run_, kind_, reason_;
  std::vector<int64_t> layers_;
  std::optional<double> value_;
  std::optional<int64_t> at_, expires_, wait_s_;
  ServerArgs server_;
};

class Actions final : public Command {
 public:
  CommandSpec Spec() override {
    return {"actions", "What was proposed to a run's trainer, and what became of it",
            "Examples:\n  foreshock actions gpt-7\n  foreshock actions gpt-7 --json", [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.ListActions(run_); },
        [&](const v1::ListActionsReply& reply) {
          context.out << (reply.actions_size() > 0 ? RenderActions(reply, context.style) : "no actions\n");
        });
  }

 private:
  std::string run_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeAct() { return std::make_unique<Act>(); }
std::unique_ptr<Command> MakeActions() { return std::make_unique<Actions>(); }

}  // namespace foreshock::cli
