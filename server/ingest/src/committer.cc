#include "committer.h"

#include <algorithm>
#include <map>

#include "foreshock/base/logging.h"
#include "foreshock/server/store/parts.h"

namespace foreshock::ingest {
namespace {

constexpr size_t kRecordOverhead = 512;  // what a queued record costs beside its payload, roughly

// The decoded frame is held beside the payload, and is the larger of the two.
size_t CostOf(const store::Append& append) {
  return append.payload.size() + kRecordOverhead + append.frame_bytes;
}

uint64_t ValuesIn(const store::Append& append) {
  uint64_t values = 0;
  if (append.frame != nullptr) {
    for (const wire::Series& series : append.frame->series) values += series.values.size();
  }
  return values;
}

}  // namespace

Committer::Committer(store::Store& store, const Clock& clock, const IngestOptions& options,
                     Counters& counters)
    : store_(store),
      clock_(clock),
      options_(options),
      counters_(counters),
      shares_(options.max_queued_bytes),
      thread_([this] { Run(); }) {}

Committer::~Committer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  not_empty_.notify_all();
  not_full_.notify_all();
  stop_.notify_all();
  thread_.join();
}

Status Committer::Push(QueuedRecord record) {
  // Here and not in the thread that commits: this one has just made the frame, and it is near.
  if (record.append.frame != nullptr) record.append.frame_bytes = store::MemoryOf(*record.append.frame);
  record.values = ValuesIn(record.append);
  const size_t cost = record.cost = CostOf(record.append);
  std::unique_lock lock(mutex_);
  const uint32_t run = record.append.source.run;
  const auto has_room = [&] { return shares_.RoomOf(run, cost) == Room::kFree; };
  if (!has_room() && health_.ok()) {
    if (shares_.RoomOf(run, cost) == Room::kShare) ++counters_.share_waits;
    not_full_.wait_for(lock, options_.max_wait_for_room,
                       [&] { return stopping_ || !health_.ok() || has_room(); });
  }
  if (stopping_) return Status(Code::kUnavailable, "the server is stopping");
  if (!has_room()) {
    ++counters_.overloads;
    return Status(Code::kUnavailable,
                  health_.ok() ? "the disk is too slow: " + std::to_string(shares_.bytes()) +
                                     " bytes wait, at most " + std::to_string(options_.max_queued_bytes)
                               : "cannot store at present: " + health_.message());
  }
  record.end->Queued();
  shares_.Add(run, cost);
  queue_.push_back(std::move(record));
  not_empty_.notify_one();
  return OkStatus();
}

Status Committer::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

uint64_t Committer::queued_bytes() const {
  std::lock_guard lock(mutex_);
  return shares_.bytes();
}

// Waits for records; empty when stopping and drained.
std::vector<QueuedRecord> Committer::TakeBatch() {
  std::unique_lock lock(mutex_);
  not_empty_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  std::vector<QueuedRecord> batch;
  size_t bytes = 0;
  while (!queue_.empty() && (batch.empty() || bytes < options_.max_batch_bytes)) {
    bytes += queue_.front().append.payload.size();
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void Committer::Run() {
  for (;;) {
    std::vector<QueuedRecord> batch = TakeBatch();
    if (batch.empty()) return;
    while (!Commit(batch)) {
      std::unique_lock lock(mutex_);
      if (stop_.wait_for(lock, options_.retry, [this] { return stopping_; })) return;
    }
    std::lock_guard lock(mutex_);
    for (const QueuedRecord& record : batch) shares_.Remove(record.append.source.run, record.cost);
    not_full_.notify_all();
  }
}

bool Committer::Commit(std::vector<QueuedRecord>& batch) {
  std::vector<store::Append> appends;
  appends.reserve(batch.size());
  for (QueuedRecord& record : batch) appends.push_back(std::move(record.append));
  const auto outcomes = store_.AppendRecords(appends);
  for (size_t i = 0; i < batch.size(); ++i) batch[i].append = std::move(appends[i]);
  SetHealth(outcomes.status());
  ++(outcomes.ok() ? counters_.commits : counters_.failed_commits);
  if (outcomes.ok()) Acknowledge(batch, *outcomes);
  return outcomes.ok();
}

void Committer::Acknowledge(std::vector<QueuedRecord>& batch,
                            const std::vector<store::AppendOutcome>& outcomes) {
  struct Ack {
    uint64_t seq = 0, records = 0;
  };
  std::map<std::shared_ptr<StreamEnd>, Ack> acks;
  for (size_t i = 0; i < batch.size(); ++i) {
    const store::Append& append = batch[i].append;
    switch (outcomes[i]) {
      case store::AppendOutcome::kStored:
        ++counters_.records;
        counters_.bytes += append.payload.size();
        counters_.values += batch[i].values;
        break;
      case store::AppendOutcome::kDuplicate:
        ++counters_.duplicates;
        break;
      case store::AppendOutcome::kQuarantined:
        ++counters_.quarantined;
        break;
      case store::AppendOutcome::kNoSource:
        batch[i].end->Close(Status(Code::kNotFound, "run: deleted while it was sending"));
        continue;
    }
    Ack& ack = acks[batch[i].end];
    ack.seq = std::max(ack.seq, append.head.seq);
    ++ack.records;
  }
  const int64_t now = clock_.WallNanos();
  for (const auto& [end, ack] : acks) end->Acknowledge(ack.seq, ack.records, now);
}

void Committer::SetHealth(const Status& status) {
  std::lock_guard lock(mutex_);
  if (status.ok() != health_.ok()) {
    if (status.ok()) {
      LogInfo("server/ingest", "the store writes again");
    } else {
      LogError("server/ingest", "cannot store; nothing is acknowledged until this is over",
               {{"error", status}});
    }
  }
  health_ = status;
  not_full_.notify_all();
}

}  // namespace foreshock::ingest
