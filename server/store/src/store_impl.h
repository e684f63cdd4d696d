// The Store over one RocksDB. Writers are serialised by write_mutex_, which is held while the observers hear
// of what was written, so that they hear it in the order of durability. Lock order: write_mutex_,
// observers_.mutex, registry_mutex_; seal_mutex_ before all, the layouts' own lock after all.
#pragma once

#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "database.h"
#include "foreshock/server/store/store.h"
#include "frame_source.h"
#include "keys.h"
#include "layout.h"
#include "observers.h"
#include "recent_frames.h"
#include "registry.h"
#include "rollup.h"
#include "sealer.h"
#include "trouble.h"

namespace foreshock::store {

class RunImportImpl;

class StoreImpl final : public Store {
 public:
  StoreImpl(std::unique_ptr<Database> database, const StoreOptions& options)
      : options_(options), db_(std::move(database)), recent_(options.recent_bytes) {}
  ~StoreImpl() override;
  // Checks the format and reads the registry.
  Status Load();
  // Begins to seal in the background.
  void Start();

  Result<SourceInfo> OpenSource(const wire::Hello& hello, int64_t now_unix_ns) override;
  Result<std::vector<AppendOutcome>> AppendRecords(std::span<const Append> records) override;
  Status PutMergedFrames(std::span<const Merged> frames) override;
  Status PutNothingMerged(const SourceId& attempt, int64_t step, uint64_t as_of) override;
  uint64_t Stamp() const override { return stamp_; }
  Status DeleteRun(const std::string& run, const std::function<bool(const RunInfo&)>& only_if) override;

  std::vector<RunInfo> ListRuns() const override;
  size_t CountRuns() const override;
  Result<RunInfo> GetRun(const std::string& run) const override;
  Result<AttemptInfo> GetAttempt(const std::string& run, const std::string& attempt) const override;
  Result<SourceInfo> GetSource(const SourceId& id) const override;
  Result<std::vector<Unmerged>> UnmergedSteps() const override;

  Status ReadFrames(const FrameQuery& query, const std::function<bool(StoredFrame)>& each) const override;
  Status ReadSeries(const SeriesQuery& query,
                    const std::function<bool(const SeriesPoint&)>& each) const override;
  Result<Rollup> ReadRollup(const SeriesQuery& query) const override;
  Result<StoredFrame> ReadStep(const StepQuery& query) const override;
  Result<std::vector<StoredEvent>> ReadEvents(const std::string& run, const std::string& attempt,
                                              int64_t from_step, int64_t to_step) const override;
  Result<std::vector<QuarantinedRecord>> ReadQuarantine(const std::string& run, size_t limit) const override;

  Status ExportRun(const std::string& run, int64_t now_unix_ns,
                   const std::function<Status(archive::Entry entry)>& each) const override;
  Result<std::unique_ptr<RunImport>> StartImport(const archive::Begin& begin, int64_t now_unix_ns,
                                                 ImportRules rules) override;

  Status PutMeta(std::span<const MetaEntry> entries) override;
  Status DeleteMeta(std::string_view kind, std::string_view run, std::string_view key) override;
  Result<std::string> GetMeta(std::string_view kind, std::string_view run,
                              std::string_view key) const override;
  Result<std::vector<MetaEntry>> ScanMeta(std::string_view kind, std::string_view run,
                                          std::string_view key_prefix) const override;
  Result<std::vector<MetaEntry>> ScanMetaOfAllRuns(std::string_view kind) const override;

  std::unique_ptr<Subscription> Subscribe(Observer* observer) override { return observers_.Add(observer); }
  Status Beat(int64_t now_unix_ns) override;
  Listening listening() const override;
  Status health() const override { return db_->health(); }
  Stats stats() const override;
  Result<uint64_t> Backup(const std::string& folder) override { return db_->CopyInto(folder); }
  Status Settle() override;

 private:
  friend class RunImportImpl;
  // What AppendRecords is about to make true.
  struct Pending {
    Batch& batch;
    std::map<SourceId, SourceInfo> sources;  // as they will be
    std::vector<AppendOutcome> outcomes;
    std::map<std::string, uint64_t> marks;  // keys of kUnmerged
    std::vector<std::pair<FramesOf, int64_t>> frames;
    bool changes = false;  // beyond counting duplicates
    explicit Pending(Batch& b) : batch(b) {}
  };
  // Where the frames of a query are.
  struct Place {
    uint32_t run = 0, attempt = 0, rank = 0;
  };

  void WaitForSealer();
  AppendOutcome Plan(const Append& record, Pending* pending);
  void PlanGood(const Append& record, SourceInfo* source, Pending* pending);
  void Publish(std::span<const Append> records, const std::vector<AppendOutcome>& outcomes);
  uint32_t WorldOf(const SourceId& attempt) const;  // 0: not there
  Origin OriginOf(const SourceId& id) const;
  SourceInfo NewSource(const wire::Hello& hello, int64_t now_unix_ns, Registry* registry, Batch* batch);
  Result<FrameSource> See(const Place& place, bool once = false) const;
  int64_t FirstUnmerged(const FramesOf& source) const;
  bool IsNewestRecord(const FrameKeyParts& key) const;
  // Seals the oldest open frames of a source when they make a group of that many rows; false: nothing done.
  Result<bool> SealOnce(const FramesOf& source, uint32_t least_rows);
  void SealFull(const FramesOf& source);
  // A block of rollups that is being gathered.
  struct Rolling {
    int64_t to = kFirstStep;  // the last step in it, or of the last block; kFirstStep: none
    RollupBuilder block;
    bool touched = true;  // since the last tick
  };
  Result<int64_t> RolledTo(const Database::View& view, const FramesOf& source, uint32_t level) const;
  // Rollups of these steps are wrong from now on.
  Status DropRollups(const Database::View& view, const FramesOf& source, int64_t first, int64_t last,
                     Batch* batch);
  Result<bool> RollBucket(const FrameSource& frames, int64_t open_from, Rolling* rolling);
  Result<bool> RollLevel(const Database::View& view, const FramesOf& source, uint32_t level, Batch* batch);
  Result<bool> RollOnce(const FramesOf& source);
  Status WriteRollups(const FramesOf& source, Batch& batch);
  void Roll(const FramesOf& source);
  std::vector<FramesOf> AllSources() const;
  Status DropSealed();
  uint64_t LargeBytesOf(uint32_t from, uint32_t to) const;
  void FindDeleted();
  Status DropDeleted();
  void LookAtAll();
  void Tick();
  void WillAppend(const FramesOf& source, int64_t step);
  Status MarkOldSteps(const SourceId& source, Batch* batch, std::vector<std::string>* marks);
  Result<Place> Locate(const std::string& run, const std::string& attempt, uint32_t rank) const;

  const StoreOptions options_;
  const std::unique_ptr<Database> db_;
  mutable Layouts layouts_{db_.get()};
  RecentFrames recent_;
  std::mutex seal_mutex_;                  // one group at a time
  Batch seal_batch_;                       // guarded by seal_mutex_: its memory is used again
  mutable std::mutex write_mutex_;         // one writer at a time
  Batch append_batch_;                     // guarded by write_mutex_, likewise
  std::map<std::string, uint64_t> marks_;  // guarded by write_mutex_: key of kUnmerged -> stamp
  bool import_unsynced_ = false;  // guarded by write_mutex_: an import wrote without waiting for the disk
  std::vector<RunImportImpl*> imports_;  // guarded by write_mutex_: that are under way
  std::atomic<uint64_t> stamp_{1};
  std::atomic<uint64_t> most_open_{0};  // frames of a source, in the last write
  std::atomic<uint64_t> records_{0};
  std::atomic<int64_t> alive_before_ns_{0}, listening_since_ns_{0};
  mutable std::shared_mutex registry_mutex_;  // guards registry_; written only under write_mutex_ as well
  Registry registry_;
  Observers observers_;
  std::vector<uint32_t> deleted_;           // guarded by write_mutex_: runs whose space is not given back yet
  std::atomic<uint64_t> deleted_count_{0};  // its size
  std::atomic<uint64_t> sealed_frames_{0};
  std::atomic<uint64_t> sealed_bytes_{0};  // as they came, since the last DropSealed
  std::atomic<bool> unsettled_{false};     // something was sealed since the last flush
  std::atomic<bool> stopping_{false};
  Trouble trouble_;
  std::map<FramesOf, Rolling> rolling_;  // guarded by seal_mutex_, as the next
  uint64_t rolling_generation_ = 0;
  std::map<FramesOf, uint64_t> open_before_;  // of the sealer's thread alone, as the next
  uint64_t records_before_ = 0;
  std::unique_ptr<Sealer> sealer_;  // ends first
};

}  // namespace foreshock::store
