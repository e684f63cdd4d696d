#include <cstdio>

#include "foreshock/agent/agent.h"

namespace foreshock::agent {
namespace {

struct Metric {
  const char* name;
  const char* help;
  double value;
  bool counter = true;
};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

void Append(const char* prefix, const Metric& metric, std::string* out) {
  const std::string name = std::string(prefix) + metric.name + (metric.counter ? "_total" : "");
  *out += "# HELP " + name + " " + metric.help + "\n# TYPE " + name + (metric.counter ? " counter\n" : " gauge\n") + name +
          " " + Number(metric.value) + "\n";
}

double Of(uint64_t value) { return static_cast<double>(value); }

std::vector<Metric> SpoolMetrics(const SpoolStats& s) {
  return {{"spool_bytes", "bytes of the spool on disk", Of(s.bytes), false},
          {"spool_limit_bytes", "most bytes of the spool", Of(s.limit_bytes), false},
          {"spool_pending", "sequence numbers that the server has not acknowledged", Of(s.pending), false},
          {"spool_appended", "records taken into the spool", Of(s.appended)},
          {"spool_repeated", "records ignored because they were there", Of(s.repeated)},
          {"spool_refused_limit", "batches refused at the limit, tried again", Of(s.refused_limit)},
          {"spool_refused_share", "batches refused because their run has its share, tried again", Of(s.refused_share)},
          {"spool_refused_disk", "batches refused by a full or failing disk, tried again", Of(s.refused_disk)},
          {"spool_syncs", "group commits", Of(s.syncs)},
          {"spool_lost", "sequence numbers lost to corruption on disk", Of(s.lost)}};
}

std::vector<Metric> ReceiveMetrics(const ReceiverStats& r) {
  return {{"receive_connections", "trainers that are connected", Of(r.connections), false},
          {"receive_stalled", "trainers that wait for the spool", Of(r.stalled), false},
          {"receive_accepted", "trainers taken", Of(r.accepted)},
          {"receive_refused", "connections turned away", Of(r.refused)},
          {"receive_refused_users", "of them because of their user", Of(r.refused_users)},
          {"receive_records", "records acknowledged to trainers", Of(r.records)},
          {"receive_bytes", "bytes of these records", Of(r.bytes)},
          {"receive_damaged", "links closed on damage", Of(r.damaged)},
          {"receive_rejected", "records that can never be taken", Of(r.rejected)},
          {"receive_dropped_by_trainers", "records that trainers declared dropped", Of(r.dropped_by_trainers)},
          {"receive_abandoned", "last records of gone trainers given up without space", Of(r.abandoned)},
          {"receive_replies", "replies of the server handed down", Of(r.replies)}};
}

std::vector<Metric> ForwardMetrics(const ForwarderStats& f) {
  std::vector<Metric> metrics = {
      {"forward_streams", "streams to servers that are open", Of(f.streams), false},
      {"forward_refused_sources", "sources that a server refuses now", Of(f.refused.size()), false},
      {"forward_opened", "streams opened", Of(f.opened)},
      {"forward_failures", "streams that broke or did not come about, tried again", Of(f.failures)},
      {"forward_sent", "records written to streams, repetitions included", Of(f.sent)},
      {"forward_acknowledged", "sequence numbers acknowledged by servers", Of(f.acknowledged)},
      {"forward_errors", "errors in servers' replies", Of(f.errors)},
      {"forward_undeliverable", "records longer than the server takes, given up", Of(f.undeliverable)},
      {"forward_refusals", "Hellos refused", Of(f.refusals)}};
  if (f.clock_skew_seconds) {
    metrics.push_back({"clock_skew_seconds", "this node's clock minus the server's", *f.clock_skew_seconds, false});
  }
  return metrics;
}

std::vector<Metric> RelayMetrics(const RelayStats& r) {
  return {{"relay_streams", "streams of other agents that are open", Of(r.streams), false},
          {"relay_accepted", "streams taken", Of(r.accepted)},
          {"relay_refused", "streams refused", Of(r.refused)},
          {"relay_records", "records acknowledged to agents", Of(r.records)},
          {"relay_rejected", "records that can never be taken", Of(r.rejected)},
          {"relay_stalled", "streams closed because the spool took nothing", Of(r.stalled)},
          {"relay_replies", "replies of the server handed down", Of(r.replies)}};
}

// UUIDs and indices need no escapes; names may be anything.
std::string Label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void AppendGpus(const DeviceHealth& health, std::string* out) {
  Append("foreshock_", {"gpus", "GPUs whose health is known", Of(health.gpus.size()), false}, out);
  std::map<std::string, std::string> families;  // by name: their lines
  for (const Gpu& gpu : health.gpus) {
    const std::string labels = "{gpu=\"" + std::to_string(gpu.index) + "\",uuid=\"" + Label(gpu.uuid) + "\"} ";
    for (const auto& [name, value] : gpu.values) {
      families["foreshock_" + name] += "foreshock_" + name + labels + Number(value) + "\n";
    }
    families["foreshock_gpu_xid_errors"] += "foreshock_gpu_xid_errors" + labels + Number(Of(gpu.xids)) + "\n";
    families["foreshock_gpu_throttled"] +=
        "foreshock_gpu_throttled" + labels + (gpu.throttled_by.empty() ? "0" : "1") + "\n";
  }
  for (const auto& [name, lines] : families) *out += "# TYPE " + name + " gauge\n" + lines;
}

}  // namespace

std::string MetricsText(const AgentStats& stats) {
  std::string out;
  const auto all = [&](const std::vector<Metric>& metrics) {
    for (const Metric& metric : metrics) Append("foreshock_agent_", metric, &out);
  };
  all({{"healthy", "1: all is well", stats.health == "ok" ? 1.0 : 0.0, false}});
  all(SpoolMetrics(stats.spool));
  all(ReceiveMetrics(stats.receiver));
  all(ForwardMetrics(stats.forwarder));
  if (stats.relay_port != 0) all(RelayMetrics(stats.relay));
  AppendGpus(stats.device, &out);
  return out;
}

}  // namespace foreshock::agent
