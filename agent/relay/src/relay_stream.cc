#include "relay_stream.h"

#include <algorithm>
#include <vector>

#include "foreshock/base/logging.h"
#include "foreshock/wire/check.h"
#include "foreshock/wire/codec.h"

namespace foreshock::agent {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr std::chrono::milliseconds kRetry{100};
constexpr uint32_t kInvalidArgumentOnWire = 3;  // gRPC's number

}  // namespace

RelayStream::RelayStream(Spool& spool, RelayHub& hub, const RelayOptions& options, std::string peer,
                         std::shared_ptr<rpc::ReplySink> sink)
    : spool_(spool), hub_(hub), options_(options), peer_(std::move(peer)), sink_(std::move(sink)) {
  if (++hub_.counters.streams > options_.max_streams) {
    Refuse(
        Status(Code::kResourceExhausted,
               "streams: " + std::to_string(options_.max_streams) + " are open, the limit of this relay"));
  } else {
    ++hub_.counters.accepted;
  }
}

RelayStream::~RelayStream() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (greeted_) {
    hub_.Left(key_, sink_);
    spool_.CloseSource(key_);
  }
  --hub_.counters.streams;
}

void RelayStream::Refuse(const Status& status) {
  ++hub_.counters.refused;
  LogWarning(kRelayComponent, "refused a stream", {{"peer", peer_}, {"error", status}});
  closed_ = true;
  sink_->Close(status);
}

void RelayStream::Stall(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  ++hub_.counters.stalled;
  sink_->Close(Status(Code::kUnavailable, "the relay cannot take records at present: " + why));
}

void RelayStream::OnRecord(wire::Record record) {
  if (closed_) return;
  if (record.type == wire::RecordType::kHello) return OnHello(record.payload);
  if (!greeted_) return Refuse(Status(Code::kInvalidArgument, "hello: missing, a stream begins with one"));
  const auto head = wire::PeekHead(record.payload);
  const Status fault = head.ok() ? wire::CheckSeq(head->seq) : head.status();
  if (!fault.ok()) return Reject(fault, head.ok() ? head->seq : 0);
  const size_t bytes = record.payload.size();
  {
    std::unique_lock lock(mutex_);
    const auto room = [&] { return queued_bytes_ == 0 || queued_bytes_ + bytes <= options_.queue_bytes; };
    changed_.wait_for(lock, std::chrono::milliseconds(options_.max_wait_ms),
                      [&] { return failed_ || ended_ || room(); });
    if (failed_ || ended_) return;
    if (room()) {
      queued_bytes_ += bytes;
      queue_.push_back({head->seq, std::move(record)});
      changed_.notify_all();
      return;
    }
  }
  closed_ = true;
  Stall("its disk is too slow");
}

void RelayStream::OnEnd() {
  closed_ = true;
  std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) sink_->Close(OkStatus());
}

void RelayStream::OnHello(const std::string& payload) {
  if (greeted_) return Refuse(Status(Code::kInvalidArgument, "hello: a second one on the same stream"));
  auto hello = wire::DecodeHello(payload);
  Status status = hello.status();
  if (status.ok()) status = wire::CheckHello(*hello);
  if (status.ok() && hello->attempt.empty()) {
    status = Status(Code::kInvalidArgument,
                    "attempt: empty; a relay takes the streams of agents, which give one");
  }
  if (!status.ok()) return Refuse(status);
  key_ = {hello->run, hello->attempt, hello->rank, hello->incarnation};
  const auto durable = spool_.OpenSource(key_, payload);
  if (!durable.ok()) return Refuse(durable.status());
  greeted_ = true;
  wire::Reply reply;
  reply.durable_seq = *durable;
  reply.time_unix_ns = static_cast<uint64_t>(options_.clock->WallNanos());
  reply.hello =
      wire::HelloAck{hello->attempt, hello->attempt_source, *durable, options_.max_message_bytes};
  hub_.Joined(key_, sink_, reply);
  LogInfo(kRelayComponent, "source joined",
          {{"source", key_.ToString()}, {"peer", peer_}, {"durable_seq", *durable}});
  thread_ = std::thread([this] { Run(); });
}

void RelayStream::Reject(const Status& status, uint64_t seq) {
  ++hub_.counters.rejected;
  wire::Reply reply;
  wire::IngestError error;
  error.code = kInvalidArgumentOnWire;
  error.message = status.message();
  error.seq = seq;
  error.final = true;
  reply.error = std::move(error);
  (void)sink_->Send(reply);
}

void RelayStream::Run() {
  for (;;) {
    std::deque<Item> batch = TakeBatch();
    if (batch.empty()) break;
    if (!Append(std::move(batch))) return;
  }
  sink_->Close(OkStatus());
}

// Waits for records; empty at the end.
std::deque<RelayStream::Item> RelayStream::TakeBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || failed_ || !queue_.empty(); });
  std::deque<Item> batch;
  size_t bytes = 0;
  while (!failed_ && !queue_.empty() && bytes < kBatchBytes) {
    bytes += queue_.front().record.payload.size();
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_bytes_ -= bytes;
  changed_.notify_all();
  return batch;
}

bool RelayStream::Append(std::deque<Item> batch) {
  const int64_t until_ns = options_.clock->MonotonicNanos() + options_.max_wait_ms * 1'000'000;
  size_t count = batch.size();
  while (!batch.empty()) {
    count = std::min(count, batch.size());
    const Status status = AppendFront(batch, count);
    if (status.ok()) {
      batch.erase(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
    } else if (status.code() == Code::kInvalidArgument && count > 1) {
      count = 1;  // find the one that can never be taken
    } else if (status.code() == Code::kInvalidArgument) {
      Reject(status, batch.front().seq);
      batch.pop_front();
    } else if (hub_.stopping || options_.clock->MonotonicNanos() >= until_ns) {
      Stall(status.message());
      return false;
    } else {
      spool_.WaitForSpace(kRetry);
    }
  }
  return true;
}

Status RelayStream::AppendFront(const std::deque<Item>& batch, size_t count) {
  std::vector<SpoolItem> items;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string& payload = batch[i].record.payload;
    items.push_back({batch[i].seq, static_cast<uint8_t>(batch[i].record.type), payload});
    bytes += payload.size();
  }
  FS_RETURN_IF_ERROR(spool_.Append(key_, items));
  hub_.counters.records += count;
  hub_.counters.bytes += bytes;
  wire::Reply reply;
  reply.durable_seq = items.back().seq;
  reply.time_unix_ns = static_cast<uint64_t>(options_.clock->WallNanos());
  // A full reply queue loses nothing: the next acknowledgement says it again.
  (void)sink_->Send(reply);
  return OkStatus();
}

}  // namespace foreshock::agent
