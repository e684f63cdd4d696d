// A run on its way into the store, see RunImport in store.h.
//
// What is here already is known by numbers: for each rank that the store knows, the numbers of all its
// records are gathered once (a range each where none lacks). A process has the durable number of the archive
// from the moment on in which it is declared, whether it was here or not, so that its sender, should it go on
// here meanwhile, repeats nothing. So what the archive brings has numbers up to there and what a sender
// brings from then on has higher ones: no record comes from both. Its counters are settled at the end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "frames_here.h"
#include "number_set.h"
#include "store_impl.h"

namespace foreshock::store {

class RunImportImpl final : public RunImport {
 public:
  RunImportImpl(StoreImpl* store, archive::Begin begin, int64_t now_unix_ns, Store::ImportRules rules)
      : store_(*store), begin_(std::move(begin)), now_unix_ns_(now_unix_ns), rules_(std::move(rules)) {}
  ~RunImportImpl() override;

  Status Start();
  Status Add(archive::Entry entry) override;
  Result<Outcome> Finish() override;

  // A merged frame came from elsewhere. With the store's write mutex.
  void SawMerged(const FramesOf& source, int64_t step);

 private:
  // A process of the archive.
  struct Process {
    SourceId id;                               // here
    std::shared_ptr<const wire::Hello> hello;  // of the archive
    SourceInfo before;     // as it was here when it was declared; a new one: as the archive counts it
    bool fresh = false;    // was not here
    uint64_t durable = 0;  // as the archive declares it: it has no record with a higher number
    NumberSet<uint64_t> sealed, raw;  // numbers of its frames that are here; raw: a part of a frame each
    NumberSet<int64_t> steps;         // of these frames; of a new process: of those in parts alone
    // A frame of which parts, not all, were here when it was last looked for: its step and first number.
    std::optional<std::pair<int64_t, uint64_t>> torn;
    NumberSet<uint64_t> others;                        // events and quarantined
    uint64_t frames = 0, events = 0, quarantined = 0;  // here, and added
    std::optional<int64_t> first_step, last_step;  // of its frames in the archive that are in good standing
    struct {
      uint64_t frames = 0, events = 0, quarantined = 0;
    } seen;  // its counters in the moment of the look at what is here
  };
  struct Attempt {
    archive::Attempt told;
    uint32_t number = 0;                       // here
    bool fresh = true;                         // was not here
    bool several = false;                      // its world is known to have several ranks
    std::shared_ptr<const wire::Hello> whole;  // the layers of all its processes; null: not gathered yet
    std::optional<NumberSet<int64_t>> merged;  // steps that are merged here; of a fresh one: not looked at
  };
  struct Merged {
    SourceId id;
    std::string payload;
    std::shared_ptr<const wire::Frame> frame;
  };
  struct Settling {
    const Process* process = nullptr;
    SourceInfo told;
  };
  // A part, or the whole, of a frame of which parts are here.
  struct Joining {
    SourceId id;
    std::string payload;
    std::shared_ptr<const wire::Frame> frame;
  };
  // What goes with the next write.
  struct Pending {
    Batch batch;
    size_t bytes = 0;
    std::vector<std::pair<FramesOf, int64_t>> frames;
    std::vector<Merged> merged;
    std::vector<Joining> joining;
    std::set<std::pair<SourceId, uint64_t>> behind;  // first numbers of frames that are kept with it
    std::vector<Settling> settling;
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
  Status BringUp(const SourceInfo& here, Process* process);
  Status WriteDeclaration(Batch* batch);
  Status ReadCounters(std::string_view bytes, SourceInfo* told) const;
  int64_t Time(int64_t unix_ns) const;
  Status AddFrame(const archive::Record& record);
  Status AddMerged(const archive::Record& record, const std::shared_ptr<const wire::Frame>& frame);
  Status AddEvent(const archive::Record& record);
  Status AddQuarantined(const archive::Record& record);
  Status AddMark(const archive::Unmerged& mark);
  Status AddNote(archive::Note note);
  Status AddCounters(const archive::Counters& counters);
  Result<Attempt*> AttemptOf(uint32_t number);
  Result<Process*> Of(const archive::Place& place);
  Result<Process*> Of(const archive::Place& place, uint64_t seq);  // of a record of this number
  // The numbers of what is here of a rank, for all processes of it that the archive names.
  using ProcessOf = std::function<Process*(uint32_t incarnation)>;
  Status GatherRank(const archive::Place& place);
  Status GatherFrames(const Layouts::Look& look, const FramesOf& rank, const ProcessOf& of);
  Status GatherOthers(const Database::View& view, const FramesOf& rank, const ProcessOf& of);
  Status GatherMerged(Attempt* attempt);
  const wire::Hello& WholeOf(uint32_t number, Attempt* attempt) const;
  bool HasSeveralRanks(Attempt* attempt) const;
  static void NoteStep(const wire::Frame& frame, Process* process);
  // How much of the frame is here that this one is, or is a part of.
  enum class Part { kNone, kSome, kAll };
  Result<Part> HasFrame(const wire::Frame& frame, Process* process) const;
  Status PutBesideParts();
  Result<uint64_t> NewestHere(const SourceId& process, int64_t step) const;
  // Enters the number of an event or a quarantined record; false: it is here.
  bool IsNew(Process* process, uint64_t seq, uint64_t Process::*here, uint64_t Counts::*counter);
  Result<std::vector<SourceInfo>> Settle(Batch* batch) const;
  SourceInfo Settled(const Process& process, const SourceInfo& here, const SourceInfo& told) const;
  void PutFrame(const std::string& key, std::string_view value, const SourceId& id,
                std::shared_ptr<const wire::Frame> frame);
  bool MarkBegun(Batch* batch);
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
  std::set<std::string> names_;         // of its attempts
  std::set<uint32_t> mapped_attempts_;  // numbers here of what the archive has
  std::set<SourceId> mapped_processes_;
  std::set<FramesOf> gathered_;  // ranks whose numbers are known
  // Steps that were merged here since the import began, by attempt here. Guarded by the store's write mutex.
  std::map<uint32_t, NumberSet<int64_t>> merged_meanwhile_;
  std::vector<MetaEntry> last_;  // written at the end
  size_t bytes_of_notes_ = 0;    // in last_
  std::unique_ptr<Pending> pending_ = std::make_unique<Pending>();
  Outcome outcome_;
};

}  // namespace foreshock::store
