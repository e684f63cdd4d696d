#include "foreshock/server/control/silence_api.h"

#include <algorithm>
#include <limits>

#include "foreshock/server/detect/user_rule.h"

namespace foreshock::control {
namespace {

constexpr uint32_t kUsualAuditEntries = 1000;
constexpr uint64_t kMostNanos = std::numeric_limits<int64_t>::max();

v1::Severity SeverityToProto(const std::optional<detect::Severity>& severity) {
  if (!severity) return v1::SEVERITY_UNSPECIFIED;
  return static_cast<v1::Severity>(static_cast<int>(*severity) + v1::SEVERITY_INFO);
}

Result<std::optional<detect::Severity>> SeverityFromProto(v1::Severity severity) {
  switch (severity) {
    case v1::SEVERITY_UNSPECIFIED:
      return std::optional<detect::Severity>();
    case v1::SEVERITY_INFO:
    case v1::SEVERITY_WARNING:
    case v1::SEVERITY_CRITICAL:
      return std::optional(static_cast<detect::Severity>(severity - v1::SEVERITY_INFO));
    default:
      return Status(Code::kInvalidArgument, "severity: " + std::to_string(severity) + " is none");
  }
}

Result<std::optional<int32_t>> IndexFrom(const char* field, bool given, uint32_t value) {
  if (!given) return std::optional<int32_t>();
  if (value <= static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return std::optional(static_cast<int32_t>(value));
  }
  return Status(Code::kInvalidArgument, std::string(field) + ": " + std::to_string(value) + ", too large");
}

v1::Silence SilenceToProto(const alert::Silence& s, int64_t now) {
  v1::Silence out;
  out.set_id(s.id);
  out.set_kind(s.acknowledgement ? v1::SILENCE_KIND_ACKNOWLEDGEMENT : v1::SILENCE_KIND_SILENCE);
  out.set_run(s.run);
  out.set_rule(s.rule);
  out.set_severity(SeverityToProto(s.severity));
  if (s.layer) out.set_layer(static_cast<uint32_t>(*s.layer));
  if (s.head) out.set_head(static_cast<uint32_t>(*s.head));
  out.set_alert(s.alert);
  out.set_author(s.author);
  out.set_comment(s.comment);
  out.set_created_unix_ns(static_cast<uint64_t>(s.created_unix_ns));
  out.set_starts_unix_ns(static_cast<uint64_t>(s.starts_unix_ns));
  out.set_ends_unix_ns(static_cast<uint64_t>(s.ends_unix_ns));
  out.set_ended_by(s.ended_by);
  out.set_state(
      static_cast<v1::SilenceState>(static_cast<int>(alert::StateOf(s, now)) + v1::SILENCE_STATE_PENDING));
  for (const auto& [target, state] : s.copies) (*out.mutable_copies())[target] = state;
  return out;
}

}  // namespace

Result<v1::Silence> SilenceApi::Create(const v1::CreateSilenceRequest& request) const {
  const v1::Silence& in = request.silence();
  if (in.kind() == v1::SILENCE_KIND_ACKNOWLEDGEMENT || !in.alert().empty()) {
    return Status(Code::kInvalidArgument, "kind: alerts are acknowledged by Acknowledge");
  }
  // Half of what fits, so that a length can be added.
  if (in.starts_unix_ns() > kMostNanos / 2 || in.ends_unix_ns() > kMostNanos) {
    return Status(Code::kInvalidArgument, "starts, ends: too far away");
  }
  alert::Silence wanted;
  wanted.run = in.run();
  wanted.rule = in.rule();
  FS_ASSIGN_OR_RETURN(wanted.severity, SeverityFromProto(in.severity()));
  FS_ASSIGN_OR_RETURN(wanted.layer, IndexFrom("layer", in.has_layer(), in.layer()));
  FS_ASSIGN_OR_RETURN(wanted.head, IndexFrom("head", in.has_head(), in.head()));
  wanted.author = in.author();
  wanted.comment = in.comment();
  wanted.starts_unix_ns = static_cast<int64_t>(in.starts_unix_ns());
  wanted.ends_unix_ns = static_cast<int64_t>(in.ends_unix_ns());
  if (request.seconds() != 0) {
    FS_RETURN_IF_ERROR(alert::CheckSilenceLength(request.seconds()));
    const int64_t from = std::max(wanted.starts_unix_ns, clock_->WallNanos());
    wanted.ends_unix_ns = from + static_cast<int64_t>(request.seconds() * 1e9);
  }
  FS_ASSIGN_OR_RETURN(const alert::Silence made, silences_->Create(std::move(wanted)));
  return SilenceToProto(made, clock_->WallNanos());
}

Result<v1::ListSilencesReply> SilenceApi::Acknowledge(const v1::AcknowledgeRequest& request) const {
  alert::AcknowledgeOptions options;
  options.run = request.run();
  options.alert = request.alert();
  options.rule = request.rule();
  options.author = request.author();
  options.comment = request.comment();
  options.seconds = request.seconds();
  FS_ASSIGN_OR_RETURN(const auto made, silences_->Acknowledge(options));
  v1::ListSilencesReply reply;
  for (const alert::Silence& silence : made)
    *reply.add_silences() = SilenceToProto(silence, clock_->WallNanos());
  return reply;
}

Result<v1::ListSilencesReply> SilenceApi::List(const v1::ListSilencesRequest& request) const {
  v1::ListSilencesReply reply;
  for (const alert::Silence& silence : silences_->List(request.with_expired())) {
    const bool exact = silence.acknowledgement;
    const bool fits =
        request.run().empty() || silence.run.empty() ||
        (exact ? silence.run == request.run() : detect::MatchesPattern(silence.run, request.run()));
    if (fits) *reply.add_silences() = SilenceToProto(silence, clock_->WallNanos());
  }
  return reply;
}

Result<v1::Silence> SilenceApi::Expire(const v1::ExpireSilenceRequest& request) const {
  FS_ASSIGN_OR_RETURN(const alert::Silence ended, silences_->Expire(request.id(), request.author()));
  return SilenceToProto(ended, clock_->WallNanos());
}

std::string SilenceApi::RunsOf(const std::string& id) const {
  for (const alert::Silence& silence : silences_->List(true)) {
    if (silence.id == id) return silence.run;
  }
  return "";
}

Result<v1::ListAuditReply> SilenceApi::Audit(const v1::ListAuditRequest& request) const {
  const uint32_t limit = request.limit() == 0 ? kUsualAuditEntries : request.limit();
  FS_ASSIGN_OR_RETURN(const auto entries, audit_->Read(request.run(), limit));
  v1::ListAuditReply reply;
  for (const alert::AuditEntry& entry : entries) {
    v1::AuditEntry& out = *reply.add_entries();
    out.set_time_unix_ns(static_cast<uint64_t>(entry.time_unix_ns));
    out.set_who(entry.who);
    out.set_what(entry.what);
    out.set_run(entry.run);
    out.set_subject(entry.subject);
    out.set_detail(entry.detail);
  }
  return reply;
}

}  // namespace foreshock::control
