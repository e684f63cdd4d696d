// What the alert service keeps in the store's key-value space.
//
//   kind "alert", run, key alert id:        JSON of the alert and of what its record adds (archive.cc)
//   kind "alert_engine", run, key attempt:  "open\n", or "closed REASON\n"; then AlertEngine::SaveState()
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/store/store.h"

namespace foreshock::alert {

inline constexpr char kAlertKind[] = "alert";
inline constexpr char kEngineKind[] = "alert_engine";

store::MetaEntry ToEntry(const AlertRecord& record);
Result<AlertRecord> RecordFrom(const store::MetaEntry& entry);

struct EngineState {
  bool closed = false;
  std::string because;  // of closing
  std::string state;    // the engine's
};
store::MetaEntry ToEntry(const std::string& run, const std::string& attempt, const EngineState& state);
// nullopt when none was saved; kDataLoss when it is not readable.
Result<std::optional<EngineState>> ReadEngineState(const store::Store& store, const std::string& run,
                                                   const std::string& attempt);

// Newest first: by time of firing, then id.
void SortNewestFirst(std::vector<AlertRecord>* records);

}  // namespace foreshock::alert
