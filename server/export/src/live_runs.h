// The last frame that carried each signal, of every run that sends. Filled by the store's writer: it only
// swaps pointers; statistics are made when somebody scrapes. Thread-safe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/server/export/exporter.h"

namespace foreshock::exporter {

inline constexpr size_t kSignalIds = 256;

struct LiveRun {
  std::string run, attempt;
  int64_t step = 0;
  int64_t last_nanos = 0;                                           // monotonic clock
  int64_t ended_nanos = 0;                                          // 0: not announced
  std::array<std::shared_ptr<const wire::Frame>, kSignalIds> last;  // by signal
};

class LiveRuns final : public store::Observer {
 public:
  explicit LiveRuns(const ExportOptions& options) : options_(options) {}

  // Forgets what has left, then gives the others, by name, at most max_runs of them.
  std::vector<LiveRun> Snapshot(size_t* left_out);

 private:
  void OnSource(const store::Origin& origin, const wire::Hello& hello) override;
  void OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                     bool amended) override;
  void OnGoodbye(const store::Origin& origin, const std::shared_ptr<const wire::Goodbye>& goodbye) override;
  void OnRunDeleted(const std::string& run) override;

  const ExportOptions options_;
  std::mutex mutex_;  // guards runs_
  std::map<std::string, LiveRun> runs_;
};

}  // namespace foreshock::exporter
