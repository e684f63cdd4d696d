#include "foreshock/server/export/exporter.h"

#include <map>
#include <tuple>

#include "families.h"
#include "foreshock/server/export/head_stats.h"
#include "live_runs.h"

namespace foreshock::exporter {
namespace {

using Labels = Families::Labels;

std::string Help(const SignalInfo& info) {
  std::string help(info.meaning);
  if (info.unit != "1") help += " (" + std::string(info.unit) + ")";
  return help;
}

void AddHeads(const SignalInfo& info, const LiveRun& run, const wire::Series& series, bool per_head,
              Families* out) {
  const auto stats = StatsOf(info, series);
  if (!stats || !series.layer) return;
  const std::string name(info.name), help = Help(info), layer = std::to_string(*series.layer);
  const auto put = [&](const char* stat, double value) {
    out->Gauge(name, help + ", over the heads of a layer",
               {{"run", run.run}, {"layer", layer}, {"stat", stat}}, value);
  };
  put("max", stats->max);
  put("median", stats->median);
  put("min", stats->min);
  out->Gauge(name + "_worst_head", "head that stands out in: " + std::string(info.meaning),
             {{"run", run.run}, {"layer", layer}}, stats->worst_head);
  if (!per_head) return;
  for (const auto& [head, value] : stats->heads) {
    out->Gauge(name + "_head", help + ", of one head",
               {{"run", run.run}, {"layer", layer}, {"head", std::to_string(head)}}, value);
  }
}

void AddSignals(const LiveRun& run, bool per_head, Families* out) {
  for (const SignalInfo& info : SignalCatalogue()) {
    if (info.id >= kSignalIds || !run.last[info.id]) continue;
    for (const wire::Series& series : run.last[info.id]->series) {
      if (series.signal != info.id) continue;
      if (info.scope != SignalScope::kScalar) {
        AddHeads(info, run, series, per_head, out);
      } else if (const auto value = ScalarOf(info, series)) {
        out->Gauge(std::string(info.name), Help(info), {{"run", run.run}}, *value);
      }
    }
  }
}

class ExporterImpl final : public Exporter {
 public:
  explicit ExporterImpl(ExportOptions options)
      : options_(std::move(options)), runs_(options_), subscription_(options_.store->Subscribe(&runs_)) {}

  std::string Scrape() override {
    Families out;
    size_t left_out = 0;
    const std::vector<LiveRun> runs = runs_.Snapshot(&left_out);
    for (const LiveRun& run : runs) {
      const Labels labels = {{"run", run.run}};
      out.Gauge("step", "last optimizer step that came", labels, static_cast<double>(run.step));
      out.Gauge("run_info", "1, with the attempt that is going on",
                {{"run", run.run}, {"attempt", run.attempt}}, 1);
      AddSignals(run, options_.per_head, &out);
      AddRunCounters(run, &out);
    }
    AddAlerts(runs, &out);
    AddServer(runs.size(), left_out, &out);
    return out.Text();
  }

 private:
  // Of the attempt: a new one starts from 0, as counters may.
  void AddRunCounters(const LiveRun& run, Families* out) const {
    const auto attempt = options_.store->GetAttempt(run.run, run.attempt);
    if (!attempt.ok()) return;
    store::SourceInfo sum;
    for (const store::SourceInfo& source : attempt->sources) {
      sum.frames += source.frames;
      sum.duplicates += source.duplicates;
      sum.dropped += source.dropped;
      sum.quarantined += source.quarantined;
    }
    const Labels labels = {{"run", run.run}};
    const auto put = [&](const char* name, const char* help, uint64_t value) {
      out->Counter(name, help, labels, static_cast<double>(value));
    };
    put("run_frames", "frames of all ranks that are durable", sum.frames);
    put("run_duplicates", "records that came again and were left out", sum.duplicates);
    put("run_dropped", "records lost before they came, as the senders declared", sum.dropped);
    put("run_quarantined", "records put aside", sum.quarantined);
  }

  // Runs without alerts show 0, so that an expression over them has something to compare. By rule only what
  // fires is shown.
  void AddAlerts(const std::vector<LiveRun>& runs, Families* out) const {
    std::map<std::pair<std::string, std::string>, int> count;
    std::map<std::tuple<std::string, std::string, std::string>, int> by_rule;
    std::map<std::pair<std::string, std::string>, int> silenced, acknowledged;
    for (const LiveRun& run : runs) count[{run.run, "warning"}] = count[{run.run, "critical"}] = 0;
    for (const alert::AlertRecord& record : options_.alerts->Firing()) {
      const std::string severity(detect::SeverityName(record.alert.severity));
      const auto it = count.find({record.alert.run, severity});
      if (it == count.end()) continue;
      ++it->second;
      ++by_rule[{record.alert.run, record.alert.rule, severity}];
      if (options_.silences == nullptr) continue;
      const auto covering = options_.silences->Of(record.alert);
      if (covering.empty()) continue;
      ++(covering.front().acknowledgement ? acknowledged : silenced)[{record.alert.run, severity}];
    }
    const auto put = [&](const char* name, const char* help, const auto& counts) {
      for (const auto& [key, n] : counts)
        out->Gauge(name, help, {{"run", key.first}, {"severity", key.second}}, n);
    };
    put("alerts_silenced", "alerts of a run that fire and are silenced; absent while none is", silenced);
    put("alerts_acknowledged", "alerts of a run that fire and that somebody looks after", acknowledged);
    for (const auto& [key, n] : count) {
      out->Gauge("alerts_firing", "alerts of a run that fire", {{"run", key.first}, {"severity", key.second}},
                 n);
    }
    for (const auto& [key, n] : by_rule) {
      const auto& [run, rule, severity] = key;
      out->Gauge("rule_alerts_firing", "alerts of a run that fire, by rule; absent while none does",
                 {{"run", run}, {"rule", rule}, {"severity", severity}}, n);
    }
  }

  void AddServer(size_t shown, size_t left_out, Families* out) const {
    out->Gauge("runs_shown", "runs on this page", {}, static_cast<double>(shown));
    out->Gauge("runs_left_out", "runs that send but are not on this page, because there are too many", {},
               static_cast<double>(left_out));
    out->Gauge("store_healthy", "1, or 0 while writes to the store fail", {},
               options_.store->health().ok() ? 1 : 0);
    const store::Store::Stats stats = options_.store->stats();
    out->Gauge("store_disk_bytes", "size of the store", {}, static_cast<double>(stats.disk_bytes));
    out->Gauge("store_wal_bytes", "size of the store's write-ahead logs", {},
               static_cast<double>(stats.wal_bytes));
    out->Gauge("store_cache_bytes", "memory of the store's cache of blocks read from its files", {},
               static_cast<double>(stats.cache_bytes));
    out->Gauge("store_index_bytes", "memory of the indexes and filters of the store's files", {},
               static_cast<double>(stats.index_bytes));
    out->Gauge("store_buffer_bytes", "memory of what the store has not written into files yet", {},
               static_cast<double>(stats.buffer_bytes));
    out->Counter("store_records", "records appended since the server started", {},
                 static_cast<double>(stats.records));
    const auto alerts = options_.alerts->counters();
    out->Counter("alert_steps", "steps judged by the rules", {}, static_cast<double>(alerts.steps));
    out->Counter("alerts_fired", "alerts that fired", {}, static_cast<double>(alerts.fired));
    out->Counter("alerts_resolved", "alerts that resolved", {}, static_cast<double>(alerts.resolved));
    if (options_.silences != nullptr) {
      out->Gauge("silences", "silences and acknowledgements that hold or will", {},
                 static_cast<double>(options_.silences->List(false).size()));
    }
    out->Gauge("alert_queue_records", "records that wait to be judged", {},
               static_cast<double>(alerts.queued));
    out->Process();
    if (!options_.server) return;
    for (const ServerMetric& metric : options_.server()) {
      if (metric.counter) {
        out->Counter(metric.name, metric.help, {}, metric.value);
      } else {
        out->Gauge(metric.name, metric.help, {}, metric.value);
      }
    }
  }

  const ExportOptions options_;
  LiveRuns runs_;
  std::unique_ptr<store::Subscription> subscription_;
};

}  // namespace

std::unique_ptr<Exporter> Exporter::Create(ExportOptions options) {
  return std::make_unique<ExporterImpl>(std::move(options));
}

}  // namespace foreshock::exporter
