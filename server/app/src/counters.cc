#include "counters.h"

#include "answers.h"
#include "security.h"

namespace foreshock::app {
namespace {

struct Counter {
  const char* name;
  const char* help;
  uint64_t value;
  bool goes_down = false;
};

void AddSecurity(const Security& security, std::vector<Counter>* counters) {
  const auth::Gate::Stats gate = security.gate().stats();
  counters->push_back({"auth_no_token", "calls refused because they brought no token", gate.no_token});
  counters->push_back(
      {"auth_unknown_token", "calls refused because nobody knows their token", gate.unknown_token});
  counters->push_back(
      {"auth_expired_token", "calls refused because their token has expired", gate.expired_token});
  counters->push_back({"auth_not_allowed", "calls refused by scope or by run", gate.not_allowed});
  counters->push_back({"auth_tokens", "tokens that are known", gate.tokens, true});
  counters->push_back({"auth_reload_failures", "times the tokens file had errors and the old tokens stayed",
                       gate.reload_failures});
  counters->push_back({"tls_reloads", "times the certificate was read again", security.reloads()});
  counters->push_back(
      {"tls_reload_failures", "times it had errors and the old one stayed", security.reload_failures()});
  if (security.certificate_expires_unix_s() > 0) {
    counters->push_back({"tls_certificate_expires_unix_seconds", "when the server's certificate expires",
                         static_cast<uint64_t>(security.certificate_expires_unix_s()), true});
  }
}

void AddAnswers(const Answers& answers, std::vector<Counter>* counters) {
  counters->push_back({"grpc_refused_connections",
                       "connections reset because their host had its share of max_connections",
                       answers.grpc->refused_connections()});
  const http::Server::Stats http = answers.http->stats();
  counters->push_back({"http_connections", "connections taken by HTTP", http.connections});
  counters->push_back({"http_refused_connections", "of them closed: too many of one address", http.refused});
  counters->push_back(
      {"http_failed_handshakes", "of them closed: no TLS came about", http.failed_handshakes});
  counters->push_back({"query_refused_reads", "reads refused above max_reads_per_identity or in all",
                       answers.query_service->refused_reads()});
}

std::vector<Counter> All(const History& history) {
  const ingest::Ingest::Stats in = history.ingest->stats();
  const merge::Merger::Stats merged = history.merger->stats();
  std::vector<Counter> counters = {
      {"ingest_streams", "streams that are open", in.streams, true},
      {"ingest_records", "records made durable", in.records},
      {"ingest_bytes", "bytes of these records", in.bytes},
      {"ingest_values", "measurements in these records", in.values},
      {"ingest_duplicates", "records that came again and were left out", in.duplicates},
      {"ingest_quarantined", "records kept apart because something is wrong with them", in.quarantined},
      {"ingest_unreadable", "records that could not be decoded", in.unreadable},
      {"ingest_refused_hellos", "streams refused at their Hello", in.refused_hellos},
      {"ingest_refused_streams", "streams refused above max_streams or max_streams_per_identity",
       in.refused_streams},
      {"ingest_connections", "connections that streams are open on", in.connections, true},
      {"ingest_refused_connections", "streams refused above max_connections_per_identity",
       in.refused_connections},
      {"ingest_refused_runs", "new runs refused above max_runs or max_new_runs_per_hour", in.refused_runs},
      {"ingest_late_hellos", "streams closed because no Hello came in time", in.late_hellos},
      {"ingest_revoked_streams", "streams closed because their token is no longer good", in.revoked_streams},
      {"ingest_commits", "synced writes of records", in.commits},
      {"ingest_failed_commits", "synced writes that failed and were tried again", in.failed_commits},
      {"ingest_overloads", "streams closed because the disk was full or too slow", in.overloads},
      {"ingest_share_waits", "records that waited because their run had its share of the queue",
       in.share_waits},
      {"ingest_queued_bytes", "bytes that wait for the disk", in.queued_bytes, true},
      {"merge_steps", "steps merged over their ranks", merged.merged},
      {"merge_amended", "steps merged again for a late rank", merged.amended},
      {"merge_incomplete", "steps merged without all ranks", merged.incomplete},
      {"merge_pending", "steps that wait for their ranks", merged.pending, true},
  };
  AddSecurity(*history.security, &counters);
  if (const Answers* answers = history.answers) AddAnswers(*answers, &counters);
  counters.push_back({"user_rules", "rules of the user's that run", history.user_rules, true});
  counters.push_back({"rule_reloads", "times the rules file was read again", history.rule_reloads});
  counters.push_back(
      {"rule_reload_failures", "times it had errors and the old rules stayed", history.rule_reload_failures});
  const control::RuleActions::Counters acted = history.rule_actions->counters();
  counters.push_back({"rule_actions_proposed", "actions that rules asked trainers for", acted.proposed});
  counters.push_back(
      {"rule_actions_dry", "actions that rules would have asked for, in a dry run", acted.dry});
  counters.push_back(
      {"rule_actions_limited", "actions by rules left out: too many within an hour", acted.limited});
  counters.push_back(
      {"rule_actions_refused", "actions by rules that were not allowed or came too late", acted.refused});
  if (history.remote_writer != nullptr) {
    const remote_write::RemoteWriteStats sent = history.remote_writer->stats();
    counters.push_back({"remote_write_samples", "samples that the remote_write receiver took", sent.samples});
    counters.push_back({"remote_write_retries", "requests to it that had to be repeated", sent.retries});
    counters.push_back({"remote_write_refused", "samples that it will never take", sent.refused});
    counters.push_back({"remote_write_dropped_frames", "frames not sent to it because too many waited",
                        sent.dropped_frames});
    counters.push_back(
        {"remote_write_late_frames", "frames not sent to it: not later than one that was", sent.late_frames});
    counters.push_back(
        {"remote_write_queued_frames", "frames that wait to be sent to it", sent.queued_frames, true});
  }
  const store::Store::Stats stored = history.store->stats();
  counters.push_back(
      {"store_seal_failures", "times frames could not be sealed; they stay open", stored.seal_failures});
  counters.push_back({"store_rollup_failures", "times steps could not be rolled up", stored.rollup_failures});
  counters.push_back({"store_compaction_failures", "times files could not be flushed or compacted",
                      stored.compaction_failures});
  const upkeep::Upkeep::Counters kept = history.upkeep->counters();
  counters.push_back({"runs_deleted_by_hand", "runs that somebody deleted", kept.deleted_by_hand});
  counters.push_back({"runs_deleted_by_age", "runs deleted because of keep_days", kept.deleted_by_age});
  counters.push_back({"runs_deleted_by_size", "runs deleted because of keep_bytes", kept.deleted_by_size});
  counters.push_back(
      {"history_over_size", "1: larger than keep_bytes, and no run may be deleted", kept.over_size, true});
  counters.push_back({"clock_jumps", "jumps of the wall clock by more than a minute", kept.clock_jumps});
  counters.push_back({"backups", "backups written", kept.backups});
  const move::RunMover::Counters moved = history.mover->counters();
  counters.push_back({"run_exports", "runs written out as archives", moved.exports});
  counters.push_back({"run_imports", "runs taken in from archives", moved.imports});
  counters.push_back({"run_move_failures", "exports and imports that failed", moved.failures});
  counters.push_back({"upkeep_failures", "deletions and backups that failed", kept.failures});
  if (history.notifier != nullptr) {
    const notify::Notifier::Counters notified = history.notifier->counters();
    counters.push_back({"notify_sent", "messages about alerts that were delivered", notified.sent});
    counters.push_back({"notify_failed", "attempts to deliver that failed", notified.failed});
    counters.push_back({"notify_given_up", "alerts that a target was not told of", notified.given_up});
    counters.push_back({"notify_silenced", "alerts that a target is not told of because they are silenced",
                        notified.silenced, true});
    counters.push_back({"notify_pending", "alerts that wait to be delivered", notified.pending, true});
  }
  return counters;
}

}  // namespace

std::map<std::string, uint64_t> CountersOf(const History& history) {
  std::map<std::string, uint64_t> counters;
  for (const Counter& counter : All(history)) counters[counter.name] = counter.value;
  return counters;
}

std::vector<exporter::ServerMetric> MetricsOf(const History& history) {
  std::vector<exporter::ServerMetric> metrics;
  for (const Counter& counter : All(history)) {
    metrics.push_back({counter.name, counter.help, static_cast<double>(counter.value), !counter.goes_down});
  }
  return metrics;
}

}  // namespace foreshock::app
