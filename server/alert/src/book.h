// The records of alerts: what fires now, and what could not be written to the store yet. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "archive.h"
#include "foreshock/server/alert/alert_service.h"

namespace foreshock::alert {

class Book {
 public:
  explicit Book(store::Store* store) : store_(store) {}

  // Reads what was firing when the server stopped.
  Status Load();
  // Likewise of one run, which came from an archive.
  Status LoadRun(const std::string& run);

  // One thread at a time. Adds times to the news and writes them with the engine's state; what cannot be
  // written now is kept and written by a later call. The records come back either way: to warn goes before to
  // remember.
  std::vector<AlertRecord> Apply(std::vector<AlertRecord> news, int64_t now_unix_ns,
                                 const std::string& because, store::MetaEntry engine_state);
  // A state alone, without news.
  void SaveEngine(store::MetaEntry engine_state) { Write({}, std::move(engine_state)); }
  // Newer values of alerts that fire, for those who look; not written.
  void Refresh(const std::vector<Alert>& open);
  void ForgetRun(const std::string& run);

  std::vector<AlertRecord> Firing() const;
  Result<std::vector<AlertRecord>> Read(const std::optional<std::string>& run) const;
  uint64_t write_failures() const { return write_failures_; }

 private:
  void Take(const std::vector<store::MetaEntry>& entries);
  void Complete(int64_t now_unix_ns, const std::string& because, AlertRecord* record) const;
  void Write(const std::vector<AlertRecord>& records, store::MetaEntry engine_state);

  store::Store* const store_;
  mutable std::mutex mutex_;                   // guards firing_ and unwritten_
  std::map<std::string, AlertRecord> firing_;  // by id
  std::map<std::pair<std::string, std::string>, store::MetaEntry> unwritten_;  // by kind + run, key
  std::atomic<uint64_t> write_failures_{0};
};

}  // namespace foreshock::alert
