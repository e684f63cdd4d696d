#include <algorithm>
#include <limits>

#include "bind.h"
#include "foreshock/base/catalogue.h"
#include "foreshock/json/json.h"
#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/web/routes.h"
#include "params.h"

namespace foreshock::web {
namespace {

using http::ErrorResponse;
using http::Request;
using http::Response;
using query::Queries;

constexpr int64_t kMaxStep = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxUint = std::numeric_limits<uint32_t>::max();

Response Json(std::string body) { return {200, "application/json", std::move(body) + "\n"}; }

// Leaves out what is of runs that the caller may not see.
template <typename List>
void KeepSeen(const Request& request, List* list) {
  if (!request.sees) return;
  const auto foreign = [&](const auto& item) { return !request.sees(item.run()); };
  list->erase(std::remove_if(list->begin(), list->end(), foreign), list->end());
}

template <typename Message>
Response Give(const Result<Message>& result) {
  if (!result.ok()) return ErrorResponse(result.status());
  return Json(json::ToJson(*result));
}

// label=NAME=VALUE, repeated or with commas: all of them.
Status ReadLabels(Params* params, google::protobuf::Map<std::string, std::string>* labels) {
  for (const std::string& text : params->List("label")) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Status(Code::kInvalidArgument, "label: \"" + text + "\", expected NAME=VALUE");
    }
    (*labels)[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return OkStatus();
}

Response ListRuns(const Queries& queries, const Request& request) {
  Params params(request);
  v1::ListRunsRequest ask;
  ask.set_name_prefix(params.Text("prefix"));
  if (const Status status = ReadLabels(&params, ask.mutable_labels()); !status.ok())
    return ErrorResponse(status);
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  auto reply = queries.ListRuns(ask);
  if (reply.ok()) KeepSeen(request, reply->mutable_runs());
  return Give(reply);
}

Response GetRun(const Queries& queries, const Request& request) {
  Params params(request);
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  v1::GetRunRequest ask;
  ask.set_run(request.Path("run"));
  return Give(queries.GetRun(ask));
}

// `points` is what the parameter is called that bounds their number; without it `all` holds.
Result<v1::ReadSeriesRequest> SeriesRequest(const Request& request, const char* points, int64_t all) {
  Params params(request);
  v1::ReadSeriesRequest ask;
  ask.set_run(request.Path("run"));
  ask.set_attempt(params.Text("attempt"));
  ask.set_signal(params.Text("signal"));
  if (const auto layer = params.Int("layer", 0, kMaxUint)) ask.set_layer(static_cast<uint32_t>(*layer));
  for (const uint32_t head : params.Uints("head")) ask.add_heads(head);
  ask.set_from_step(params.Int("from", 0, kMaxStep).value_or(0));
  ask.set_to_step(params.Int("to", 0, kMaxStep).value_or(0));
  if (const auto rank = params.Int("rank", 0, kMaxUint - 1)) ask.set_rank(static_cast<uint32_t>(*rank));
  ask.set_max_points(static_cast<uint32_t>(params.Int(points, all == 0 ? 0 : 1, kMaxUint).value_or(all)));
  FS_RETURN_IF_ERROR(params.status());
  if (ask.signal().empty()) {
    return Status(Code::kInvalidArgument, "signal: missing, name one (/api/v1/catalogue lists them)");
  }
  return ask;
}

Response ReadSeries(const Queries& queries, const Request& request) {
  const auto ask = SeriesRequest(request, "max_points", 0);
  if (!ask.ok()) return ErrorResponse(ask.status());
  json::Writer out;
  out.BeginObject().Key("run").String(ask->run()).Key("signal").String(ask->signal());
  out.Key("attempt").String(ask->attempt()).Key("rank");
  if (ask->has_rank()) {
    out.Uint(ask->rank());
  } else {
    out.Null();
  }
  out.Key("points").BeginArray();
  const Status status = queries.ReadSeries(*ask, [&](const v1::SeriesPoints& piece) {
    for (const v1::SeriesPoint& point : piece.points()) json::Write(point, &out);
    return true;
  });
  if (!status.ok()) return ErrorResponse(status);
  out.EndArray().EndObject();
  return Json(out.Take());
}

constexpr int64_t kPointsOfRollup = 1'000;  // where nobody says

template <typename Numbers>
void WriteList(const char* name, const Numbers& numbers, json::Writer* out) {
  out->Key(name).BeginArray();
  for (const auto number : numbers) {
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(number)>>) {
      out->Float(number);
    } else {
      out->Uint(number);
    }
  }
  out->EndArray();
}

// Min, mean and max of buckets of steps: `points` of them, about.
Response ReadRollup(const Queries& queries, const Request& request) {
  const auto ask = SeriesRequest(request, "points", kPointsOfRollup);
  if (!ask.ok()) return ErrorResponse(ask.status());
  const auto rollup = queries.ReadRollup(*ask);
  if (!rollup.ok()) return ErrorResponse(rollup.status());
  json::Writer out;
  out.BeginObject().Key("run").String(ask->run()).Key("signal").String(ask->signal());
  WriteList("heads", rollup->heads, &out);
  out.Key("buckets").BeginArray();
  for (const store::RollupBucket& bucket : rollup->buckets) {
    out.BeginObject().Key("first_step").Int(bucket.first_step).Key("last_step").Int(bucket.last_step);
    out.Key("steps").Uint(bucket.steps);
    WriteList("counts", bucket.counts, &out);
    WriteList("min", bucket.min, &out);
    WriteList("mean", bucket.mean, &out);
    WriteList("max", bucket.max, &out);
    out.EndObject();
  }
  out.EndArray().EndObject();
  return Json(out.Take());
}

Result<v1::ReadStepRequest> StepRequest(const Request& request) {
  Params params(request);
  v1::ReadStepRequest ask;
  ask.set_run(request.Path("run"));
  ask.set_attempt(params.Text("attempt"));
  for (std::string& name : params.List("signal")) ask.add_signals(std::move(name));
  if (const auto rank = params.Int("rank", 0, kMaxUint - 1)) ask.set_rank(static_cast<uint32_t>(*rank));
  ask.set_exact(params.Flag("exact"));
  FS_RETURN_IF_ERROR(params.status());
  // The path's part goes through the same check as a parameter.
  Request step;
  step.query.emplace("step", request.Path("step") == "last" ? "-1" : request.Path("step"));
  Params path(step);
  ask.set_step(path.Int("step", -1, kMaxStep).value_or(-1));
  FS_RETURN_IF_ERROR(path.status());
  return ask;
}

Response ReadStep(const Queries& queries, const Request& request) {
  const auto ask = StepRequest(request);
  if (!ask.ok()) return ErrorResponse(ask.status());
  return Give(queries.ReadStep(*ask));
}

Response ListAlerts(const Queries& queries, const Request& request) {
  Params params(request);
  v1::ListAlertsRequest ask;
  ask.set_run(request.Path("run"));
  ask.set_firing_only(params.Flag("firing"));
  if (const Status status = ReadLabels(&params, ask.mutable_labels()); !status.ok())
    return ErrorResponse(status);
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  auto reply = queries.ListAlerts(ask);
  if (reply.ok()) KeepSeen(request, reply->mutable_alerts());
  return Give(reply);
}

Response ListEvents(const Queries& queries, const Request& request) {
  Params params(request);
  v1::ListEventsRequest ask;
  ask.set_run(request.Path("run"));
  ask.set_attempt(params.Text("attempt"));
  if (const Status status = params.status(); !status.ok()) return ErrorResponse(status);
  return Give(queries.ListEvents(ask));
}

std::string_view Name(SignalScope scope) {
  switch (scope) {
    case SignalScope::kScalar:
      return "scalar";
    case SignalScope::kQueryHead:
      return "query_head";
    case SignalScope::kKvHead:
      return "kv_head";
  }
  return "unknown";
}

std::string_view Name(SignalMerge merge) {
  switch (merge) {
    case SignalMerge::kMax:
      return "max";
    case SignalMerge::kMin:
      return "min";
    case SignalMerge::kRatio:
      return "ratio";
    case SignalMerge::kSum:
      return "sum";
    case SignalMerge::kWeightedMean:
      return "weighted_mean";
    case SignalMerge::kReplicated:
      return "replicated";
  }
  return "unknown";
}

Response Catalogue(const Request&) {
  json::Writer out;
  out.BeginObject().Key("signals").BeginArray();
  for (const SignalInfo& info : SignalCatalogue()) {
    out.BeginObject().Key("id").Uint(info.id).Key("name").String(info.name).Key("unit").String(info.unit);
    out.Key("scope").String(Name(info.scope)).Key("merge").String(Name(info.merge));
    out.Key("meaning").String(info.meaning).Key("source").String(info.source).EndObject();
  }
  out.EndArray().Key("rules").BeginArray();
  for (const detect::RuleInfo& rule : detect::BuiltInRules()) {
    out.BeginObject().Key("name").String(rule.name).Key("meaning").String(rule.meaning);
    out.Key("advice").String(rule.advice).Key("fire_after").Int(rule.fire_after);
    out.Key("resolve_after").Int(rule.resolve_after).EndObject();
  }
  out.EndArray().EndObject();
  return Json(out.Take());
}

Response Healthz(const Queries& queries) {
  const std::string health = queries.GetStatus().health();
  return {health == "ok" ? 200 : 503, "text/plain; charset=utf-8", health + "\n"};
}

}  // namespace

void AddQueryRoutes(const Queries* queries, http::Routes* routes) {
  routes->Get("/api/v1/runs", Bind(queries, ListRuns));
  routes->Get("/api/v1/runs/{run}", Bind(queries, GetRun));
  routes->Get("/api/v1/runs/{run}/series", Bind(queries, ReadSeries));
  routes->Get("/api/v1/runs/{run}/rollup", Bind(queries, ReadRollup));
  routes->Get("/api/v1/runs/{run}/step/{step}", Bind(queries, ReadStep));
  routes->Get("/api/v1/runs/{run}/alerts", Bind(queries, ListAlerts));
  routes->Get("/api/v1/runs/{run}/events", Bind(queries, ListEvents));
  routes->Get("/api/v1/alerts", Bind(queries, ListAlerts));
  routes->Get("/api/v1/status",
              [queries](const Request&) { return Json(json::ToJson(queries->GetStatus())); });
  routes->Get("/api/v1/catalogue", Catalogue);
  routes->Get("/healthz", [queries](const Request&) { return Healthz(*queries); });
}

void AddMetricsRoute(std::function<std::string()> scrape, http::Routes* routes) {
  routes->Get("/metrics", [scrape = std::move(scrape)](const Request&) {
    return Response{200, "text/plain; version=0.0.4; charset=utf-8", scrape()};
  });
}

void AddReportRoute(std::function<Result<std::string>(const std::vector<std::string>& runs)> render,
                    http::Routes* routes) {
  routes->Get("/report", [render = std::move(render)](const Request& request) {
    std::vector<std::string> runs;
    const auto [begin, end] = request.query.equal_range("run");
    for (auto it = begin; it != end; ++it) runs.push_back(it->second);
    const Result<std::string> page = render(runs);
    if (!page.ok()) return ErrorResponse(page.status());
    return Response{200, "text/html; charset=utf-8", *page};
  });
}

}  // namespace foreshock::web
