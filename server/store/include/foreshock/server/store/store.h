// Store: the history of all runs, durable in one folder. The only user of RocksDB, which stays behind this
// header. Byte format: docs/formats/store.md.
//
// Threads: every method may be called from any thread. Writers of one source must not race with each other.
// Durability: what a write method reported as ok survives a power cut. Order: the records of a source become
// durable in the order of their sequence numbers, never with a hole.
//
// Failures of writes: kResourceExhausted when the disk is full, kIo for other troubles of the disk. Nothing
// of the failed call is in the store then, and the caller may try the same call again: every write first
// tries to bring an ailing store back (frees, reopens its log), so that writing resumes by itself when the
// trouble is over. health() says meanwhile what is wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/archive/entry.h"
#include "foreshock/base/result.h"
#include "foreshock/server/store/observer.h"
#include "foreshock/server/store/types.h"

namespace rocksdb {
class Env;
}

namespace foreshock::store {

inline constexpr int64_t kFirstStep = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();

struct StoreOptions {
  std::string folder = {};                 // created when missing
  uint64_t write_buffer_bytes = 64 << 20;  // more: fewer, larger files; the log on disk stays below ~4x
  uint64_t block_cache_bytes = 64 << 20;   // more: faster repeated reads
  // Frames are open (as they came) until so many steps of a rank can be sealed into columns. More: better
  // compression, longer reading of one step. 0: nothing is sealed.
  uint32_t seal_steps = 64;
  uint32_t keep_open_steps = 16;  // the newest steps of a rank stay open: quick to read whole
  // Decoded frames are kept for the sealer up to so many bytes. More: fewer are decoded a second time.
  uint64_t recent_bytes = 48 << 20;
  std::chrono::milliseconds tick{5000};  // how often ranks are looked at that fell silent
  rocksdb::Env* env = nullptr;           // tests: another file system; not owned
};

// Frames of one attempt, by rising step. An empty attempt means the newest one.
struct FrameQuery {
  std::string run = {};
  std::string attempt = {};
  uint32_t rank = kMerged;
  int64_t from_step = kFirstStep;
  int64_t to_step = kLastStep;  // inclusive
  bool backward = false;        // newest step first
  size_t limit = std::numeric_limits<size_t>::max();
  // Where a restarted process sent a step again: false gives the newest incarnation's frame only.
  bool every_incarnation = false;
};

// One signal over steps. Steps without the signal are left out.
struct SeriesQuery {
  std::string run = {};
  std::string attempt = {};  // empty: the newest
  uint16_t signal = 0;
  std::optional<uint32_t> layer = {};  // absent: scalars, or every layer
  std::vector<uint32_t> heads = {};    // empty: all; heads that are not there are left out
  int64_t from_step = kFirstStep;
  int64_t to_step = kLastStep;  // inclusive
  uint32_t rank = kMerged;
  size_t max_points = 0;  // steps; 0: all. Else every k-th step (k the least that fits) and always the last
};

struct StepQuery {
  std::string run = {};
  std::string attempt = {};  // empty: the newest
  int64_t step = kLastStep;
  uint32_t rank = kMerged;
  std::vector<uint16_t> signals = {};  // empty: all
  bool exact = false;                  // this step, not an earlier one
};

// One entry of the key-value space.
struct MetaEntry {
  std::string kind = {};  // 1..64 characters, whose it is: "alert", "action"
  std::string run = {};   // empty: of no run; else deleted with the run
  std::string key = {};
  std::string value = {};
};

// A run on its way into a store. One thread. What was added stays where the import ends early (an error, a
// crash, its death without Finish): the same archive imported again completes it.
class RunImport {
 public:
  struct Counts {
    uint64_t frames = 0, merged_frames = 0, events = 0, quarantined = 0, notes = 0;
  };
  struct Outcome {
    Counts added, known;  // new here; here before and left alone
  };

  virtual ~RunImport() = default;
  // Entries in the order of an archive, the Begin left out; notes of the server are not the store's and are
  // refused. kInvalidArgument: something that no server can have had; kFailedPrecondition: the run has here,
  // from others, what would come to stand in a wrong order; kNotFound: the run was deleted meanwhile; else as
  // writes.
  virtual Status Add(archive::Entry entry) = 0;
  // All is durable; the observers are told.
  virtual Result<Outcome> Finish() = 0;
};

class Store {
 public:
  // kFailedPrecondition when another process has the folder, or it was written by a newer format; kIo,
  // kPermissionDenied, kResourceExhausted as the disk says; kDataLoss when files are damaged.
  static Result<std::unique_ptr<Store>> Open(const StoreOptions& options);
  virtual ~Store() = default;  // no observer is called afterwards

  // --- writing

  // Registers run, attempt and source, durably; a source that is known comes back with its durable_seq and
  // keeps the newest Hello. hello.attempt must not be empty. The Hello must have been validated.
  virtual Result<SourceInfo> OpenSource(const wire::Hello& hello, int64_t now_unix_ns) = 0;
  // Appends records in order, all or none, by one synced write. One outcome a record. Observers run before
  // this returns.
  virtual Result<std::vector<AppendOutcome>> AppendRecords(std::span<const Append> records) = 0;
  // Stores the merged frames of steps, replacing earlier ones; tells the observers, in this order. In a world
  // of one rank only tells the observers. Clears a step's mark (UnmergedSteps) unless frames of it were
  // appended after `as_of`, a Stamp() taken before the merger read them. Not synced: a power cut may take
  // them away, and their marks are back then. Frames of runs that are gone are left out.
  struct Merged {
    SourceId attempt;  // rank and incarnation are ignored
    std::shared_ptr<const wire::Frame> frame;
    bool amended = false;
    uint64_t as_of = 0;
  };
  virtual Status PutMergedFrames(std::span<const Merged> frames) = 0;
  Status PutMerged(const SourceId& attempt, std::shared_ptr<const wire::Frame> frame, bool amended,
                   uint64_t as_of) {
    const Merged one{attempt, std::move(frame), amended, as_of};
    return PutMergedFrames({&one, 1});
  }
  // Of a marked step that no frame is there of: clears its mark, under the same conditions.
  virtual Status PutNothingMerged(const SourceId& attempt, int64_t step, uint64_t as_of) = 0;
  // Counts the writes of records.
  virtual uint64_t Stamp() const = 0;
  // Everything of a run: frames, events, its key-value entries. Its space is given back soon after, in the
  // background. kNotFound when there is none, kFailedPrecondition when `only_if` is given and says no to what
  // the run is at that moment (no record of it can come in between).
  virtual Status DeleteRun(const std::string& run,
                           const std::function<bool(const RunInfo&)>& only_if = nullptr) = 0;

  // --- moving runs

  // Everything of a run but what the server's other parts keep of no run: notes, attempts and processes, then
  // frames, events, quarantined records and marks, beside readers and writers. Of each process those records
  // that were durable in one moment at the beginning, as its counters there say, and none that came later: of
  // a frame whose last parts were still to come none, unless its process has been silent for a minute. An
  // error of `each` is this call's. kNotFound without such a run, and when it was deleted meanwhile;
  // kUnavailable when a process that was silent has finished such a frame meanwhile: try again.
  virtual Status ExportRun(const std::string& run, int64_t now_unix_ns,
                           const std::function<Status(archive::Entry entry)>& each) const = 0;
  // Takes a run in: frames bit for bit and with their numbers, so that a sender who goes on here is told what
  // is there, and what came before is left out when it comes again, by an import or by its sender. What is
  // added is not told record by record: observers hear OnRunImported at the end. kInvalidArgument for a name
  // that no run can have.
  struct ImportRules {
    // A frame of a rank that this refuses is kept as a quarantined record; a merged one is left out, and its
    // step merged anew. Of merged ones the Hello has the layers of all ranks. Null: all are taken.
    std::function<Status(const wire::Hello& hello, const wire::Frame& frame)> check_frame;
    // Whether of two values of one note the second takes the first's place at all events. Null: never.
    std::function<bool(std::string_view kind, const std::string& one, const std::string& other)> supersedes;
    // Counters that name other steps are not believed.
    int64_t first_step = kFirstStep, last_step = kLastStep;
  };
  virtual Result<std::unique_ptr<RunImport>> StartImport(const archive::Begin& begin, int64_t now_unix_ns,
                                                         ImportRules rules) = 0;
  Result<std::unique_ptr<RunImport>> StartImport(const archive::Begin& begin, int64_t now_unix_ns) {
    return StartImport(begin, now_unix_ns, ImportRules{});
  }

  // --- the registry (from memory)

  virtual std::vector<RunInfo> ListRuns() const = 0;  // newest first
  virtual size_t CountRuns() const = 0;
  virtual Result<RunInfo> GetRun(const std::string& run) const = 0;  // kNotFound
  virtual Result<AttemptInfo> GetAttempt(const std::string& run, const std::string& attempt) const = 0;
  virtual Result<SourceInfo> GetSource(const SourceId& id) const = 0;
  // Steps of an attempt whose frames changed since PutMerged: what a merger has to do after a restart. `id`'s
  // rank and incarnation are 0.
  struct Unmerged {
    SourceId attempt;
    int64_t step = 0;
  };
  virtual Result<std::vector<Unmerged>> UnmergedSteps() const = 0;

  // --- reading. kNotFound: no such run or attempt. `each` returns false to stop early, which is ok.

  virtual Status ReadFrames(const FrameQuery& query, const std::function<bool(StoredFrame)>& each) const = 0;
  // The point lives for the call: its memory is used for the next one.
  virtual Status ReadSeries(const SeriesQuery& query,
                            const std::function<bool(const SeriesPoint&)>& each) const = 0;
  // One series of `layer` (absent: a scalar) at a resolution: about max_points buckets (at least 1), never
  // more than one beyond, each of some frames that follow each other, without holes between them. What is
  // shown is what users see of a value (DisplayValue); NaN and missing heads count as nothing. Reads rollups
  // where they fit, so that millions of steps cost as much as thousands. Frames that came late for steps that
  // were rolled up may lack until they are sealed, seconds later.
  virtual Result<Rollup> ReadRollup(const SeriesQuery& query) const = 0;
  // The frame at a step or the last one before it that has one of the signals; only these series are in it.
  // kNotFound when there is none.
  virtual Result<StoredFrame> ReadStep(const StepQuery& query) const = 0;
  // Events of all ranks by rising step; empty attempt: the newest.
  virtual Result<std::vector<StoredEvent>> ReadEvents(const std::string& run, const std::string& attempt,
                                                      int64_t from_step = kFirstStep,
                                                      int64_t to_step = kLastStep) const = 0;
  virtual Result<std::vector<QuarantinedRecord>> ReadQuarantine(const std::string& run,
                                                                size_t limit) const = 0;

  // --- the key-value space, for parts that keep small things of their own

  // Writes all or none, durably.
  virtual Status PutMeta(std::span<const MetaEntry> entries) = 0;
  virtual Status DeleteMeta(std::string_view kind, std::string_view run, std::string_view key) = 0;
  virtual Result<std::string> GetMeta(std::string_view kind, std::string_view run,
                                      std::string_view key) const = 0;
  // Entries of a kind and run, by key, that begin with key_prefix.
  virtual Result<std::vector<MetaEntry>> ScanMeta(std::string_view kind, std::string_view run,
                                                  std::string_view key_prefix = {}) const = 0;
  // Entries of a kind over all runs, by run and key.
  virtual Result<std::vector<MetaEntry>> ScanMetaOfAllRuns(std::string_view kind) const = 0;

  // --- watching

  // The observer (not owned) is called until the Subscription dies; its death waits for a running call.
  virtual std::unique_ptr<Subscription> Subscribe(Observer* observer) = 0;

  // A sign of life, for listening(): call it when serving begins and every few seconds. Not synced.
  virtual Status Beat(int64_t now_unix_ns) = 0;
  // Zeros before the first Beat.
  virtual Listening listening() const = 0;

  // Ok, or why writes fail at present.
  virtual Status health() const = 0;

  struct Stats {
    uint64_t wal_bytes = 0;      // of the write-ahead logs on disk
    uint64_t disk_bytes = 0;     // of all files
    uint64_t history_bytes = 0;  // the same without files that only wait for a reader to end
    uint64_t cache_bytes = 0;    // of memory: blocks of files that were read and may be again
    uint64_t index_bytes = 0;    // of memory: indexes and filters of files
    uint64_t buffer_bytes = 0;   // of memory: what is in the log and not in files yet
    uint64_t synced_writes = 0;
    uint64_t records = 0;           // appended since Open
    uint64_t sealed_frames = 0;     // since Open
    uint64_t runs_being_freed = 0;  // deleted runs whose space is not back yet
    // Work in the background that failed since Open and is tried again; nothing is lost by it.
    uint64_t seal_failures = 0, rollup_failures = 0, compaction_failures = 0;
  };
  virtual Stats stats() const = 0;

  // Copies all that was written before the call into a new folder, one that a store can open, and says how
  // large it is. Readers and writers go on. What is on the same file system is linked, not copied.
  // kAlreadyExists when the folder is there; kIo and the like as the disk says, and the folder is not there
  // then.
  virtual Result<uint64_t> Backup(const std::string& folder) = 0;

  // Seals all that can be sealed and gives back the space, which happens by itself when it is quiet. For
  // tests, measurements and tools. The first error, if any; what was done stays done.
  virtual Status Settle() = 0;
};

}  // namespace foreshock::store
