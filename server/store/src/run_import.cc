#include "run_import.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "foreshock/archive/bounds.h"
#include "foreshock/server/store/parts.h"
#include "foreshock/wire/check.h"
#include "frame_source.h"
#include "keys.h"

namespace foreshock::store {
namespace {

constexpr size_t kBytesOfWrite = 4u << 20;
constexpr size_t kMostSettling = 4096;  // processes whose counters go with one write
constexpr std::string_view kDone = "done";

std::string BegunKey(const std::string& run) { return MetaKey(kImportKind, run, kImportBegun); }

Status Impossible(const std::string& what) { return Status(Code::kInvalidArgument, "archive: " + what); }

Status OutOfOrder(const std::string& what) {
  return Status(Code::kFailedPrecondition,
                what + "; import before trainers send to this server, or delete the run here first");
}

}  // namespace

Result<std::unique_ptr<RunImport>> StoreImpl::StartImport(const archive::Begin& begin, int64_t now_unix_ns,
                                                          ImportRules rules) {
  auto import = std::make_unique<RunImportImpl>(this, begin, now_unix_ns, std::move(rules));
  FS_RETURN_IF_ERROR(import->Start());
  return std::unique_ptr<RunImport>(std::move(import));
}

Status RunImportImpl::Start() {
  FS_RETURN_IF_ERROR(wire::CheckName("run", begin_.run));
  {
    std::shared_lock lock(store_.registry_mutex_);
    if (const RunEntry* run = store_.registry_.FindRun(begin_.run)) run_ = run->number;
  }
  again_ = run_ != 0 && store_.GetMeta(kImportKind, begin_.run, kDone).ok();
  std::lock_guard write(store_.write_mutex_);
  store_.imports_.push_back(this);
  return OkStatus();
}

RunImportImpl::~RunImportImpl() {
  std::lock_guard write(store_.write_mutex_);
  std::erase(store_.imports_, this);
}

void RunImportImpl::SawMerged(const FramesOf& source, int64_t step) {
  if (source.run == run_) merged_meanwhile_[source.attempt].Add(step);
}

Status RunImportImpl::Gone() const {
  return Status(Code::kNotFound, "run: '" + begin_.run + "' was deleted while it was imported");
}

Status RunImportImpl::CameMeanwhile() const {
  return OutOfOrder("run '" + begin_.run + "' came to this server, from a trainer, while it was imported");
}

Status RunImportImpl::StillThere() const {
  return run_ == 0 || store_.registry_.runs.contains(run_) ? OkStatus() : Gone();
}

Status RunImportImpl::Add(archive::Entry entry) {
  if (auto* record = std::get_if<archive::Record>(&entry)) {
    switch (record->kind) {
      case archive::RecordKind::kFrame:
        return AddFrame(*record);
      case archive::RecordKind::kEvent:
        return AddEvent(*record);
      case archive::RecordKind::kQuarantined:
        return AddQuarantined(*record);
    }
  }
  if (const auto* attempt = std::get_if<archive::Attempt>(&entry)) return AddAttempt(*attempt);
  if (const auto* process = std::get_if<archive::Process>(&entry)) return AddProcess(*process);
  if (const auto* mark = std::get_if<archive::Unmerged>(&entry)) return AddMark(*mark);
  if (auto* note = std::get_if<archive::Note>(&entry)) return AddNote(std::move(*note));
  if (const auto* counters = std::get_if<archive::Counters>(&entry)) return AddCounters(*counters);
  return Impossible("a second beginning");
}

// --- what there is

// One that is not here is entered with its first process: an attempt always has one.
Status RunImportImpl::AddAttempt(const archive::Attempt& told) {
  FS_RETURN_IF_ERROR(wire::CheckName("attempt", told.name));
  if (told.number == 0) return Impossible("an attempt of number 0");
  if (!names_.insert(told.name).second) return Impossible("two attempts of the name '" + told.name + "'");
  Attempt attempt;
  attempt.told = told;
  attempt.number = told.number;
  std::shared_lock lock(store_.registry_mutex_);
  const auto run = store_.registry_.runs.find(run_);
  if (run == store_.registry_.runs.end()) {
    if (run_ != 0) return Gone();
  } else if (const AttemptEntry* known = run->second.FindAttempt(told.name)) {
    attempt.number = known->number;
    attempt.fresh = false;
  } else {
    for (const auto& [number, other] : run->second.attempts) {
      const bool mapped = mapped_attempts_.contains(number);
      if (number == told.number || (number < told.number && !mapped))
        return OutOfOrder("run '" + begin_.run + "': attempt '" + other.name +
                          "' is here, and the archive's '" + told.name +
                          "' is older or cannot be told from it");
    }
  }
  mapped_attempts_.insert(attempt.number);
  attempts_[told.number] = std::move(attempt);
  return OkStatus();
}

Status RunImportImpl::AddProcess(const archive::Process& told) {
  FS_ASSIGN_OR_RETURN(Attempt * attempt, AttemptOf(told.place.attempt));
  Process process;
  FS_RETURN_IF_ERROR(Check(told, *attempt, &process.before));
  process.hello = process.before.hello;
  process.durable = process.before.durable_seq;
  process.id = {run_, attempt->number, told.place.rank, told.place.process};
  std::lock_guard write(store_.write_mutex_);
  FS_RETURN_IF_ERROR(StillThere());
  FS_ASSIGN_OR_RETURN(const SourceInfo* here,
                      FindHere(told.place, *attempt, process.before.hello->incarnation));
  if (here == nullptr) {
    process.fresh = true;
    FS_RETURN_IF_ERROR(Enter(attempt, &process));
  } else {
    if (gathered_.contains({run_, attempt->number, told.place.rank}))
      return Impossible("a process declared behind records of its rank");
    if (mapped_processes_.contains(here->id)) return Impossible("two processes of one rank and incarnation");
    process.id = here->id;
    process.before = *here;
    if (process.durable >= here->durable_seq) FS_RETURN_IF_ERROR(BringUp(*here, &process));
  }
  mapped_processes_.insert(process.id);
  processes_[told.place] = std::move(process);
  return OkStatus();
}

Status RunImportImpl::Check(const archive::Process& told, const Attempt& attempt, SourceInfo* info) const {
  FS_ASSIGN_OR_RETURN(wire::Hello hello, wire::DecodeHello(told.hello));
  FS_RETURN_IF_ERROR(wire::CheckHello(hello));
  if (hello.run != begin_.run || hello.attempt != attempt.told.name || hello.rank != told.place.rank)
    return Impossible("a process whose Hello is of another run, attempt or rank");
  if (told.place.process == 0) return Impossible("a process of number 0");
  info->hello = std::make_shared<const wire::Hello>(std::move(hello));
  info->first_unix_ns = info->last_unix_ns = Time(told.first_unix_ns);
  return ReadCounters(told.counters, info);
}

int64_t RunImportImpl::Time(int64_t unix_ns) const {
  return std::clamp<int64_t>(unix_ns, 0, now_unix_ns_ + kMostAheadNs);
}

// Counters may say anything; others calculate with them.
Status RunImportImpl::ReadCounters(std::string_view bytes, SourceInfo* told) const {
  FS_RETURN_IF_ERROR(DecodeCounters(bytes, told));
  if (told->durable_seq > wire::kMaxSeq) return Impossible("a durable number above 2^63 - 1");
  for (std::optional<int64_t>* step : {&told->first_step, &told->last_step}) {
    if (*step && (**step < rules_.first_step || **step > rules_.last_step)) step->reset();
  }
  told->last_unix_ns = Time(told->last_unix_ns);
  return OkStatus();
}

// The process as it is here; nullptr: it is not, and its number is free. With the write mutex, as the next.
Result<const SourceInfo*> RunImportImpl::FindHere(const archive::Place& place, const Attempt& attempt,
                                                  uint64_t incarnation) const {
  if (run_ == 0) {
    if (store_.registry_.FindRun(begin_.run) != nullptr) return CameMeanwhile();
    return nullptr;
  }
  const AttemptEntry* entry = store_.registry_.FindAttempt(run_, attempt.number);
  if (entry == nullptr) return nullptr;
  if (entry->name != attempt.told.name) return CameMeanwhile();
  if (const SourceInfo* found = entry->FindIncarnation(place.rank, incarnation)) return found;
  for (auto it = entry->sources.lower_bound({place.rank, 0});
       it != entry->sources.end() && it->first.first == place.rank; ++it) {
    const bool mapped = mapped_processes_.contains(it->second.id);
    if (it->first.second == place.process || (it->first.second < place.process && !mapped))
      return OutOfOrder("run '" + begin_.run + "': a process of rank " + std::to_string(place.rank) +
                        " is here that the archive does not have");
  }
  return nullptr;
}

// Enters the process, and run and attempt where they are missing, in one write.
Status RunImportImpl::Enter(Attempt* attempt, Process* process) {
  Batch batch;
  RunEntry run;
  AttemptEntry entry;
  std::vector<std::string> marks;
  const bool new_run = run_ == 0;
  if (new_run) {
    run.number = store_.registry_.next_run;
    run.name = begin_.run;
    run.first_unix_ns = Time(begin_.first_unix_ns);
    batch.Put(NextRunKey(), std::to_string(run.number + 1));
    batch.Put(RunKey(run.number), EncodeRun(run));
  }
  const uint32_t run_number = new_run ? run.number : run_;
  const bool new_attempt = new_run || store_.registry_.FindAttempt(run_number, attempt->number) == nullptr;
  if (new_attempt) {
    entry.number = attempt->number;
    entry.name = attempt->told.name;
    entry.source = static_cast<wire::AttemptSource>(attempt->told.source);
    entry.first_unix_ns = Time(attempt->told.first_unix_ns);
    batch.Put(AttemptKey(run_number, entry.number), EncodeAttempt(entry));
  } else if (!attempt->fresh && process->before.hello->world_size > 1) {
    FS_RETURN_IF_ERROR(store_.MarkOldSteps(process->id, &batch, &marks));
  }
  process->id.run = process->before.id.run = run_number;
  process->before.id = process->id;
  batch.Put(SourceKey(Table::kSource, process->id), EncodeSource(process->before));
  batch.Put(SourceKey(Table::kCounters, process->id), EncodeCounters(process->before));
  FS_RETURN_IF_ERROR(WriteDeclaration(&batch));
  for (const std::string& mark : marks) store_.marks_[mark] = store_.stamp_;
  std::unique_lock lock(store_.registry_mutex_);
  if (new_run) {
    store_.registry_.next_run = run.number + 1;
    store_.registry_.runs[run.number] = std::move(run);
  }
  RunEntry& there = store_.registry_.runs[run_number];
  if (new_attempt) there.attempts[entry.number] = std::move(entry);
  there.attempts[attempt->number].Enter(process->before);
  run_ = run_number;
  return OkStatus();
}

// Not synced but for the first, which marks the run: there may be many, and the next records' write covers
// what stands before it in the log, as does that of OpenSource.
Status RunImportImpl::WriteDeclaration(Batch* batch) {
  const bool first = MarkBegun(batch);
  FS_RETURN_IF_ERROR(store_.db_->Write(*batch, first));
  if (!first) store_.import_unsynced_ = true;
  return OkStatus();
}

// From here on its sender is told that what the archive has is here, and what it said of itself there holds,
// but for the size of its world.
Status RunImportImpl::BringUp(const SourceInfo& here, Process* process) {
  SourceInfo there = here;
  there.durable_seq = process->durable;
  wire::Hello hello = *process->hello;
  hello.world_size = here.hello->world_size;
  const bool changes = hello != *here.hello;
  if (!changes && there.durable_seq == here.durable_seq) return OkStatus();
  Batch batch;
  batch.Put(SourceKey(Table::kCounters, process->id), EncodeCounters(there));
  if (changes) {
    there.hello = process->before.hello = std::make_shared<const wire::Hello>(std::move(hello));
    batch.Put(SourceKey(Table::kSource, process->id), EncodeSource(there));
  }
  FS_RETURN_IF_ERROR(WriteDeclaration(&batch));
  std::unique_lock lock(store_.registry_mutex_);
  store_.registry_.FindAttempt(process->id.run, process->id.attempt)->Enter(std::move(there));
  return OkStatus();
}

Result<RunImportImpl::Attempt*> RunImportImpl::AttemptOf(uint32_t number) {
  const auto it = attempts_.find(number);
  if (it == attempts_.end()) return Impossible("of an attempt not declared");
  return &it->second;
}

Result<RunImportImpl::Process*> RunImportImpl::Of(const archive::Place& place) {
  const auto it = processes_.find(place);
  if (it == processes_.end()) return Impossible("of a process not declared");
  FS_RETURN_IF_ERROR(GatherRank(place));
  return &it->second;
}

Result<RunImportImpl::Process*> RunImportImpl::Of(const archive::Place& place, uint64_t seq) {
  FS_RETURN_IF_ERROR(wire::CheckSeq(seq));
  FS_ASSIGN_OR_RETURN(Process * process, Of(place));
  if (seq <= process->durable) return process;
  return Impossible("record " + std::to_string(seq) + " of a process whose durable number is " +
                    std::to_string(process->durable));
}

// --- records

void RunImportImpl::NoteStep(const wire::Frame& frame, Process* process) {
  process->first_step = std::min(process->first_step.value_or(frame.step), frame.step);
  process->last_step = std::max(process->last_step.value_or(frame.step), frame.step);
}

// A number alone does not say whether it is of a whole frame or of a part: archives have frames whole that
// came in parts, and parts of frames that are whole here, or here in other parts.
Result<RunImportImpl::Part> RunImportImpl::HasFrame(const wire::Frame& frame, Process* process) const {
  const bool known = process->raw.Contains(frame.seq);
  const bool as_part = frame.parts > 1;
  if (frame.part >= frame.seq || (as_part && frame.part >= frame.parts))
    return known ? Part::kAll : Part::kNone;
  const uint64_t first = frame.seq - frame.part;
  if (process->sealed.Contains(first)) return Part::kAll;
  // Other parts of a frame may have come here from its sender, meanwhile.
  if (as_part ? known : !process->steps.Contains(frame.step)) return known ? Part::kAll : Part::kNone;
  const std::pair asked(frame.step, first);
  if (as_part && process->torn == asked) return Part::kSome;
  FS_ASSIGN_OR_RETURN(const Database::View view, store_.db_->Look());
  FS_ASSIGN_OR_RETURN(const PartsHere here, FindPartsHere(view, process->id, frame.step, first));
  if (here.any && !here.all) process->torn = asked;
  if (here.any) return here.all ? Part::kAll : Part::kSome;
  if (known) return Part::kAll;  // it goes with the next write
  // Parts of it that go with it.
  const auto beside = [&](uint64_t seq) { return process->raw.Contains(seq); };
  const bool follows = as_part && frame.part > 0 && beside(frame.seq - 1);
  const bool leads = as_part && frame.part + 1 < frame.parts && beside(frame.seq + 1);
  if (follows || leads) return Part::kSome;
  return Part::kNone;
}

// The number of the frame that holds of a step of a process; 0: none that is written yet.
Result<uint64_t> RunImportImpl::NewestHere(const SourceId& process, int64_t step) const {
  FS_ASSIGN_OR_RETURN(const FrameSource source,
                      store_.See({process.run, process.attempt, process.rank}, true));
  uint64_t seq = 0;
  const auto take = [&](const StoredFrame& stored) {
    if (stored.incarnation == process.incarnation) seq = stored.frame.seq;
    return true;
  };
  FS_ASSIGN_OR_RETURN(const std::vector<Span> spans, source.Spans(step, step));
  for (const Span& span : spans) {
    FS_ASSIGN_OR_RETURN(const std::vector<StoredFrame> frames,
                        source.Frames(span, step, step, NoSeries(), true));
    for (const StoredFrame& frame : frames) take(frame);
  }
  bool stopped = false;
  FS_RETURN_IF_ERROR(source.Tail(step, step, false, NoSeries(), true, take, &stopped));
  return seq;
}

Status RunImportImpl::AddFrame(const archive::Record& record) {
  Result<wire::Frame> decoded = wire::DecodeFrame(record.payload);
  if (!decoded.ok()) return Impossible("a frame that cannot be read: " + decoded.status().message());
  auto frame = std::make_shared<const wire::Frame>(std::move(decoded).value());
  if (record.place.rank == kMerged) return AddMerged(record, frame);
  FS_ASSIGN_OR_RETURN(Process * process, Of(record.place, frame->seq));
  FS_ASSIGN_OR_RETURN(const Part here, HasFrame(*frame, process));
  if (here == Part::kAll) {
    ++outcome_.known.frames;
    NoteStep(*frame, process);
    return OkStatus();
  }
  const SourceId& id = process->id;
  // What came to the other server has been through its checks; an archive may come from anyone.
  Status fits;
  if (frame->parts > wire::kMaxParts) {
    fits = Status(Code::kInvalidArgument,
                  "parts: " + std::to_string(frame->parts) + ", at most " + std::to_string(wire::kMaxParts));
  } else if (rules_.check_frame) {
    fits = rules_.check_frame(*process->before.hello, *frame);
  }
  if (!fits.ok())
    return AddQuarantined({archive::RecordKind::kQuarantined, record.place, record.payload,
                           static_cast<uint32_t>(wire::RecordType::kFrame), frame->seq, fits.message()});
  NoteStep(*frame, process);
  FS_ASSIGN_OR_RETURN(Attempt * attempt, AttemptOf(record.place.attempt));
  // Of a step that its process sent twice the later one holds: one that comes here second although it was
  // sent first is put behind all that is closed.
  bool earlier = false;
  if (here == Part::kNone && !process->fresh && process->steps.Contains(frame->step)) {
    FS_ASSIGN_OR_RETURN(const uint64_t newest, NewestHere(id, frame->step));
    earlier = frame->seq < newest;
  }
  if (here == Part::kSome) {
    pending_->joining.push_back({id, record.payload, frame});
  } else if (earlier) {
    pending_->kept.insert({id.run, id.attempt, id.rank});
    pending_->behind.insert({id, frame->seq - frame->part});
    pending_->batch.Put(FrameKey(Table::kKept, id, frame->step, frame->seq), KeptValue(0, record.payload));
  } else {
    PutFrame(FrameKey(id, frame->step, frame->seq), record.payload, id, frame);
  }
  if (!process->fresh || frame->parts > 1) process->steps.Add(frame->step);
  process->raw.Add(frame->seq);
  ++process->frames;
  ++outcome_.added.frames;
  if (!attempt->fresh && HasSeveralRanks(attempt))
    pending_->marks.push_back(UnmergedKey(id.run, id.attempt, frame->step));
  return WriteWhenFull(record.payload.size());
}

Status RunImportImpl::AddMerged(const archive::Record& record,
                                const std::shared_ptr<const wire::Frame>& frame) {
  FS_ASSIGN_OR_RETURN(Attempt * attempt, AttemptOf(record.place.attempt));
  const SourceId id{run_, attempt->number, kMerged, 0};
  if (record.place.process != 0) return Impossible("a merged frame of a process");
  if (!HasSeveralRanks(attempt)) return Impossible("a merged frame of a world of one rank");
  FS_RETURN_IF_ERROR(GatherMerged(attempt));
  if (attempt->merged->Contains(frame->step)) {
    ++outcome_.known.merged_frames;
    return OkStatus();
  }
  attempt->merged->Add(frame->step);
  // It says nothing that its ranks' frames do not say.
  if (rules_.check_frame && !rules_.check_frame(WholeOf(record.place.attempt, attempt), *frame).ok()) {
    pending_->marks.push_back(UnmergedKey(id.run, id.attempt, frame->step));
    return WriteWhenFull(0);
  }
  ++outcome_.added.merged_frames;
  pending_->merged.push_back({id, record.payload, frame});
  return WriteWhenFull(record.payload.size());
}

bool RunImportImpl::HasSeveralRanks(Attempt* attempt) const {
  // A world does not shrink.
  if (!attempt->several) attempt->several = store_.WorldOf({run_, attempt->number, 0, 0}) > 1;
  return attempt->several;
}

// Ranks may hold different layers, and different heads of one.
const wire::Hello& RunImportImpl::WholeOf(uint32_t number, Attempt* attempt) const {
  if (attempt->whole != nullptr) return *attempt->whole;
  std::map<uint32_t, wire::Layer> layers;
  for (auto it = processes_.lower_bound({number, 0, 0});
       it != processes_.end() && it->first.attempt == number; ++it) {
    for (const wire::Layer& layer : it->second.hello->model.layers) {
      wire::Layer& all = layers[layer.layer];
      all.layer = layer.layer;
      all.query_heads = std::max(all.query_heads, layer.query_heads);
      all.kv_heads = std::max(all.kv_heads, layer.kv_heads == 0 ? layer.query_heads : layer.kv_heads);
    }
  }
  wire::Hello whole;
  for (auto& [index, layer] : layers) whole.model.layers.push_back(std::move(layer));
  attempt->whole = std::make_shared<const wire::Hello>(std::move(whole));
  return *attempt->whole;
}

void RunImportImpl::PutFrame(const std::string& key, std::string_view value, const SourceId& id,
                             std::shared_ptr<const wire::Frame> frame) {
  pending_->batch.Put(key, value);
  pending_->frames.emplace_back(FramesOf{id.run, id.attempt, id.rank}, frame->step);
  const uint64_t seq = id.rank == kMerged ? 0 : frame->seq;
  const int64_t step = frame->step;
  pending_->decoded.emplace_back(id, step, seq, std::move(frame));
}

bool RunImportImpl::IsNew(Process* process, uint64_t seq, uint64_t Process::*here,
                          uint64_t Counts::*counter) {
  const bool known = process->others.Contains(seq);
  Counts& counts = known ? outcome_.known : outcome_.added;
  ++(counts.*counter);
  if (known) return false;
  process->others.Add(seq);
  ++(process->*here);
  return true;
}

Status RunImportImpl::AddEvent(const archive::Record& record) {
  const Result<wire::Event> event = wire::DecodeEvent(record.payload);
  if (!event.ok()) return Impossible("an event that cannot be read: " + event.status().message());
  FS_ASSIGN_OR_RETURN(Process * process, Of(record.place, event->seq));
  if (!IsNew(process, event->seq, &Process::events, &Counts::events)) return OkStatus();
  pending_->batch.Put(EventKey(process->id, event->step, event->seq), record.payload);
  return WriteWhenFull(record.payload.size());
}

Status RunImportImpl::AddQuarantined(const archive::Record& record) {
  if (record.type == 0 || record.type > wire::kLastRecordType) return Impossible("a record of no type");
  FS_ASSIGN_OR_RETURN(Process * process, Of(record.place, record.seq));
  if (!IsNew(process, record.seq, &Process::quarantined, &Counts::quarantined)) return OkStatus();
  pending_->batch.Put(
      QuarantineKey(process->id, record.seq),
      QuarantineValue(static_cast<wire::RecordType>(record.type), record.reason, record.payload));
  return WriteWhenFull(record.payload.size());
}

Status RunImportImpl::AddMark(const archive::Unmerged& mark) {
  FS_ASSIGN_OR_RETURN(Attempt * attempt, AttemptOf(mark.attempt));
  if (!HasSeveralRanks(attempt)) return OkStatus();
  pending_->marks.push_back(UnmergedKey(run_, attempt->number, mark.step));
  return WriteWhenFull(0);
}

// What is here of a name stays, unless the run is imported for the first time: what was judged with its past
// knows more than what was judged without. Written at the end, with the news of it.
Status RunImportImpl::AddNote(archive::Note note) {
  if (!note.of_run) return Impossible("a note of the server");
  if (note.kind.empty() || note.kind.size() > 64 || note.kind == kImportKind || note.key.size() > 0xFFFF)
    return Impossible("a note of kind '" + note.kind + "' that cannot be kept");
  MetaEntry entry{std::move(note.kind), begin_.run, std::move(note.key), std::move(note.value)};
  const Result<std::string> here = store_.GetMeta(entry.kind, entry.run, entry.key);
  const auto supersedes = [&](const std::string& one, const std::string& other) {
    return rules_.supersedes && rules_.supersedes(entry.kind, one, other);
  };
  if (here.ok() && (*here == entry.value || supersedes(entry.value, *here) ||
                    (again_ && !supersedes(*here, entry.value)))) {
    ++outcome_.known.notes;
    return OkStatus();
  }
  bytes_of_notes_ += entry.key.size() + entry.value.size() + archive::kBytesOfNote;
  if (bytes_of_notes_ > archive::kMostBytesOfNotes) return Impossible("more than 256 MiB of notes");
  ++outcome_.added.notes;
  last_.push_back(std::move(entry));
  return OkStatus();
}

// --- counters

SourceInfo RunImportImpl::Settled(const Process& process, const SourceInfo& here,
                                  const SourceInfo& told) const {
  SourceInfo out = here;
  out.durable_seq = std::max(here.durable_seq, told.durable_seq);
  out.last_unix_ns = std::max(here.last_unix_ns, told.last_unix_ns);
  out.last_sent_unix_ns = std::max(here.last_sent_unix_ns, told.last_sent_unix_ns);
  if (process.first_step)
    out.first_step = std::min(here.first_step.value_or(*process.first_step), *process.first_step);
  if (process.last_step)
    out.last_step = std::max(here.last_step.value_or(*process.last_step), *process.last_step);
  if (!here.goodbye) out.goodbye = told.goodbye;
  if (process.fresh) {
    // As the archive counts, and what came to this server meanwhile.
    const auto add = [&](uint64_t SourceInfo::*field) {
      out.*field = told.*field + (here.*field - process.before.*field);
    };
    for (const auto field : {&SourceInfo::frames, &SourceInfo::events, &SourceInfo::duplicates,
                             &SourceInfo::dropped, &SourceInfo::gaps, &SourceInfo::quarantined})
      add(field);
    if (here.durable_seq == process.before.durable_seq) out.clock_skew_ns = told.clock_skew_ns;
    return out;
  }
  // What was seen here and added, and what came to this server since the look.
  out.frames = std::max({here.frames, told.frames, process.frames + (here.frames - process.seen.frames)});
  out.events = std::max({here.events, told.events, process.events + (here.events - process.seen.events)});
  out.quarantined = std::max({here.quarantined, told.quarantined,
                              process.quarantined + (here.quarantined - process.seen.quarantined)});
  out.dropped = std::max(here.dropped, told.dropped);
  // What was missing here may have come.
  const uint64_t known = out.frames + out.events + out.quarantined + out.dropped + (out.goodbye ? 1 : 0);
  const uint64_t missing = out.durable_seq > known ? out.durable_seq - known : 0;
  out.gaps = std::min(std::max(here.gaps, told.gaps), missing);
  return out;
}

Status RunImportImpl::AddCounters(const archive::Counters& counters) {
  Settling settling;
  FS_RETURN_IF_ERROR(ReadCounters(counters.counters, &settling.told));
  FS_ASSIGN_OR_RETURN(settling.process, Of(counters.place));
  const uint64_t told = settling.told.durable_seq, declared = settling.process->durable;
  if (told > declared)
    return Impossible("counters with the durable number " + std::to_string(told) +
                      ", of a process whose durable number is " + std::to_string(declared));
  pending_->settling.push_back(std::move(settling));
  return pending_->settling.size() < kMostSettling ? OkStatus() : Write();
}

// The counters of processes whose frames are there, or will be with this batch. With the write mutex.
Result<std::vector<SourceInfo>> RunImportImpl::Settle(Batch* batch) const {
  std::vector<SourceInfo> changed;
  for (const Settling& settling : pending_->settling) {
    const SourceInfo* here = store_.registry_.FindSource(settling.process->id);
    if (here == nullptr) return Gone();
    SourceInfo settled = Settled(*settling.process, *here, settling.told);
    const std::string value = EncodeCounters(settled);
    if (value == EncodeCounters(*here)) continue;
    batch->Put(SourceKey(Table::kCounters, settled.id), value);
    changed.push_back(std::move(settled));
  }
  return changed;
}

// --- writing

// With the first that is written, then true: the run is here in part from then on, until the end.
bool RunImportImpl::MarkBegun(Batch* batch) {
  if (std::exchange(begun_, true)) return false;
  batch->Put(BegunKey(begin_.run), std::to_string(now_unix_ns_));
  return true;
}

// Parts of a frame are joined where they are open together, or were kept at one seal. With the write mutex
// and the sealer at rest.
Status RunImportImpl::PutBesideParts() {
  if (pending_->joining.empty()) return OkStatus();
  FS_ASSIGN_OR_RETURN(const Database::View view, store_.db_->Look());
  std::map<std::tuple<SourceId, int64_t, uint64_t>, PartsHere> frames;
  for (Joining& joining : pending_->joining) {
    const SourceId& id = joining.id;
    const int64_t step = joining.frame->step;
    const uint64_t seq = joining.frame->seq;
    const uint64_t first = seq - joining.frame->part;
    const auto [it, anew] = frames.try_emplace({id, step, first});
    PartsHere& here = it->second;
    if (anew) {
      FS_ASSIGN_OR_RETURN(here, FindPartsHere(view, id, step, first));
      if (!here.any) here.open = !pending_->behind.contains({id, first});
      // What is sealed drops them; what is kept will not be.
      if (!here.open)
        FS_RETURN_IF_ERROR(
            store_.DropRollups(view, {id.run, id.attempt, id.rank}, step, step, &pending_->batch));
    }
    if (here.open) {
      PutFrame(FrameKey(id, step, seq), joining.payload, id, std::move(joining.frame));
      continue;
    }
    pending_->kept.insert({id.run, id.attempt, id.rank});
    pending_->batch.Put(FrameKey(Table::kKept, id, step, seq), KeptValue(here.seal, joining.payload));
  }
  pending_->joining.clear();
  return OkStatus();
}

Status RunImportImpl::WriteWhenFull(size_t bytes) {
  pending_->bytes += bytes + 64;
  return pending_->bytes < kBytesOfWrite ? OkStatus() : Write();
}

Status RunImportImpl::Write() {
  if (pending_->bytes == 0 && pending_->settling.empty()) return OkStatus();
  store_.WaitForSealer();
  // Where parts are is not to change until theirs stand beside them.
  std::unique_lock seal(store_.seal_mutex_, std::defer_lock);
  if (!pending_->joining.empty()) seal.lock();
  std::lock_guard write(store_.write_mutex_);
  FS_RETURN_IF_ERROR(StillThere());
  FS_ASSIGN_OR_RETURN(std::vector<SourceInfo> settled, Settle(&pending_->batch));
  if (pending_->bytes == 0 && settled.empty()) {
    pending_->settling.clear();
    return OkStatus();
  }
  store_.most_open_ = 0;
  MarkBegun(&pending_->batch);
  for (Merged& merged : pending_->merged) {
    const int64_t step = merged.frame->step;
    if (!merged_meanwhile_[merged.id.attempt].Contains(step)) {
      PutFrame(FrameKey(merged.id, step, 0), merged.payload, merged.id, std::move(merged.frame));
      continue;
    }
    // Merged here of what had come until then: neither that nor the archive's may be the whole.
    --outcome_.added.merged_frames;
    ++outcome_.known.merged_frames;
    pending_->marks.push_back(UnmergedKey(merged.id.run, merged.id.attempt, step));
  }
  pending_->merged.clear();
  FS_RETURN_IF_ERROR(PutBesideParts());
  for (const std::string& mark : pending_->marks) pending_->batch.Put(mark, {});
  for (const auto& [source, step] : pending_->frames) store_.WillAppend(source, step);
  for (const FramesOf& source : pending_->kept) store_.layouts_.WillKeep(source);
  FS_RETURN_IF_ERROR(store_.db_->Write(pending_->batch, true));
  {
    std::unique_lock lock(store_.registry_mutex_);
    for (SourceInfo& source : settled) *store_.registry_.FindSource(source.id) = std::move(source);
  }
  for (const std::string& mark : pending_->marks) store_.marks_[mark] = store_.stamp_ + 1;
  ++store_.stamp_;
  if (store_.sealer_ != nullptr) {
    for (const auto& [id, step, seq, frame] : pending_->decoded)
      store_.recent_.Add(id, step, seq, frame, MemoryOf(*frame));
  }
  pending_ = std::make_unique<Pending>();
  return OkStatus();
}

Result<RunImport::Outcome> RunImportImpl::Finish() {
  if (run_ == 0) return Impossible("holds no process");
  FS_RETURN_IF_ERROR(Write());
  last_.push_back({kImportKind, begin_.run, std::string(kDone), std::to_string(now_unix_ns_)});
  std::lock_guard write(store_.write_mutex_);
  FS_RETURN_IF_ERROR(StillThere());
  FS_RETURN_IF_ERROR(store_.PutMeta(last_));
  // Of an import that broke off, too. Should it stay behind here, repeating the import takes it away.
  FS_RETURN_IF_ERROR(store_.DeleteMeta(kImportKind, begin_.run, kImportBegun));
  store_.observers_.Each([&](Observer& observer) { observer.OnRunImported(begin_.run); });
  return outcome_;
}

}  // namespace foreshock::store
