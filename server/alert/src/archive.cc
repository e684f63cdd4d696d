#include "archive.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace foreshock::alert {
namespace {

constexpr std::string_view kOpen = "open\n";
constexpr std::string_view kClosed = "closed ";

}  // namespace

store::MetaEntry ToEntry(const AlertRecord& record) {
  // Nanoseconds as text: readers that turn numbers into doubles would round them.
  nlohmann::json rest = {{"fired_unix_ns", std::to_string(record.fired_unix_ns)},
                         {"resolved_unix_ns", std::to_string(record.resolved_unix_ns)},
                         {"because", record.resolved_because},
                         {"last_checkpoint", record.last_checkpoint}};
  if (!record.run_labels.empty()) rest["run_labels"] = record.run_labels;
  std::string text = "{\"alert\":" + AlertToJson(record.alert) + ",";
  text += rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(1);
  return {kAlertKind, record.alert.run, record.alert.id, std::move(text)};
}

Result<AlertRecord> RecordFrom(const store::MetaEntry& entry) {
  try {
    const nlohmann::json in = nlohmann::json::parse(entry.value);
    FS_ASSIGN_OR_RETURN(Alert alert, AlertFromJson(in.at("alert").dump()));
    // An archive's author writes what he likes; an id of another run would stand for that run's alert.
    if (alert.run != entry.run || alert.id != entry.key || !alert.id.starts_with(entry.run + "/"))
      return Status(Code::kDataLoss, "alert " + entry.key + ": says that it is of another run or alert");
    AlertRecord record;
    record.alert = std::move(alert);
    record.fired_unix_ns = std::stoll(in.at("fired_unix_ns").get<std::string>());
    record.resolved_unix_ns = std::stoll(in.at("resolved_unix_ns").get<std::string>());
    record.resolved_because = in.at("because");
    record.last_checkpoint = in.at("last_checkpoint");
    record.run_labels = in.value("run_labels", record.run_labels);
    return record;
  } catch (const std::exception& error) {
    return Status(Code::kDataLoss, "alert " + entry.key + ": " + error.what());
  }
}

store::MetaEntry ToEntry(const std::string& run, const std::string& attempt, const EngineState& state) {
  std::string head(state.closed ? std::string(kClosed) + state.because + "\n" : std::string(kOpen));
  return {kEngineKind, run, attempt, head + state.state};
}

Result<std::optional<EngineState>> ReadEngineState(const store::Store& store, const std::string& run,
                                                   const std::string& attempt) {
  Result<std::string> value = store.GetMeta(kEngineKind, run, attempt);
  if (!value.ok()) {
    if (value.status().code() == Code::kNotFound) return std::optional<EngineState>();
    return value.status();
  }
  const std::string_view text = *value;
  const size_t line = text.find('\n');
  EngineState state;
  state.closed = text.starts_with(kClosed);
  if (line == std::string_view::npos || (!state.closed && !text.starts_with(kOpen))) {
    return Status(Code::kDataLoss, "alert state of " + run + "/" + attempt + ": not one that was saved");
  }
  if (state.closed) state.because = text.substr(kClosed.size(), line - kClosed.size());
  state.state = text.substr(line + 1);
  return std::optional<EngineState>(std::move(state));
}

std::map<std::string, std::string> AllLabels(const AlertRecord& record) {
  std::map<std::string, std::string> labels = record.alert.labels;
  labels.insert(record.run_labels.begin(), record.run_labels.end());
  return labels;
}

void SortNewestFirst(std::vector<AlertRecord>* records) {
  std::sort(records->begin(), records->end(), [](const AlertRecord& a, const AlertRecord& b) {
    if (a.fired_unix_ns != b.fired_unix_ns) return a.fired_unix_ns > b.fired_unix_ns;
    if (a.alert.fired_step != b.alert.fired_step) return a.alert.fired_step > b.alert.fired_step;
    return a.alert.id < b.alert.id;
  });
}

}  // namespace foreshock::alert
