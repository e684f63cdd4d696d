#include "connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "foreshock/base/logging.h"
#include "foreshock/wire/check.h"
#include "foreshock/wire/codec.h"

namespace foreshock::agent {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr size_t kMaxOutgoingBytes = size_t{4} << 20;
constexpr int64_t kForever = -1;
constexpr uint32_t kInvalidArgument = 3;  // gRPC's number, which IngestError carries

}  // namespace

Connection::Connection(Descriptor socket, Spool& spool, Attempts& attempts, ConnectionHub& hub,
                       const ReceiverOptions& options)
    : socket_(std::move(socket)),
      event_(MakeEvent()),
      spool_(spool),
      attempts_(attempts),
      hub_(hub),
      options_(options),
      peer_(CredentialsOf(socket_)),
      parser_(options.max_record_bytes) {}

Connection::~Connection() = default;

void Connection::Run() {
  LogDebug(kReceiveComponent, "trainer connected",
           {{"pid", peer_.pid}, {"uid", peer_.uid}, {"gid", peer_.gid}});
  Serve();
  if (greeted_) {
    hub_.Left(key_, this);
    spool_.CloseSource(key_);
    attempts_.Release(hello_);
    LogInfo(kReceiveComponent, "trainer left",
            {{"source", key_.ToString()}, {"pid", peer_.pid}, {"durable_seq", durable_seq_}});
  }
  if (stalled_since_ns_ != 0) --hub_.counters.stalled;
  if (gone_) hub_.counters.abandoned += batch_.size();
  finished_.store(true);
}

void Connection::Serve() {
  while (!closing_.load()) {
    const bool stalled = stalled_since_ns_ != 0;
    if (!gone_ || stalled) {
      if (!PollOnce(stalled ? options_.retry_ms : kForever)) return;
    }
    if (closing_.load()) return;
    if (stalled && !AppendBatch()) return;
    if (stalled_since_ns_ != 0) continue;
    if (!ReadRecords()) return;
    if (gone_ && batch_.empty()) return;
  }
}

// Waits for bytes, room for replies, or a wake-up. While stalled it does not wait for bytes.
bool Connection::PollOnce(int64_t timeout_ms) {
  pollfd fds[2] = {{socket_.get(), 0, 0}, {event_.get(), POLLIN, 0}};
  const bool stalled = stalled_since_ns_ != 0;
  if (!stalled) fds[0].events |= POLLIN;
  {
    std::lock_guard lock(mutex_);
    if (!outgoing_.empty()) fds[0].events |= POLLOUT;
  }
  // A gone trainer's socket is always ready.
  const nfds_t first = gone_ ? 1 : 0;
  if (::poll(fds + first, 2 - first, static_cast<int>(timeout_ms)) < 0) return errno == EINTR;
  if ((fds[1].revents & POLLIN) != 0) DrainEvent(event_);
  if (stalled && (fds[0].revents & (POLLHUP | POLLERR)) != 0) gone_ = true;
  if (!gone_ && !FlushOutgoing()) gone_ = true;
  return true;
}

// Everything the socket holds, in batches.
bool Connection::ReadRecords() {
  for (;;) {
    incoming_.clear();
    const IoOutcome outcome = ReadSome(socket_, kReadBytes, &incoming_);
    if (outcome == IoOutcome::kClosed) gone_ = true;
    if (outcome == IoOutcome::kOk) parser_.Feed(incoming_);
    for (;;) {
      auto record = parser_.Next();
      if (!record.ok()) {
        ++hub_.counters.damaged;
        LogWarning(kReceiveComponent, "damaged link, closing it",
                   {{"pid", peer_.pid}, {"source", key_.ToString()}, {"error", record.status()}});
        AppendBatch();
        return false;
      }
      if (!record->has_value()) break;
      if (!TakeRecord(std::move(**record))) return false;
      if (batch_bytes_ >= options_.batch_bytes && !AppendBatch()) return false;
      // What the parser still holds is taken when the spool goes on.
      if (stalled_since_ns_ != 0) return true;
    }
    if (outcome != IoOutcome::kOk || closing_.load()) break;
  }
  return AppendBatch();
}

bool Connection::TakeRecord(wire::Record record) {
  if (record.type == wire::RecordType::kHello) return TakeHello(std::move(record.payload));
  if (record.type == wire::RecordType::kReply) return true;  // has no meaning upwards
  if (!greeted_) {
    ++hub_.counters.refused;
    SendError(Status(Code::kInvalidArgument, "record: the first one must be a Hello"), 0, true);
    FlushOutgoing();
    return false;
  }
  TakeData(std::move(record));
  return true;
}

bool Connection::CheckHello(const wire::Hello& hello) {
  Status status = wire::CheckHello(hello);
  if (status.ok() && greeted_ &&
      (hello.run != hello_.run || hello.rank != hello_.rank || hello.incarnation != hello_.incarnation ||
       (!hello.attempt.empty() && hello.attempt != hello_.attempt))) {
    status = Status(Code::kInvalidArgument, "hello: a second one on a link must be of the same process");
  }
  if (status.ok()) return true;
  ++hub_.counters.refused;
  LogWarning(kReceiveComponent, "bad Hello, closing the link", {{"pid", peer_.pid}, {"error", status}});
  SendError(status, 0, true);
  FlushOutgoing();
  return false;
}

bool Connection::TakeHello(std::string payload) {
  auto decoded = wire::DecodeHello(payload);
  if (!decoded.ok()) {
    ++hub_.counters.refused;
    SendError(decoded.status(), 0, true);
    FlushOutgoing();
    return false;
  }
  if (!CheckHello(*decoded)) return false;
  if (greeted_) {
    if (!AppendBatch()) return false;
    decoded->attempt = hello_.attempt;
    decoded->attempt_source = hello_.attempt_source;
    hello_ = std::move(decoded).value();
    const auto reopened = spool_.OpenSource(key_, wire::Encode(hello_));
    spool_.CloseSource(key_);  // one connection, one mark
    if (!reopened.ok()) return false;
  } else {
    hello_ = std::move(decoded).value();
    attempts_.Assign(&hello_);
    key_ = {hello_.run, hello_.attempt, hello_.rank, hello_.incarnation};
    const auto durable = spool_.OpenSource(key_, wire::Encode(hello_));
    if (!durable.ok()) {
      attempts_.Release(hello_);
      return false;
    }
    durable_seq_ = *durable;
    greeted_ = true;
    LogInfo(
        kReceiveComponent, "trainer joined",
        {{"source", key_.ToString()}, {"pid", peer_.pid}, {"uid", peer_.uid}, {"durable_seq", durable_seq_}});
  }
  wire::Reply reply;
  reply.durable_seq = durable_seq_;
  reply.time_unix_ns = static_cast<uint64_t>(options_.clock->WallNanos());
  reply.hello =
      wire::HelloAck{hello_.attempt, hello_.attempt_source, durable_seq_, options_.max_record_bytes};
  Send(reply);
  hub_.Joined(key_, this);
  return true;
}

void Connection::TakeData(wire::Record record) {
  const auto head = wire::PeekHead(record.payload);
  const Status fault = head.ok() ? wire::CheckSeq(head->seq) : head.status();
  if (!fault.ok()) {
    ++hub_.counters.rejected;
    SendError(fault, head.ok() ? head->seq : 0, true);
    return;
  }
  hub_.counters.dropped_by_trainers += std::min(head->dropped_before, head->seq - 1);
  batch_bytes_ += record.payload.size() + wire::kRecordOverhead;
  batch_.push_back({head->seq, std::move(record)});
}

// Appends what was gathered and acknowledges it. True unless the connection should end; afterwards the batch
// is empty, or stalled_since_ns_ is set and it must be tried again.
bool Connection::AppendBatch() {
  if (batch_.empty()) return true;
  size_t count = batch_.size();
  while (!batch_.empty()) {
    count = std::min(count, batch_.size());
    const Status status = AppendFront(count);
    if (status.code() == Code::kInvalidArgument && count > 1) {
      count = 1;  // find the one that can never be taken
    } else if (status.code() == Code::kInvalidArgument) {
      RejectFront(status);
    } else if (!status.ok()) {
      return Stalled(status);
    }
  }
  if (stalled_since_ns_ != 0) {
    --hub_.counters.stalled;
    stalled_since_ns_ = 0;
    LogInfo(kReceiveComponent, "spool takes records again", {{"source", key_.ToString()}});
  }
  batch_bytes_ = 0;
  if (!FlushOutgoing()) gone_ = true;
  return true;
}

Status Connection::AppendFront(size_t count) {
  std::vector<SpoolItem> items;
  items.reserve(count);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({batch_[i].seq, static_cast<uint8_t>(batch_[i].record.type), batch_[i].record.payload});
    bytes += batch_[i].record.payload.size();
  }
  FS_RETURN_IF_ERROR(spool_.Append(key_, items));
  hub_.counters.records += count;
  hub_.counters.bytes += bytes;
  const uint64_t last = items.back().seq;
  batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(count));
  Acknowledge(last);
  return OkStatus();
}

// It is larger than the spool itself: waiting would be for ever.
void Connection::RejectFront(const Status& status) {
  ++hub_.counters.rejected;
  LogWarning(kReceiveComponent, "record refused for good",
             {{"source", key_.ToString()}, {"seq", batch_.front().seq}, {"error", status}});
  SendError(status, batch_.front().seq, true);
  batch_.erase(batch_.begin());
}

bool Connection::Stalled(const Status& status) {
  const int64_t now_ns = options_.clock->MonotonicNanos();
  if (stalled_since_ns_ == 0) {
    stalled_since_ns_ = std::max<int64_t>(now_ns, 1);
    ++hub_.counters.stalled;
    LogWarning(kReceiveComponent, "spool refuses records, not acknowledging until it takes them",
               {{"source", key_.ToString()}, {"error", status}});
  }
  if (!gone_ || now_ns - stalled_since_ns_ < options_.orphan_ms * 1'000'000) return true;
  LogWarning(kReceiveComponent, "trainer is gone and the spool still refuses: its last records are given up",
             {{"source", key_.ToString()}, {"records", batch_.size()}, {"error", status}});
  return false;
}

void Connection::Acknowledge(uint64_t durable_seq) {
  durable_seq_ = std::max(durable_seq_, durable_seq);
  wire::Reply reply;
  reply.durable_seq = durable_seq_;
  reply.time_unix_ns = static_cast<uint64_t>(options_.clock->WallNanos());
  Send(reply);
}

void Connection::SendError(const Status& status, uint64_t seq, bool final) {
  wire::Reply reply;
  reply.durable_seq = durable_seq_;
  wire::IngestError error;
  error.code = kInvalidArgument;
  error.message = status.message();
  error.seq = seq;
  error.final = final;
  reply.error = std::move(error);
  Send(reply);
}

bool Connection::Send(const wire::Reply& reply) {
  {
    std::lock_guard lock(mutex_);
    if (outgoing_.size() > kMaxOutgoingBytes) return false;
    wire::AppendRecord(wire::RecordType::kReply, wire::Encode(reply), &outgoing_);
  }
  SignalEvent(event_);
  return true;
}

// False when the trainer is gone.
bool Connection::FlushOutgoing() {
  std::lock_guard lock(mutex_);
  while (!outgoing_.empty()) {
    size_t written = 0;
    const IoOutcome outcome = WriteSome(socket_, outgoing_, &written);
    outgoing_.erase(0, written);
    if (outcome == IoOutcome::kClosed) return false;
    if (outcome == IoOutcome::kWouldBlock) return true;
  }
  return true;
}

void Connection::Close() {
  closing_.store(true);
  SignalEvent(event_);
}

}  // namespace foreshock::agent
