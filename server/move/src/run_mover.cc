#include "foreshock/server/move/run_mover.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "foreshock/archive/reader.h"
#include "foreshock/archive/writer.h"
#include "foreshock/base/logging.h"
#include "foreshock/server/ingest/check_frame.h"
#include "foreshock/wire/codec.h"

namespace foreshock::move {
namespace {

constexpr char kLog[] = "server/move";
// Of silences and lines of the trail in one archive: they are held until the end.
constexpr size_t kMostServerNotes = 50'000;
constexpr size_t kMostServerNoteBytes = 64u << 20;

std::string NameOf(const std::string& issuer) { return issuer.empty() ? "operator" : issuer; }

class MoverImpl;

class ImportImpl final : public Import {
 public:
  ImportImpl(MoverImpl* mover, std::string issuer, RunMover::May may)
      : mover_(*mover), issuer_(std::move(issuer)), may_(std::move(may)) {}
  ~ImportImpl() override;

  Status Feed(std::string_view bytes) override;
  Result<ImportOutcome> Finish() override;

 private:
  Status Take(archive::Entry entry);
  Status Begin(const archive::Begin& begin);
  Status Check(const wire::Hello& hello, const wire::Frame& frame);
  Status Check(const archive::Process& process) const;
  Status Keep(archive::Note note);
  Result<ImportOutcome> End();

  MoverImpl& mover_;
  const std::string issuer_;
  const RunMover::May may_;
  archive::Reader reader_;
  std::string run_;  // that is held; empty: none yet
  std::unique_ptr<store::RunImport> import_;
  std::optional<ingest::ModelShape> shape_;  // of the model of *shape_of_, which the import holds
  const wire::Hello* shape_of_ = nullptr;
  std::vector<store::MetaEntry> server_notes_;
  size_t server_note_bytes_ = 0;
  Status status_;  // of Feed
  bool done_ = false;
  bool entered_ = false;  // counts as one that is under way
};

class MoverImpl final : public RunMover {
 public:
  explicit MoverImpl(const MoveOptions& options) : options_(options) {}

  Status Export(const std::string& run, const std::string& issuer, const Sink& sink) override {
    FS_RETURN_IF_ERROR(Enter());
    const Status status = ExportNow(run, sink);
    Leave();
    Tell("run_exported", run, issuer, status, &Counters::exports);
    return status;
  }

  Result<std::unique_ptr<Import>> StartImport(const std::string& issuer, May may) override {
    return std::unique_ptr<Import>(std::make_unique<ImportImpl>(this, issuer, std::move(may)));
  }

  Counters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

  const MoveOptions& options() const { return options_; }

  Status Hold(const std::string& run) {
    if (!options_.store->GetRun(run).ok() && options_.store->CountRuns() >= options_.max_runs) {
      return Status(Code::kResourceExhausted,
                    "max_runs: " + std::to_string(options_.max_runs) + " runs are here already");
    }
    std::lock_guard lock(mutex_);
    if (held_.insert(run).second) return OkStatus();
    return Status(Code::kFailedPrecondition, "run: '" + run + "' is being imported already");
  }
  void Release(const std::string& run) {
    std::lock_guard lock(mutex_);
    held_.erase(run);
  }
  Status Enter() {
    std::lock_guard lock(mutex_);
    if (busy_ >= options_.most_at_once) {
      return Status(Code::kResourceExhausted, "runs on the move: " + std::to_string(options_.most_at_once) +
                                                  " are already, try again when one has ended");
    }
    ++busy_;
    return OkStatus();
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    --busy_;
  }
  void Tell(const char* what, const std::string& run, const std::string& issuer, const Status& status,
            uint64_t Counters::*counter) {
    {
      std::lock_guard lock(mutex_);
      ++(counters_.*(status.ok() ? counter : &Counters::failures));
    }
    if (!status.ok()) {
      LogWarning(kLog, "a run was not moved",
                 {{"what", what}, {"run", run}, {"by", NameOf(issuer)}, {"error", status}});
      return;
    }
    LogInfo(kLog, what, {{"run", run}, {"by", NameOf(issuer)}});
    options_.audit->Add({0, NameOf(issuer), what, run, "", ""});
  }

 private:
  Status ExportNow(const std::string& run, const Sink& sink) {
    FS_ASSIGN_OR_RETURN(const store::RunInfo info, options_.store->GetRun(run));
    archive::Writer writer([&](std::string_view bytes) { return InPieces(bytes, sink); },
                           std::random_device{}());
    FS_RETURN_IF_ERROR(
        writer.Add(archive::Begin{run, info.first_unix_ns, options_.clock->WallNanos(), options_.made_by}));
    FS_RETURN_IF_ERROR(options_.store->ExportRun(run, options_.clock->WallNanos(), [&](archive::Entry entry) {
      return writer.Add(std::move(entry));
    }));
    std::vector<store::MetaEntry> notes = options_.silences->EntriesOf(run);
    FS_ASSIGN_OR_RETURN(const std::vector<store::MetaEntry> trail, options_.audit->EntriesOf(run));
    notes.insert(notes.end(), trail.begin(), trail.end());
    for (store::MetaEntry& note : notes) {
      FS_RETURN_IF_ERROR(
          writer.Add(archive::Note{std::move(note.kind), std::move(note.key), std::move(note.value), false}));
    }
    return writer.Finish();
  }

  static Status InPieces(std::string_view bytes, const Sink& sink) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), archive::Writer::kPieceBytes)))
      FS_RETURN_IF_ERROR(sink(bytes.substr(0, archive::Writer::kPieceBytes)));
    return OkStatus();
  }

  const MoveOptions options_;
  mutable std::mutex mutex_;  // guards everything below
  size_t busy_ = 0;
  std::set<std::string> held_;  // runs being imported
  Counters counters_;
};

ImportImpl::~ImportImpl() {
  if (!done_) {
    if (status_.ok()) status_ = Status(Code::kUnavailable, "the import ended early");
    mover_.Tell("run_imported", run_, issuer_, status_, &RunMover::Counters::imports);
  }
  import_.reset();
  if (!run_.empty()) mover_.Release(run_);
  if (entered_) mover_.Leave();
}

Status ImportImpl::Feed(std::string_view bytes) {
  status_ = reader_.Feed(bytes, [this](archive::Entry entry) { return Take(std::move(entry)); });
  return status_;
}

Status ImportImpl::Take(archive::Entry entry) {
  if (const auto* begin = std::get_if<archive::Begin>(&entry)) return Begin(*begin);
  auto* note = std::get_if<archive::Note>(&entry);
  if (note != nullptr && !note->of_run) return Keep(std::move(*note));
  if (const auto* process = std::get_if<archive::Process>(&entry)) FS_RETURN_IF_ERROR(Check(*process));
  return import_->Add(std::move(entry));
}

Status ImportImpl::Begin(const archive::Begin& begin) {
  FS_RETURN_IF_ERROR(may_(begin.run));
  FS_RETURN_IF_ERROR(mover_.Enter());  // not before: who may import nothing must not take a place
  entered_ = true;
  FS_RETURN_IF_ERROR(mover_.Hold(begin.run));
  run_ = begin.run;
  store::Store::ImportRules rules;
  rules.check_frame = [this](const wire::Hello& hello, const wire::Frame& frame) {
    return Check(hello, frame);
  };
  rules.supersedes = mover_.options().supersedes;
  rules.first_step = 0;
  rules.last_step = mover_.options().max_step;
  FS_ASSIGN_OR_RETURN(import_, mover_.options().store->StartImport(begin, mover_.options().clock->WallNanos(),
                                                                   std::move(rules)));
  return OkStatus();
}

// As it would have been at the door; steps that are far from each other were judged there.
Status ImportImpl::Check(const wire::Hello& hello, const wire::Frame& frame) {
  const int64_t most = mover_.options().max_step;
  if (frame.step < 0 || frame.step > most)
    return Status(Code::kInvalidArgument,
                  "step: " + std::to_string(frame.step) + ", must be 0 to " + std::to_string(most));
  if (shape_of_ != &hello) shape_.emplace(hello.model);
  shape_of_ = &hello;
  return shape_->Check(frame);
}

Status ImportImpl::Check(const archive::Process& process) const {
  FS_ASSIGN_OR_RETURN(const wire::Hello hello, wire::DecodeHello(process.hello));
  return ingest::CheckHeads(hello.model, mover_.options().max_heads_per_run);
}

Status ImportImpl::Keep(archive::Note note) {
  server_note_bytes_ += note.key.size() + note.value.size();
  if (server_notes_.size() >= kMostServerNotes || server_note_bytes_ > kMostServerNoteBytes)
    return Status(Code::kInvalidArgument,
                  "archive: more silences and lines of the audit trail than a server keeps");
  server_notes_.push_back({std::move(note.kind), "", std::move(note.key), std::move(note.value)});
  return OkStatus();
}

Result<ImportOutcome> ImportImpl::Finish() {
  Result<ImportOutcome> outcome = End();
  done_ = true;
  mover_.Tell("run_imported", run_, issuer_, outcome.status(), &RunMover::Counters::imports);
  return outcome;
}

Result<ImportOutcome> ImportImpl::End() {
  FS_RETURN_IF_ERROR(reader_.Finish());
  FS_ASSIGN_OR_RETURN(const store::RunImport::Outcome stored, import_->Finish());
  ImportOutcome outcome{run_, reader_.counts().attempts, reader_.counts().processes, stored.added,
                        stored.known};
  for (store::MetaEntry& note : server_notes_) {
    const bool silence = note.kind == "silence";
    if (!silence && note.kind != "audit") continue;  // of a later version
    FS_ASSIGN_OR_RETURN(const bool added, silence ? mover_.options().silences->Adopt(run_, note)
                                                  : mover_.options().audit->Adopt(run_, std::move(note)));
    ++(added ? outcome.added : outcome.known).notes;
  }
  return outcome;
}

}  // namespace

std::unique_ptr<RunMover> RunMover::Create(const MoveOptions& options) {
  return std::make_unique<MoverImpl>(options);
}

}  // namespace foreshock::move
