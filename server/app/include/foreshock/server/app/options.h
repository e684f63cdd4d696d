// What a server is told: by flags, by a file, or by a program that embeds it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "foreshock/base/logging.h"
#include "foreshock/base/result.h"
#include "foreshock/server/remote_write/remote_writer.h"

namespace foreshock::app {

struct AppOptions {
  std::string data_folder = "foreshock-data";   // created when missing
  std::string grpc_address = "127.0.0.1:7071";  // ingest, query, control; port 0: any free one
  std::string http_address = "127.0.0.1:7070";  // JSON, metrics, reports; port 0: any free one
  std::string alertmanager_url;                 // e.g. http://127.0.0.1:9093; empty: none
  std::string webhook_url;                      // gets alerts as JSON; empty: none
  std::string slack_url;                        // an incoming webhook of Slack or compatible; empty: none
  std::string webhook_template_file;            // makes the JSON (docs/notifications.md); empty: fixed fields
  std::string slack_template_file;              // makes the text; empty: a fixed one
  double group_interval_seconds = 300;  // how long webhooks wait with more news of an incident; 0 to 86400
  bool heartbeat = false;               // Alertmanager also gets an alert that always fires
  double resend_seconds = 60;           // how often Alertmanager is told again what fires; 1 to 3600
  std::string external_url;             // how people reach http_address, for links in alerts
  std::string control_token_file;       // its first line is needed to act by HTTP; empty: not needed
  // TLS on both ports when the first two are set (docs/security.md); read again when the files change.
  std::string tls_cert_file, tls_key_file;
  std::string tls_client_ca_file;          // gRPC clients need a certificate that leads to it; empty: none
  std::string http_client_ca_file;         // likewise HTTP clients, browsers included
  bool http_tls = true;                    // false: HTTP stays plain, on loopback only
  std::string tokens_file;                 // calls need one of its tokens (foreshock token); empty: none
  uint64_t max_message_bytes = 16u << 20;  // of what gRPC clients send
  uint64_t max_connections = 16'384;       // of gRPC, at a time; less where the process may open few files
  uint64_t max_streams = 16'384;           // of trainers, at a time
  uint64_t max_streams_per_identity = 16'384;    // an identity: a token, else a certificate, else an address
  uint64_t max_connections_per_identity = 8192;  // that streams come on
  uint64_t max_runs = 100'000;
  uint64_t max_new_runs_per_hour = 1000;  // of one identity
  uint64_t max_heads_per_run = 1u << 20;
  uint64_t max_reads_per_identity = 64;  // series, reports and watches being read at a time
  std::string rules_file;                // the user's rules (docs/rules/user_rules.md); empty: none
  std::string rule_actions = "dry_run";  // off, dry_run or on: what `action:` of such a rule does
  // Built-in rule -> action when it turns critical, as rule_actions allows: {"qk_runaway": "enable_qk_norm"}.
  std::map<std::string, std::string> on_critical;
  bool allow_rule_stop = false;      // with rule_actions on, rules may stop a run, too
  double acknowledge_seconds = 120;  // how long ranks may take to acknowledge a proposed switch; 1 to 86400
  LogLevel log_level = LogLevel::kInfo;
  double merge_wait_seconds = 30;          // how long a step waits for its last ranks
  double silent_after_seconds = 120;       // a run without data and Goodbye is "silent" then
  uint64_t write_buffer_bytes = 64 << 20;  // of the store; more: fewer, larger files
  double keep_days = 0;       // runs of which nothing came for so long are deleted; 0: kept for ever
  uint64_t keep_bytes = 0;    // beyond it the quietest runs are deleted; 0: no limit
  std::string backup_folder;  // where `foreshock backup` writes; empty: nowhere
  remote_write::RemoteWriteOptions remote_write;  // its url empty: nothing is sent
  bool metrics_per_head = false;                  // a series per head in /metrics: many
};

// Reads the file's entries over `options`: a YAML map with the names above. kInvalidArgument naming file,
// field and value: unknown names are errors. kNotFound when there is no such file.
Status ReadConfigFile(const std::string& path, AppOptions* options);

}  // namespace foreshock::app
