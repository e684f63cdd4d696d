#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <stdexcept>

#include "foreshock/base/file.h"
#include "foreshock/server/app/options.h"

namespace foreshock::app {
namespace {

template <typename T>
std::function<void(const YAML::Node&)> Into(T* field) {
  return [field](const YAML::Node& node) { *field = node.as<T>(); };
}

std::string Shown(const YAML::Node& node) {
  return node.IsScalar() ? "'" + node.Scalar() + "'" : "not a single value";
}

// What is wrong with one of a map's entries.
class BadEntry : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Readers = std::map<std::string, std::function<void(const YAML::Node&)>>;

// BadEntry: with the entry's name before what is wrong, also of maps within it.
void ReadMap(const YAML::Node& node, const Readers& readers) {
  if (!node.IsMap()) throw BadEntry("not a map of options");
  for (const auto& entry : node) {
    const std::string name = entry.first.as<std::string>();
    const auto reader = readers.find(name);
    if (reader == readers.end()) throw BadEntry(name + ": unknown option");
    try {
      reader->second(entry.second);
    } catch (const BadEntry& e) {
      throw BadEntry(name + ": " + e.what());
    } catch (const YAML::Exception&) {
      throw BadEntry(name + ": " + Shown(entry.second) + ", not of the right kind");
    }
  }
}

void ReadRelabelRule(const YAML::Node& node, remote_write::RelabelRule* rule) {
  ReadMap(node, {{"action",
                  [rule](const YAML::Node& value) {
                    const auto name = value.as<std::string>();
                    const auto action = remote_write::ParseRelabelAction(name);
                    if (!action) {
                      throw BadEntry("'" + name +
                                     "', must be replace, keep, drop, labeldrop, labelkeep or labelmap");
                    }
                    rule->action = *action;
                  }},
                 {"source_labels", Into(&rule->source_labels)},
                 {"separator", Into(&rule->separator)},
                 {"regex", Into(&rule->regex)},
                 {"target_label", Into(&rule->target_label)},
                 {"replacement", Into(&rule->replacement)}});
}

void ReadRemoteWrite(const YAML::Node& node, remote_write::RemoteWriteOptions* o) {
  ReadMap(node, {{"url", Into(&o->url)},
                 {"per_head", Into(&o->per_head)},
                 {"labels", Into(&o->labels)},
                 {"headers", Into(&o->headers)},
                 {"max_queued_bytes", Into(&o->max_queued_bytes)},
                 {"samples_per_request", Into(&o->samples_per_request)},
                 {"relabel", [o](const YAML::Node& rules) {
                    if (!rules.IsSequence()) throw BadEntry("must be a list of rules");
                    for (const auto& rule : rules) ReadRelabelRule(rule, &o->relabel.emplace_back());
                  }}});
}

Readers Fields(AppOptions* o) {
  return {
      {"data_folder", Into(&o->data_folder)},
      {"grpc_address", Into(&o->grpc_address)},
      {"http_address", Into(&o->http_address)},
      {"alertmanager_url", Into(&o->alertmanager_url)},
      {"webhook_url", Into(&o->webhook_url)},
      {"slack_url", Into(&o->slack_url)},
      {"webhook_template_file", Into(&o->webhook_template_file)},
      {"slack_template_file", Into(&o->slack_template_file)},
      {"group_interval_seconds", Into(&o->group_interval_seconds)},
      {"heartbeat", Into(&o->heartbeat)},
      {"resend_seconds", Into(&o->resend_seconds)},
      {"external_url", Into(&o->external_url)},
      {"control_token_file", Into(&o->control_token_file)},
      {"tls_cert_file", Into(&o->tls_cert_file)},
      {"tls_key_file", Into(&o->tls_key_file)},
      {"tls_client_ca_file", Into(&o->tls_client_ca_file)},
      {"http_client_ca_file", Into(&o->http_client_ca_file)},
      {"http_tls", Into(&o->http_tls)},
      {"tokens_file", Into(&o->tokens_file)},
      {"max_message_bytes", Into(&o->max_message_bytes)},
      {"max_connections", Into(&o->max_connections)},
      {"max_streams", Into(&o->max_streams)},
      {"max_streams_per_identity", Into(&o->max_streams_per_identity)},
      {"max_connections_per_identity", Into(&o->max_connections_per_identity)},
      {"max_runs", Into(&o->max_runs)},
      {"max_new_runs_per_hour", Into(&o->max_new_runs_per_hour)},
      {"max_heads_per_run", Into(&o->max_heads_per_run)},
      {"max_reads_per_identity", Into(&o->max_reads_per_identity)},
      {"rules_file", Into(&o->rules_file)},
      {"rule_actions", Into(&o->rule_actions)},
      {"on_critical", Into(&o->on_critical)},
      {"allow_rule_stop", Into(&o->allow_rule_stop)},
      {"acknowledge_seconds", Into(&o->acknowledge_seconds)},
      {"merge_wait_seconds", Into(&o->merge_wait_seconds)},
      {"silent_after_seconds", Into(&o->silent_after_seconds)},
      {"keep_days", Into(&o->keep_days)},
      {"keep_bytes", Into(&o->keep_bytes)},
      {"backup_folder", Into(&o->backup_folder)},
      {"write_buffer_bytes", Into(&o->write_buffer_bytes)},
      {"metrics_per_head", Into(&o->metrics_per_head)},
      {"remote_write", [o](const YAML::Node& node) { ReadRemoteWrite(node, &o->remote_write); }},
      {"log_level",
       [o](const YAML::Node& node) {
         const Result<LogLevel> level = ParseLogLevel(node.as<std::string>());
         if (!level.ok()) throw BadEntry(level.status().message());
         o->log_level = *level;
       }},
  };
}

}  // namespace

Status ReadConfigFile(const std::string& path, AppOptions* options) {
  FS_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(PosixFileSystem(), path, 1 << 20));
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return OkStatus();
    ReadMap(root, Fields(options));
    return OkStatus();
  } catch (const std::runtime_error& e) {  // BadEntry, or YAML's
    return Status(Code::kInvalidArgument, path + ": " + e.what());
  }
}

}  // namespace foreshock::app
