#include <cmath>

#include "foreshock/server/query/queries.h"

namespace foreshock::query {
namespace {

v1::Severity ToProto(detect::Severity severity) {
  switch (severity) {
    case detect::Severity::kInfo:
      return v1::SEVERITY_INFO;
    case detect::Severity::kWarning:
      return v1::SEVERITY_WARNING;
    case detect::Severity::kCritical:
      return v1::SEVERITY_CRITICAL;
  }
  return v1::SEVERITY_UNSPECIFIED;
}

v1::AlertState ToProto(alert::AlertState state) {
  switch (state) {
    case alert::AlertState::kPending:
      return v1::ALERT_STATE_PENDING;
    case alert::AlertState::kFiring:
      return v1::ALERT_STATE_FIRING;
    case alert::AlertState::kResolved:
      return v1::ALERT_STATE_RESOLVED;
  }
  return v1::ALERT_STATE_UNSPECIFIED;
}

void AddSilences(const alert::Alert& alert, const alert::Silences& silences, v1::Alert* out) {
  for (const alert::Silence& silence : silences.Of(alert)) {
    if (!silence.acknowledgement) {
      out->add_silences(silence.id);
      continue;
    }
    v1::Acknowledgement& by = *out->mutable_acknowledgement();
    by.set_silence(silence.id);
    by.set_author(silence.author);
    by.set_comment(silence.comment);
    by.set_created_unix_ns(static_cast<uint64_t>(silence.created_unix_ns));
    by.set_ends_unix_ns(static_cast<uint64_t>(silence.ends_unix_ns));
  }
}

}  // namespace

v1::Alert ToProto(const alert::AlertRecord& record, const alert::Silences* silences) {
  const alert::Alert& alert = record.alert;
  v1::Alert out;
  out.set_id(alert.id);
  out.set_run(alert.run);
  out.set_attempt(alert.attempt);
  out.set_rule(alert.rule);
  out.set_severity(ToProto(alert.severity));
  out.set_state(ToProto(alert.state));
  if (alert.layer >= 0) out.set_layer(static_cast<uint32_t>(alert.layer));
  if (alert.head >= 0) out.set_head(static_cast<uint32_t>(alert.head));
  out.set_first_step(alert.first_evidence_step);
  out.set_fired_step(alert.fired_step);
  if (alert.state == alert::AlertState::kResolved) out.set_resolved_step(alert.resolved_step);
  out.set_value(alert.value);
  out.set_baseline(alert.baseline);
  for (const detect::Evidence& evidence : alert.evidence) {
    v1::Evidence& e = *out.add_evidence();
    e.set_name(evidence.name);
    e.set_value(evidence.value);
    e.set_has_baseline(!std::isnan(evidence.baseline));
    if (e.has_baseline()) e.set_baseline(evidence.baseline);
  }
  out.set_last_checkpoint_step(alert.last_checkpoint_step.value_or(-1));
  out.set_last_checkpoint(record.last_checkpoint);
  out.set_summary(alert.summary);
  out.set_advice(alert.advice);
  out.set_fired_unix_ns(static_cast<uint64_t>(record.fired_unix_ns));
  out.set_resolved_unix_ns(static_cast<uint64_t>(record.resolved_unix_ns));
  out.set_incident(alert.incident);
  for (const auto& [name, value] : alert::AllLabels(record)) (*out.mutable_labels())[name] = value;
  for (const auto& [name, value] : alert.annotations) (*out.mutable_annotations())[name] = value;
  out.set_action(alert.action);
  if (silences != nullptr && alert.state == alert::AlertState::kFiring) AddSilences(alert, *silences, &out);
  return out;
}

}  // namespace foreshock::query
