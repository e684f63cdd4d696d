// Answers what people and programs ask about runs, as the messages of query.proto. gRPC (query_service.h) and
// the JSON API (server/web) both answer from here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/server/store/store.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::query {

struct QueryOptions {
  store::Store* store = nullptr;  // this and the next three: not owned, must outlive the Queries
  alert::AlertService* alerts = nullptr;
  const Clock* clock = nullptr;
  const alert::Silences* silences = nullptr;  // not owned; null: nothing is silenced
  double silent_after_seconds = 120;          // without data and Goodbye: the run is "silent"
  std::string data_folder;                    // for GetStatus
  // More counters for GetStatus, e.g. ingest's. May be empty.
  std::function<std::map<std::string, uint64_t>()> counters;
};

// Thread-safe. Errors: kInvalidArgument naming field, value and limit; kNotFound for runs, attempts and steps
// that are not there; else what the store says.
class Queries {
 public:
  explicit Queries(QueryOptions options);

  Result<v1::ListRunsReply> ListRuns(const v1::ListRunsRequest& request) const;
  Result<v1::Run> GetRun(const v1::GetRunRequest& request) const;
  // The series at a resolution of about request.max_points (at least 1) buckets; one layer, or a scalar.
  Result<store::Rollup> ReadRollup(const v1::ReadSeriesRequest& request) const;
  // Pieces of at most 256 points, by rising step, each there until the call returns. `each` returns false to
  // stop early, which is ok.
  Status ReadSeries(const v1::ReadSeriesRequest& request,
                    const std::function<bool(const v1::SeriesPoints&)>& each) const;
  Result<v1::StepReply> ReadStep(const v1::ReadStepRequest& request) const;
  Result<v1::ListAlertsReply> ListAlerts(const v1::ListAlertsRequest& request) const;
  Result<v1::ListEventsReply> ListEvents(const v1::ListEventsRequest& request) const;
  v1::ServerStatus GetStatus() const;

  // What the newest attempt of the run is doing.
  Result<v1::RunState> StateOf(const std::string& run) const;
  // The last step that any of its ranks has sent; -1 for none.
  int64_t LastStep(const std::string& run) const;
  const QueryOptions& options() const { return options_; }

 private:
  v1::Run ToRun(const store::RunInfo& info) const;

  QueryOptions options_;
  int64_t started_unix_ns_;
};

// An alert as query.proto shows it; `silences` may be null.
v1::Alert ToProto(const alert::AlertRecord& record, const alert::Silences* silences);

}  // namespace foreshock::query
