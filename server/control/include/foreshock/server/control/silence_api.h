// Silences, acknowledgements and the audit trail as the messages of control.proto. gRPC (control_service.h)
// and HTTP (server/web) both answer from here.
#pragma once

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/audit.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::control {

// Thread-safe. Errors as alert::Silences has them.
class SilenceApi {
 public:
  // None is owned; all must outlive this.
  SilenceApi(alert::Silences* silences, const alert::AuditLog* audit, const Clock* clock)
      : silences_(silences), audit_(audit), clock_(clock) {}

  Result<v1::Silence> Create(const v1::CreateSilenceRequest& request) const;
  Result<v1::ListSilencesReply> Acknowledge(const v1::AcknowledgeRequest& request) const;
  Result<v1::ListSilencesReply> List(const v1::ListSilencesRequest& request) const;
  Result<v1::Silence> Expire(const v1::ExpireSilenceRequest& request) const;
  // The pattern of the runs that a silence covers; empty (every run) also when there is no such silence.
  std::string RunsOf(const std::string& id) const;
  Result<v1::ListAuditReply> Audit(const v1::ListAuditRequest& request) const;

 private:
  alert::Silences* silences_;
  const alert::AuditLog* audit_;
  const Clock* clock_;
};

}  // namespace foreshock::control
