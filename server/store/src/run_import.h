// A run on its way into the store, see RunImport in store.h.
//
// What is here already is known by numbers: for each rank that the store knows, the numbers of all its
// records are gathered once (a range each where none lacks). A process that is new keeps the counters of the
// archive from the first write on, so that its sender, should it go on here meanwhile, repeats nothing; they
// are settled at the end.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "number_set.h"
#include "store_impl.h"

namespace foreshock::store {

class RunImportImpl final : public RunImport {
 public:
  RunImportImpl(StoreImpl* store, archive::Begin begin, int64_t now_unix_ns, Store::ImportRules rules)
      : store_(*store), begin_(std::move(begin)), now_unix_ns_(now_unix_ns), rules_(std::move(rules)) {}

  Status Start();
  Status Add(archive::Entry entry) override;
  Result<Outcome> Finish() override;

 private:
  // A process of the archive.
  struct Process {
    SourceId id;         // here
    SourceInfo before;   // as it was here when it was declared; a new one: as the archive counts it
    bool fresh = false;  // was not here
    NumberSet<uint64_t> sealed, raw;  // numbers of its frames that are here; raw: a part of a frame each
    NumberSet<int64_t> steps;         // of these frames
    NumberSet<uint64_t> others;       // events and quarantined
    uint64_t frames = 0, events = 0, quarantined = 0;  // here, and added
    SourceInfo seen;     // its counters in the moment of the look at what is here
    uint64_t added = 0;  // records
  };
  struct Attempt {
    archive::Attempt told;
    uint32_t number = 0;                       // here
    bool fresh = true;                         // was not here
    std::optional<NumberSet<int64_t>> merged;  // steps that are merged here; of a fresh one: not looked at
  };
  // What goes with the next write.
  struct Pending {
    Batch batch;
    size_t bytes = 0;
    std::vector<std::pair<FramesOf, int64_t>> frames;
    std::set<FramesOf> kept;
    std::vector<std::string> marks;
    std::vector<std::tuple<SourceId, int64_t, uint64_t, std::shared_ptr<const wire::Frame>>> decoded;
  };

  Status AddAttempt(const archive::Attempt& attempt);
  Status AddProcess(const archive::Process& process);
  Status Check(const archive::Process& told, const Attempt& attempt, SourceInfo* info) const;
  Result<const SourceInfo*> FindHere(const archive::Place& place, const Attempt& attempt,
                                     uint64_t incarnation) const;
  Status Enter(Attempt* attempt, Process* process);
  Status AddFrame(const archive::Record& record);
  Status AddMerged(const archive::Record& record, const std::shared_ptr<const wire::Frame>& frame);
  Status AddEvent(const archive::Record& record);
  Status AddQuarantined(const archive::Record& record);
  Status AddMark(const archive::Unmerged& mark);
  Status AddNote(archive::Note note);
  Status AddCounters(const archive::Counters& counters);
  Result<Process*> Of(const archive::Place& place);
  Result<Attempt*> AttemptOf(uint32_t number);
  // The numbers of what is here of a rank, for all processes of it that the archive names.
  Status Gather(const Layouts::Look& look, const FramesOf& rank,
                const std::function<Process*(uint32_t incarnation)>& of);
  Status GatherOthers(const Database::View& view, const FramesOf& rank,
                      const std::function<Process*(uint32_t incarnation)>& of);
  Status GatherMerged(Attempt* attempt);
  Status GatherRank(const archive::Place& place);
  bool HasFrame(const Process& process, const wire::Frame& frame) const;
  SourceInfo Settled(const Process& process, const SourceInfo& here, const SourceInfo& told) const;
  void PutFrame(const std::string& key, std::string_view value, const SourceId& id,
                std::shared_ptr<const wire::Frame> frame);
  void MarkBegun(Batch* batch);
  Status WriteWhenFull(size_t bytes);
  Status Write();
  Status Gone() const;
  Status CameMeanwhile() const;
  Status StillThere() const;  // with the store's write mutex

  StoreImpl& store_;
  const archive::Begin begin_;
  const int64_t now_unix_ns_;
  const Store::ImportRules rules_;
  uint32_t run_ = 0;                      // here; 0: not yet
  bool begun_ = false;                    // is marked
  bool again_ = false;                    // an import of this run was finished here before
  std::map<uint32_t, Attempt> attempts_;  // by the archive's number, as the next
  std::map<archive::Place, Process> processes_;
  std::set<uint32_t> mapped_attempts_;  // numbers here of what the archive has
  std::set<SourceId> mapped_processes_;
  std::set<FramesOf> gathered_;  // ranks whose numbers are known
  std::vector<MetaEntry> last_;  // written at the end
  size_t bytes_of_notes_ = 0;    // in last_
  std::unique_ptr<Pending> pending_ = std::make_unique<Pending>();
  Outcome outcome_;
};

}  // namespace foreshock::store
