#include <unistd.h>

#include <nlohmann/json.hpp>

#include "foreshock/agent/agent.h"

namespace foreshock::agent {
namespace {

using Json = nlohmann::ordered_json;

Json SpoolJson(const SpoolStats& s) {
  return {{"bytes", s.bytes},
          {"limit_bytes", s.limit_bytes},
          {"segments", s.segments},
          {"sources", s.sources},
          {"pending", s.pending},
          {"appended", s.appended},
          {"repeated", s.repeated},
          {"refused_limit", s.refused_limit},
          {"refused_share", s.refused_share},
          {"refused_disk", s.refused_disk},
          {"syncs", s.syncs},
          {"lost", s.lost},
          {"oldest_unix_ns", s.oldest_unix_ns}};
}

Json ReceiveJson(const ReceiverStats& r) {
  return {{"connections", r.connections},
          {"accepted", r.accepted},
          {"refused", r.refused},
          {"refused_users", r.refused_users},
          {"records", r.records},
          {"bytes", r.bytes},
          {"damaged", r.damaged},
          {"rejected", r.rejected},
          {"dropped_by_trainers", r.dropped_by_trainers},
          {"stalled", r.stalled},
          {"abandoned", r.abandoned},
          {"replies", r.replies}};
}

Json RefusedJson(const std::vector<RefusedSource>& refused) {
  Json list = Json::array();
  for (const RefusedSource& source : refused) {
    list.push_back({{"run", source.key.run},
                    {"attempt", source.key.attempt},
                    {"rank", source.key.rank},
                    {"incarnation", std::to_string(source.key.incarnation)},
                    {"reason", source.reason},
                    {"final", source.final},
                    {"times", source.times},
                    {"since_unix_ns", source.since_unix_ns}});
  }
  return list;
}

Json ServersJson(const std::vector<ServerStats>& servers) {
  Json list = Json::array();
  for (const ServerStats& server : servers) {
    list.push_back({{"server", server.address},
                    {"streams", server.streams},
                    {"failures", server.failures},
                    {"away", server.away},
                    {"last_error", server.last_error}});
  }
  return list;
}

Json ForwardJson(const ForwarderStats& f, const std::string& server) {
  return {{"server", server},
          {"connected", f.connected},
          {"streams", f.streams},
          {"opened", f.opened},
          {"failures", f.failures},
          {"sent", f.sent},
          {"acknowledged", f.acknowledged},
          {"errors", f.errors},
          {"undeliverable", f.undeliverable},
          {"refusals", f.refusals},
          {"clock_skew_seconds", f.clock_skew_seconds ? Json(*f.clock_skew_seconds) : Json(nullptr)},
          {"refused", RefusedJson(f.refused)},
          {"servers", ServersJson(f.servers)},
          {"last_error", f.last_error}};
}

Json GpuJson(const Gpu& gpu) {
  return {{"index", gpu.index},     {"name", gpu.name},
          {"uuid", gpu.uuid},       {"values", gpu.values},
          {"missing", gpu.missing}, {"throttled_by", gpu.throttled_by},
          {"xids", gpu.xids},       {"last_xid", gpu.last_xid},
          {"last_xid_unix_ns", gpu.last_xid_unix_ns}};
}

Json DeviceJson(const DeviceHealth& health) {
  Json gpus = Json::array();
  for (const Gpu& gpu : health.gpus) gpus.push_back(GpuJson(gpu));
  return {{"reason", health.reason},
          {"measured_unix_ns", health.measured_unix_ns},
          {"warnings", health.Warnings()},
          {"gpus", gpus}};
}

Json RelayJson(const RelayStats& r, int port) {
  return {{"port", port},
          {"streams", r.streams},
          {"accepted", r.accepted},
          {"refused", r.refused},
          {"records", r.records},
          {"bytes", r.bytes},
          {"rejected", r.rejected},
          {"stalled", r.stalled},
          {"replies", r.replies}};
}

}  // namespace

std::string StatusJson(const AgentStats& stats, const AgentOptions& options, const std::string& state,
                       int64_t started_unix_ns) {
  const Json json = {{"state", state},
                     {"health", stats.health},
                     {"version", options.version},
                     {"pid", ::getpid()},
                     {"started_unix_ns", started_unix_ns},
                     {"written_unix_ns", options.clock->WallNanos()},
                     {"socket", options.socket_path},
                     {"spool_dir", options.spool_dir},
                     {"spool", SpoolJson(stats.spool)},
                     {"receive", ReceiveJson(stats.receiver)},
                     {"relay", stats.relay_port == 0 ? Json(nullptr) : RelayJson(stats.relay, stats.relay_port)},
                     {"device", DeviceJson(stats.device)},
                     {"forward", ForwardJson(stats.forwarder, stats.server)}};
  // Bytes that are no UTF-8 (an error text of somebody else) must not stop the status.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace foreshock::agent
