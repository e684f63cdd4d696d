// foreshock silence create|list|expire, foreshock acknowledge RUN, foreshock audit
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

// As a list prints it.
void PrintSilence(Context& context, const v1::Silence& silence) {
  v1::ListSilencesReply one;
  *one.add_silences() = silence;
  context.out << RenderSilences(one, context.style);
}

class SilenceCommand final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "silence", "Tell nobody of some alerts for a while: create, list, expire",
        "WHAT: create, list, or expire ID. A silenced alert fires, is kept and is shown as always; nobody "
        "is\n"
        "notified of it. It is told when the silence ends and it still fires. Patterns: * and ?. Where the\n"
        "server has an Alertmanager, the silence is created and ended there, too; `list` shows how that "
        "went.\n\n"
        "Examples:\n"
        "  foreshock silence create --run 'gpt-*' --rule grad_norm_spike --for 2h --comment 'new data mix'\n"
        "  foreshock silence create --run gpt-7 --layer 3 --head 1 --severity warning --for 1d\n"
        "  foreshock silence list --expired\n  foreshock silence expire 18ac3f1b2c4d5e6f",
        [this](ArgSink& sink) {
          sink.Positional("WHAT", &what_, "create, list or expire");
          sink.OptionalPositional("ID", &id_, "expire: the silence");
          sink.Option("--run", &run_,
                      "create: runs whose name fits this pattern; list: that may cover this run");
          sink.Option("--rule", &rule_, "create: alerts of rules whose name fits this pattern");
          sink.Option("--severity", &severity_, "create: only info, warning or critical ones");
          sink.Option("--layer", &layer_, "create: only alerts of this layer");
          sink.Option("--head", &head_, "create: only alerts of this head");
          sink.Option("--for", &for_, "create: how long, such as 90s, 15m, 2h, 3d; needed");
          sink.Option("--in", &in_, "create: begin so much later (default: now)");
          sink.Option("--comment", &comment_, "why, for the record");
          sink.Option("--author", &author_, "who (default: your user's name)");
          sink.Flag("--expired", &expired_, "list: those that are over, too (of the last 30 days)");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    if (what_ == "create") return Create(context);
    if (what_ == "list") return List(context);
    if (what_ == "expire") return Expire(context);
    return Fail(context,
                Status(Code::kInvalidArgument, "what: '" + what_ + "': expected create, list or expire"));
  }

 private:
  std::string Author() const { return author_.empty() ? UserName() : author_; }

  Status Fill(v1::CreateSilenceRequest* request) const {
    v1::Silence& silence = *request->mutable_silence();
    silence.set_run(run_);
    silence.set_rule(rule_);
    if (!severity_.empty()) {
      v1::Severity severity = v1::SEVERITY_UNSPECIFIED;
      std::string name = "SEVERITY_" + severity_;
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
      if (!v1::Severity_Parse(name, &severity) || severity == v1::SEVERITY_UNSPECIFIED) {
        return Status(Code::kInvalidArgument,
                      "severity: '" + severity_ + "': expected info, warning or critical");
      }
      silence.set_severity(severity);
    }
    FS_RETURN_IF_ERROR(CheckRange("layer", layer_.value_or(0), 0, 4095));
    FS_RETURN_IF_ERROR(CheckRange("head", head_.value_or(0), 0, 65'535));
    if (layer_) silence.set_layer(static_cast<uint32_t>(*layer_));
    if (head_) silence.set_head(static_cast<uint32_t>(*head_));
    silence.set_author(Author());
    silence.set_comment(comment_);
    if (for_.empty()) return Status(Code::kInvalidArgument, "for: missing: say how long, such as --for 2h");
    FS_ASSIGN_OR_RETURN(const double seconds, ParseDuration("for", for_));
    request->set_seconds(seconds);
    if (in_.empty()) return OkStatus();
    FS_ASSIGN_OR_RETURN(const double later, ParseDuration("in", in_));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    silence.set_starts_unix_ns(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() + std::llround(later * 1e9)));
    return OkStatus();
  }

  int Create(Context& context) const {
    v1::CreateSilenceRequest request;
    if (const Status status = Fill(&request); !status.ok()) return Fail(context, status);
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.CreateSilence(request); },
        [&](const v1::Silence& made) { PrintSilence(context, made); });
  }

  int List(Context& context) const {
    v1::ListSilencesRequest request;
    request.set_with_expired(expired_);
    request.set_run(run_);
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.ListSilences(request); },
        [&](const v1::ListSilencesReply& reply) { context.out << RenderSilences(reply, context.style); });
  }

  int Expire(Context& context) const {
    if (id_.empty())
      return Fail(context, Status(Code::kInvalidArgument, "id: missing: `foreshock silence list` shows it"));
    v1::ExpireSilenceRequest request;
    request.set_id(id_);
    request.set_author(Author());
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.ExpireSilence(request); },
        [&](const v1::Silence& ended) { PrintSilence(context, ended); });
  }

  std::string what_, id_, run_, rule_, severity_, for_, in_, comment_, author_;
  std::optional<int64_t> layer_, head_;
  bool expired_ = false;
  ServerArgs server_;
};

class Acknowledge final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "acknowledge", "Say that you look after the alerts that fire of a run",
        "Nobody is notified of them again until they resolve; an escalation to critical is a new alert and "
        "is\n"
        "told. Take it back with `foreshock silence expire ID`. Exit status 1 when no such alert fires.\n\n"
        "Examples:\n  foreshock acknowledge gpt-7 --comment 'rolling back to 1200'\n"
        "  foreshock acknowledge gpt-7 --rule 'loss_*' --for 2h",
        [this](ArgSink& sink) {
          sink.Positional("RUN", &run_, "the run's name");
          sink.Option("--alert", &alert_, "only the alert with this id (default: all that fire)");
          sink.Option("--rule", &rule_, "only alerts of rules whose name fits this pattern");
          sink.Option("--for", &for_, "at most so long, such as 15m, 2h, 3d (default: 24h)");
          sink.Option("--comment", &comment_, "what you do about it, for the record");
          sink.Option("--author", &author_, "who (default: your user's name)");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    v1::AcknowledgeRequest request;
    request.set_run(run_);
    request.set_alert(alert_);
    request.set_rule(rule_);
    request.set_author(author_.empty() ? UserName() : author_);
    request.set_comment(comment_);
    if (!for_.empty()) {
      const auto seconds = ParseDuration("for", for_);
      if (!seconds.ok()) return Fail(context, seconds.status());
      request.set_seconds(*seconds);
    }
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.Acknowledge(request); },
        [&](const v1::ListSilencesReply& reply) {
          context.out << (reply.silences_size() > 0 ? RenderSilences(reply, context.style)
                                                    : "acknowledged already\n");
        });
  }

 private:
  std::string run_, alert_, rule_, for_, comment_, author_;
  ServerArgs server_;
};

class Audit final : public Command {
 public:
  CommandSpec Spec() override {
    return {"audit", "Who did what: silences, acknowledgements, actions by hand and by rule",
            "Examples:\n  foreshock audit\n  foreshock audit gpt-7 --limit 20 --json", [this](ArgSink& sink) {
              sink.OptionalPositional("RUN", &run_, "only of this run");
              sink.Option("--limit", &limit_, "the newest so many (default: 100)");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    const Status range = CheckRange("limit", limit_.value_or(100), 1, 10'000);
    if (!range.ok()) return Fail(context, range);
    v1::ListAuditRequest request;
    request.set_run(run_);
    request.set_limit(static_cast<uint32_t>(limit_.value_or(100)));
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.ListAudit(request); },
        [&](const v1::ListAuditReply& reply) { context.out << RenderAudit(reply, context.style); });
  }

 private:
  std::string run_;
  std::optional<int64_t> limit_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeSilence() { return std::make_unique<SilenceCommand>(); }
std::unique_ptr<Command> MakeAcknowledge() { return std::make_unique<Acknowledge>(); }
std::unique_ptr<Command> MakeAudit() { return std::make_unique<Audit>(); }

}  // namespace foreshock::cli
