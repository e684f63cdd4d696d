#include "foreshock/server/query/queries.h"

#include <algorithm>
#include <cstdlib>

#include "convert.h"
#include "foreshock/base/catalogue.h"

namespace foreshock::query {
namespace {

constexpr int kPointsOfPiece = 256;

Status Invalid(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

Status CheckRun(const std::string& run) {
  return run.empty() ? Invalid("run: empty, name a run") : OkStatus();
}

Result<const SignalInfo*> CheckSignal(const std::string& name) {
  const SignalInfo* info = FindSignal(name);
  if (info == nullptr) return Invalid("signal: \"" + name + "\" is not in the catalogue");
  return info;
}

using ProtoLabels = google::protobuf::Map<std::string, std::string>;

// All that are wanted are there, with their values.
bool HasLabels(const ProtoLabels& labels, const ProtoLabels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto it = labels.find(label.first);
    return it != labels.end() && it->second == label.second;
  });
}

void CountFiring(const std::vector<alert::AlertRecord>& firing, v1::Run* run) {
  for (const alert::AlertRecord& record : firing) {
    if (record.alert.run != run->run()) continue;
    if (record.alert.severity == detect::Severity::kWarning)
      run->set_firing_warnings(run->firing_warnings() + 1);
    if (record.alert.severity == detect::Severity::kCritical)
      run->set_firing_criticals(run->firing_criticals() + 1);
  }
}

Result<store::SeriesQuery> ToQuery(const v1::ReadSeriesRequest& request) {
  FS_RETURN_IF_ERROR(CheckRun(request.run()));
  FS_ASSIGN_OR_RETURN(const SignalInfo* info, CheckSignal(request.signal()));
  if (info->scope == SignalScope::kScalar && (request.has_layer() || request.heads_size() > 0)) {
    return Invalid("layer: " + request.signal() + " is a scalar, it has no layers and heads");
  }
  store::SeriesQuery query;
  query.run = request.run();
  query.attempt = request.attempt();
  query.signal = info->id;
  if (request.has_layer()) query.layer = request.layer();
  query.heads.assign(request.heads().begin(), request.heads().end());
  query.from_step = request.from_step();
  if (request.to_step() != 0) query.to_step = request.to_step();
  if (query.to_step < query.from_step) {
    return Invalid("to_step: " + std::to_string(query.to_step) + ", at least from_step " +
                   std::to_string(query.from_step));
  }
  if (request.has_rank()) query.rank = request.rank();
  query.max_points = request.max_points();
  return query;
}

}  // namespace

Queries::Queries(QueryOptions options)
    : options_(std::move(options)), started_unix_ns_(options_.clock->WallNanos()) {}

v1::Run Queries::ToRun(const store::RunInfo& info) const {
  const int64_t now = options_.clock->WallNanos();
  const auto silent_ns = static_cast<int64_t>(options_.silent_after_seconds * 1e9);
  v1::Run run;
  run.set_run(info.run);
  for (const store::AttemptInfo& attempt : info.attempts) {
    v1::Attempt& a = *run.add_attempts();
    ToProto(attempt, &a);
    a.set_state(ToProto(store::StateOf(attempt, now, silent_ns, options_.store->listening())));
  }
  run.set_state(run.attempts(run.attempts_size() - 1).state());
  if (const store::SourceInfo* lead = info.newest().lead()) AddHello(*lead->hello, &run);
  run.set_last_step(info.newest().last_step.value_or(0));
  run.set_first_unix_ns(static_cast<uint64_t>(info.first_unix_ns));
  run.set_last_unix_ns(static_cast<uint64_t>(info.last_unix_ns));
  const auto begun = options_.store->GetMeta(store::kImportKind, info.run, store::kImportBegun);
  if (begun.ok()) run.set_import_begun_unix_ns(std::strtoull(begun->c_str(), nullptr, 10));
  store::StepQuery last;
  last.run = info.run;
  last.signals = {kLoss};
  if (const auto step = options_.store->ReadStep(last); step.ok()) {
    const wire::Series* loss = step->frame.Find(kLoss);
    if (loss != nullptr && loss->has(0)) run.set_last_loss(loss->values[0]);
  }
  return run;
}

Result<v1::ListRunsReply> Queries::ListRuns(const v1::ListRunsRequest& request) const {
  v1::ListRunsReply reply;
  const auto firing = options_.alerts->Firing();
  for (const store::RunInfo& info : options_.store->ListRuns()) {
    if (!info.run.starts_with(request.name_prefix())) continue;
    v1::Run run = ToRun(info);
    if (!HasLabels(run.labels(), request.labels())) continue;
    CountFiring(firing, &run);
    reply.add_runs()->Swap(&run);
  }
  return reply;
}

Result<v1::Run> Queries::GetRun(const v1::GetRunRequest& request) const {
  FS_RETURN_IF_ERROR(CheckRun(request.run()));
  FS_ASSIGN_OR_RETURN(const store::RunInfo info, options_.store->GetRun(request.run()));
  v1::Run run = ToRun(info);
  CountFiring(options_.alerts->Firing(), &run);
  return run;
}

Result<store::Rollup> Queries::ReadRollup(const v1::ReadSeriesRequest& request) const {
  FS_ASSIGN_OR_RETURN(const store::SeriesQuery query, ToQuery(request));
  const SignalInfo* info = FindSignal(query.signal);
  if (info != nullptr && info->scope != SignalScope::kScalar && !query.layer)
    return Invalid("layer: missing, a rollup is of one layer");
  return options_.store->ReadRollup(query);
}

Status Queries::ReadSeries(const v1::ReadSeriesRequest& request,
                           const std::function<bool(const v1::SeriesPoints&)>& each) const {
  FS_ASSIGN_OR_RETURN(const store::SeriesQuery query, ToQuery(request));
  v1::SeriesPoints piece;  // cleared it keeps its points' memory
  bool wanted = true;
  FS_RETURN_IF_ERROR(options_.store->ReadSeries(query, [&](const store::SeriesPoint& point) {
    v1::SeriesPoint& p = *piece.add_points();
    p.set_step(point.step);
    ToProto(point.series, p.mutable_series());
    if (piece.points_size() < kPointsOfPiece) return true;
    wanted = each(piece);
    piece.clear_points();
    return wanted;
  }));
  if (wanted && piece.points_size() > 0) each(piece);
  return OkStatus();
}

Result<v1::StepReply> Queries::ReadStep(const v1::ReadStepRequest& request) const {
  FS_RETURN_IF_ERROR(CheckRun(request.run()));
  if (request.step() < -1) {
    return Invalid("step: " + std::to_string(request.step()) + ", at least 0, or -1 for the last one");
  }
  store::StepQuery query;
  query.run = request.run();
  query.attempt = request.attempt();
  if (request.step() >= 0) query.step = request.step();
  if (request.has_rank()) query.rank = request.rank();
  query.exact = request.exact();
  for (const std::string& name : request.signals()) {
    FS_ASSIGN_OR_RETURN(const SignalInfo* info, CheckSignal(name));
    query.signals.push_back(info->id);
  }
  FS_ASSIGN_OR_RETURN(const store::StoredFrame stored, options_.store->ReadStep(query));
  v1::StepReply reply;
  reply.set_attempt(request.attempt());
  if (request.attempt().empty()) {
    FS_ASSIGN_OR_RETURN(const store::RunInfo run, options_.store->GetRun(request.run()));
    reply.set_attempt(run.newest().attempt);
  }
  reply.set_step(stored.frame.step);
  ToProto(stored.frame, reply.mutable_frame());
  return reply;
}

Result<v1::ListAlertsReply> Queries::ListAlerts(const v1::ListAlertsRequest& request) const {
  v1::ListAlertsReply reply;
  std::vector<alert::AlertRecord> records;
  if (!request.run().empty()) {
    FS_ASSIGN_OR_RETURN(records, options_.alerts->OfRun(request.run()));
  } else if (request.firing_only()) {
    records = options_.alerts->Firing();
  } else {
    FS_ASSIGN_OR_RETURN(records, options_.alerts->All());
  }
  for (const alert::AlertRecord& record : records) {
    if (request.firing_only() && record.alert.state != alert::AlertState::kFiring) continue;
    v1::Alert alert = query::ToProto(record, options_.silences);
    if (HasLabels(alert.labels(), request.labels())) reply.add_alerts()->Swap(&alert);
  }
  return reply;
}

Result<v1::ListEventsReply> Queries::ListEvents(const v1::ListEventsRequest& request) const {
  FS_RETURN_IF_ERROR(CheckRun(request.run()));
  FS_ASSIGN_OR_RETURN(const auto events, options_.store->ReadEvents(request.run(), request.attempt()));
  v1::ListEventsReply reply;
  for (const store::StoredEvent& stored : events) ToProto(stored.event, reply.add_events());
  return reply;
}

Result<v1::RunState> Queries::StateOf(const std::string& run) const {
  FS_ASSIGN_OR_RETURN(const store::RunInfo info, options_.store->GetRun(run));
  const auto silent_ns = static_cast<int64_t>(options_.silent_after_seconds * 1e9);
  return ToProto(
      store::StateOf(info.newest(), options_.clock->WallNanos(), silent_ns, options_.store->listening()));
}

int64_t Queries::LastStep(const std::string& run) const {
  const auto info = options_.store->GetRun(run);
  return info.ok() ? info->newest().last_step.value_or(-1) : -1;
}

v1::ServerStatus Queries::GetStatus() const {
  v1::ServerStatus status;
  status.set_version(FORESHOCK_VERSION);
  const Status health = options_.store->health();
  status.set_health(health.ok() ? "ok" : health.ToString());
  status.set_started_unix_ns(static_cast<uint64_t>(started_unix_ns_));
  status.set_data_folder(options_.data_folder);
  auto& counters = *status.mutable_counters();
  if (options_.counters) {
    for (const auto& [name, value] : options_.counters()) counters[name] = value;
  }
  const store::Store::Stats stats = options_.store->stats();
  counters["store_disk_bytes"] = stats.disk_bytes;
  counters["store_wal_bytes"] = stats.wal_bytes;
  counters["store_records"] = stats.records;
  const alert::AlertService::Counters alerts = options_.alerts->counters();
  counters["alert_steps_judged"] = alerts.steps;
  counters["alerts_fired"] = alerts.fired;
  counters["alerts_resolved"] = alerts.resolved;
  counters["alert_queue"] = alerts.queued;
  counters["alert_save_failures"] = alerts.save_failures;
  return status;
}

}  // namespace foreshock::query
