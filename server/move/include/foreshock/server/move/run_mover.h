// Moves runs between servers: a whole run out as the bytes of an archive (docs/formats/archive.md), and in
// again.
//
// What the store has of the run, and of what the server keeps of no run: silences of this run,
// acknowledgements of its alerts, and its lines of the audit trail. Nothing pauses meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/audit.h"
#include "foreshock/server/alert/silences.h"
#include "foreshock/server/store/store.h"

namespace foreshock::move {

struct MoveOptions {
  store::Store* store = nullptr;  // none of these is owned; all must outlive the mover
  alert::Silences* silences = nullptr;
  alert::AuditLog* audit = nullptr;
  const Clock* clock = nullptr;
  std::string made_by;  // name and version of the program, for the archive's head
  // See store::Store::ImportRules; of actions control::Supersedes.
  std::function<bool(std::string_view kind, const std::string& one, const std::string& other)> supersedes =
      {};
  uint64_t max_runs = 100'000;
  uint64_t max_heads_per_run = 1u << 20;  // of a process that is imported, as at the door
  int64_t max_step = 999'999'999;         // frames of other steps are quarantined
  size_t most_at_once = 4;                // exports and imports together; more are kResourceExhausted
};

struct ImportOutcome {
  std::string run;
  uint64_t attempts = 0, processes = 0;  // in the archive
  store::RunImport::Counts added, known;
};

// An archive on its way in. One thread. See store::RunImport for what stays when it ends early.
class Import {
 public:
  virtual ~Import() = default;
  // The next bytes. Errors are final: those of archive::Reader (damage), of store::RunImport, and of the
  // caller's permission.
  virtual Status Feed(std::string_view bytes) = 0;
  // kDataLoss when the archive did not end well: the run may be here in part then.
  virtual Result<ImportOutcome> Finish() = 0;
};

// Thread-safe. `issuer` is who asks, for the log and the audit trail; empty: "operator".
class RunMover {
 public:
  static std::unique_ptr<RunMover> Create(const MoveOptions& options);
  virtual ~RunMover() = default;

  // Gives the archive to `sink` in pieces of at most 1 MiB; its error is this call's. kNotFound without such
  // a run.
  using Sink = std::function<Status(std::string_view bytes)>;
  virtual Status Export(const std::string& run, const std::string& issuer, const Sink& sink) = 0;

  // `may` is asked once, as soon as the archive has said whose it is. One import of a run at a time
  // (kFailedPrecondition), `most_at_once` of all, which counts from then on. Must not outlive the mover.
  using May = std::function<Status(const std::string& run)>;
  virtual Result<std::unique_ptr<Import>> StartImport(const std::string& issuer, May may) = 0;

  struct Counters {
    uint64_t exports = 0, imports = 0;  // that ended well
    uint64_t failures = 0;
  };
  virtual Counters counters() const = 0;
};

}  // namespace foreshock::move
