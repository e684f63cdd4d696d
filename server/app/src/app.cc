#include "foreshock/server/app/app.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "answers.h"
#include "counters.h"
#include "history.h"
#include "security.h"

namespace foreshock::app {
namespace {

constexpr int kStopGraceMs = 2000;
constexpr uint64_t kLeastKeepBytes = 1 << 30;  // logs and memory tables on their way to disk need room

Status CheckSeconds(const char* field, double value) {
  if (value >= 0 && value <= 86'400) return OkStatus();
  return Status(Code::kInvalidArgument,
                std::string(field) + ": " + std::to_string(value) + ", must be 0 to 86400 seconds");
}

bool IsWithin(const std::string& folder, const std::string& other) {
  std::error_code ignored;
  const auto inner = std::filesystem::weakly_canonical(folder, ignored);
  const auto outer = std::filesystem::weakly_canonical(other, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

class AppImpl final : public App {
 public:
  AppImpl(AppOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  ~AppImpl() override { Stop(); }

  Status Check() {
    FS_ASSIGN_OR_RETURN(grpc_, auth::ParseHostPort("grpc_address", options_.grpc_address));
    FS_ASSIGN_OR_RETURN(http_, auth::ParseHostPort("http_address", options_.http_address));
    FS_RETURN_IF_ERROR(CheckTls());
    const bool tls = !options_.tls_cert_file.empty(), tokens = !options_.tokens_file.empty();
    FS_RETURN_IF_ERROR(auth::CheckListen("grpc_address", grpc_, {.tls = tls, .tokens = tokens}));
    FS_RETURN_IF_ERROR(
        auth::CheckListen("http_address", http_, {.tls = tls && options_.http_tls, .tokens = tokens}));
    FS_RETURN_IF_ERROR(CheckLimits());
    FS_RETURN_IF_ERROR(CheckSeconds("merge_wait_seconds", options_.merge_wait_seconds));
    FS_RETURN_IF_ERROR(CheckSeconds("silent_after_seconds", options_.silent_after_seconds));
    FS_RETURN_IF_ERROR(CheckSeconds("group_interval_seconds", options_.group_interval_seconds));
    if (!(options_.acknowledge_seconds >= 1 && options_.acknowledge_seconds <= 86'400)) {
      return Status(
          Code::kInvalidArgument,
          "acknowledge_seconds: " + std::to_string(options_.acknowledge_seconds) + ", must be 1 to 86400");
    }
    if (!(options_.resend_seconds >= 1 && options_.resend_seconds <= 3600)) {
      return Status(Code::kInvalidArgument,
                    "resend_seconds: " + std::to_string(options_.resend_seconds) + ", must be 1 to 3600");
    }
    if (!(options_.keep_days >= 0 && options_.keep_days <= 36'500)) {
      return Status(Code::kInvalidArgument,
                    "keep_days: " + std::to_string(options_.keep_days) + ", must be 0 (for ever) to 36500");
    }
    if (options_.keep_bytes != 0 && options_.keep_bytes < kLeastKeepBytes) {
      return Status(Code::kInvalidArgument, "keep_bytes: " + std::to_string(options_.keep_bytes) +
                                                ", must be 0 (no limit) or at least " +
                                                std::to_string(kLeastKeepBytes));
    }
    if (!options_.backup_folder.empty() && IsWithin(options_.backup_folder, options_.data_folder)) {
      return Status(Code::kInvalidArgument, "backup_folder: " + options_.backup_folder +
                                                ", must lie outside data_folder " + options_.data_folder);
    }
    const auto mode = control::ParseRuleActionMode(options_.rule_actions);
    if (!mode.ok()) return mode.status().Annotate("rule_actions");
    for (const auto& [rule, action] : options_.on_critical) {
      const Status status = control::CheckOnCritical(rule, action);
      if (!status.ok()) return status.Annotate("on_critical");
    }
    if (options_.data_folder.empty()) return Status(Code::kInvalidArgument, "data_folder: empty");
    return OkStatus();
  }

  Status Start() override {
    if (answers_ != nullptr) return Status(Code::kFailedPrecondition, "the server is running already");
    const Status status = StartParts();
    if (!status.ok()) Stop();
    return status;
  }

  // First nobody comes in any more; the store goes last.
  void Stop() override {
    if (security_ != nullptr) security_->Stop();
    if (history_ != nullptr) {
      history_->merger->Stop();
      history_->ingest->CloseStreams();
    }
    if (answers_ != nullptr) answers_->Stop(kStopGraceMs);
    if (history_ != nullptr) history_->answers = nullptr;
    answers_.reset();
    history_.reset();
    security_.reset();
  }

  Status ReloadRules() override {
    if (history_ == nullptr) return Status(Code::kFailedPrecondition, "not running");
    return app::ReloadRules(options_.rules_file, history_.get());
  }

  Status ReloadSecurity() override {
    return security_ != nullptr ? security_->Reload() : Status(Code::kFailedPrecondition, "not running");
  }

  int grpc_port() const override { return answers_ != nullptr ? answers_->grpc->port() : 0; }
  int http_port() const override { return answers_ != nullptr ? answers_->http->port() : 0; }

  Status health() const override {
    if (answers_ == nullptr) return Status(Code::kFailedPrecondition, "not running");
    return history_->health();
  }

 private:
  Status CheckTls() const {
    const AppOptions& o = options_;
    if (o.tls_cert_file.empty() != o.tls_key_file.empty()) {
      return Status(Code::kInvalidArgument,
                    "tls_cert_file and tls_key_file: one of them is missing, TLS needs both");
    }
    const bool more = !o.tls_client_ca_file.empty() || !o.http_client_ca_file.empty();
    if (!more || !o.tls_cert_file.empty()) return OkStatus();
    return Status(Code::kInvalidArgument,
                  "tls_cert_file: missing; certificates of clients (tls_client_ca_file, http_client_ca_file) "
                  "need TLS");
  }

  Status CheckLimits() const {
    const AppOptions& o = options_;
    const struct {
      const char* field;
      uint64_t value, least, most;
    } limits[] = {{"max_message_bytes", o.max_message_bytes, 64 << 10, 256 << 20},
                  {"max_connections", o.max_connections, 16, 1'000'000},
                  {"max_streams", o.max_streams, 1, 1'000'000},
                  {"max_streams_per_identity", o.max_streams_per_identity, 1, 1'000'000},
                  {"max_connections_per_identity", o.max_connections_per_identity, 1, 1'000'000},
                  {"max_runs", o.max_runs, 1, 10'000'000},
                  {"max_new_runs_per_hour", o.max_new_runs_per_hour, 1, 10'000'000},
                  {"max_heads_per_run", o.max_heads_per_run, 1, 100'000'000},
                  {"max_reads_per_identity", o.max_reads_per_identity, 1, 10'000}};
    for (const auto& limit : limits) {
      if (limit.value >= limit.least && limit.value <= limit.most) continue;
      return Status(Code::kInvalidArgument, std::string(limit.field) + ": " + std::to_string(limit.value) +
                                                ", must be " + std::to_string(limit.least) + " to " +
                                                std::to_string(limit.most));
    }
    return OkStatus();
  }

  Status StartParts() {
    FS_ASSIGN_OR_RETURN(security_, Security::Create(options_, clock_));
    FS_ASSIGN_OR_RETURN(history_, StartHistory(options_, clock_, *security_));
    FS_ASSIGN_OR_RETURN(answers_, StartAnswers(options_, http_, clock_, *history_, *security_));
    history_->answers = answers_.get();
    security_->Start(answers_->http.get());
    LogInfo("server/app", "listening",
            {{"grpc", grpc_port()}, {"http", http_port()}, {"data", options_.data_folder}});
    return OkStatus();
  }

  const AppOptions options_;
  const Clock& clock_;
  auth::HostPort grpc_, http_;
  std::unique_ptr<Security> security_;
  std::unique_ptr<History> history_;
  std::unique_ptr<Answers> answers_;
};

}  // namespace

Result<std::unique_ptr<App>> App::New(AppOptions options, const Clock& clock) {
  auto app = std::make_unique<AppImpl>(std::move(options), clock);
  FS_RETURN_IF_ERROR(app->Check());
  return std::unique_ptr<App>(std::move(app));
}

}  // namespace foreshock::app
