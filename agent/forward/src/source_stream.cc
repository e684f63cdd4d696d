#include "source_stream.h"

#include <algorithm>

#include "foreshock/base/logging.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/reply.h"

namespace foreshock::agent {
namespace {

// How soon a sender that waits for records notices that its stream broke or its Hello changed.
constexpr std::chrono::milliseconds kTick{200};
constexpr std::chrono::seconds kGoodbyeWait{2};
// A stream that lived this long was a success, even if it had nothing to send.
constexpr int64_t kLongLifeNs = 5'000'000'000;

// An answer to a Hello that stays the same when it is asked again soon.
bool IsRefusal(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kPermissionDenied:
    case Code::kResourceExhausted:
    case Code::kFailedPrecondition:
    case Code::kAlreadyExists:
    case Code::kOutOfRange:
    case Code::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace

SourceStream::SourceStream(Spool& spool, std::shared_ptr<rpc::Channel> channel,
                           const ForwarderOptions& options, SourceKey key, ServerState& state,
                           const Forwarder::Downlink& downlink, uint64_t seed)
    : spool_(spool),
      channel_(std::move(channel)),
      options_(options),
      key_(std::move(key)),
      state_(state),
      downlink_(downlink),
      backoff_(std::chrono::milliseconds(options.backoff_initial_ms),
               std::chrono::milliseconds(options.backoff_max_ms), seed),
      thread_([this] { Run(); }) {}

SourceStream::~SourceStream() {
  Stop();
  thread_.join();
}

void SourceStream::Stop() {
  std::lock_guard lock(mutex_);
  stopping_.store(true);
  if (stream_ != nullptr) stream_->Cancel();
  changed_.notify_all();
}

void SourceStream::Run() {
  for (;;) {
    progressed_.store(false);
    const int64_t begun_ns = options_.clock->MonotonicNanos();
    const End end = RunOnce();
    if (end != End::kBroken || stopping_.load()) break;
    if (progressed_.load() || options_.clock->MonotonicNanos() - begun_ns > kLongLifeNs) backoff_.Reset();
    if (!WaitBeforeRetry()) break;
  }
  finished_.store(true);
  spool_.Wake();  // the manager may start another
}

SourceStream::End SourceStream::RunOnce() {
  const auto source = spool_.Find(key_);
  if (!source.has_value()) return End::kGone;
  auto opened = Open();
  if (!opened.ok()) {
    if (!stopping_.load()) state_.Failed(key_, opened.status());
    // The connection paces its attempts itself, for all sources: a wait of our own on top would only add up.
    if (opened.status().code() == Code::kUnavailable) backoff_.Reset();
    return End::kBroken;
  }
  rpc::IngestStream& stream = **opened;
  {
    std::lock_guard lock(mutex_);
    stream_ = &stream;
    greeted_ = broken_ = false;
    broken_status_ = OkStatus();
    acked_seq_ = std::max(acked_seq_, source->acked_seq);
    if (stopping_.load()) stream.Cancel();
  }
  error_logged_.store(false);
  std::thread reader([this, &stream] { ReadReplies(stream); });
  End end = End::kBroken;
  Status status = Greet(stream, source->hello);
  if (status.ok()) {
    state_.StreamOpened(key_);
    end = SendRecords(stream, source->hello);
    if (end == End::kGone) SayGoodbye(stream);
    state_.StreamClosed();
  } else {
    Break(status);
  }
  stream.Cancel();
  reader.join();
  bool greeted = false;
  {
    std::lock_guard lock(mutex_);
    stream_ = nullptr;
    status = broken_status_;
    greeted = greeted_;
  }
  if (!greeted && end == End::kBroken && !stopping_.load() && IsRefusal(status.code())) {
    refused_ = true;
    hello_ = source->hello;
    reason_ = status;
    return End::kRefused;
  }
  if (end == End::kBroken && !stopping_.load()) state_.Failed(key_, status);
  return end;
}

// In short waits, because they cannot be interrupted.
Result<std::unique_ptr<rpc::IngestStream>> SourceStream::Open() {
  const int64_t deadline_ns = options_.clock->MonotonicNanos() + options_.connect_timeout_ms * 1'000'000;
  for (;;) {
    auto opened = rpc::OpenIngestStream(channel_, kTick, key_.run);
    // Other trouble than a missing connection comes at once and would be the same again.
    const bool waits = !opened.ok() && opened.status().code() == Code::kUnavailable;
    if (!waits || stopping_.load() || options_.clock->MonotonicNanos() >= deadline_ns) return opened;
  }
}

// Says Hello and waits for the server's answer, which says where to begin.
Status SourceStream::Greet(rpc::IngestStream& stream, const std::string& hello) {
  // After a failed write the reader has the server's reason, if it gave one.
  const Status written = stream.Write(wire::RecordType::kHello, hello);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(options_.greet_timeout_ms),
                    [this] { return greeted_ || broken_ || stopping_.load(); });
  if (greeted_) return OkStatus();
  if (broken_) return broken_status_;
  FS_RETURN_IF_ERROR(written);
  return Status(Code::kUnavailable,
                "no answer to Hello within " + std::to_string(options_.greet_timeout_ms) + " ms");
}

void SourceStream::SayGoodbye(rpc::IngestStream& stream) {
  if (!stream.WritesDone().ok()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kGoodbyeWait, [this] { return broken_ || stopping_.load(); });
}

SourceStream::End SourceStream::SendRecords(rpc::IngestStream& stream, const std::string& hello) {
  uint64_t after = 0;
  {
    std::lock_guard lock(mutex_);
    after = acked_seq_;
    given_up_.clear();  // read again, and given up again
    // What was given up behind the server's position must be declared by the next record, in this stream too.
    lost_some_ = given_up_through_ > server_seq_;
    last_sent_seq_ = lost_some_ ? server_seq_ : after;
  }
  const auto reader = spool_.Read(key_, after);
  for (;;) {
    SpoolRecord record;
    const auto next = reader->Next(&record, kTick);
    {
      std::lock_guard lock(mutex_);
      if (stopping_.load()) return End::kStopped;
      if (broken_) return End::kBroken;
    }
    if (!next.ok() && next.status().code() == Code::kNotFound) return End::kGone;
    if (!next.ok()) {
      Break(next.status().Annotate("spool"));
      return End::kBroken;
    }
    if (!*next) {
      // A trainer that connected again may have said something new about itself.
      const auto source = spool_.Find(key_);
      if (!source.has_value() || source->hello == hello) continue;
      Break(Status(Code::kUnavailable, "the trainer has a new Hello"));
      return End::kBroken;
    }
    const Status sent = SendRecord(stream, std::move(record));
    if (!sent.ok()) {
      Break(sent);
      return stopping_.load() ? End::kStopped : End::kBroken;
    }
  }
}

Status SourceStream::SendRecord(rpc::IngestStream& stream, SpoolRecord record) {
  if (record.lost_before > 0) {
    LogError(kForwardComponent, "the spool has lost records to corruption",
             {{"source", key_.ToString()}, {"records", record.lost_before}, {"before_seq", record.seq}});
    lost_some_ = true;
  }
  if (TooLong(record)) {
    lost_some_ = true;
    GiveUp(record.seq);
    return OkStatus();
  }
  // What is missing here may have declared gaps of its own: the numbers alone say how much the server lacks.
  if (lost_some_) {
    record.payload = wire::WithDroppedBefore(std::move(record.payload), record.seq - last_sent_seq_ - 1);
    lost_some_ = false;
  }
  last_sent_seq_ = record.seq;
  FS_RETURN_IF_ERROR(stream.Write(static_cast<wire::RecordType>(record.type), record.payload));
  state_.CountSent();
  return OkStatus();
}

// Where no record follows that would carry the spool's acknowledgement past it, it is acknowledged by itself.
void SourceStream::GiveUp(uint64_t seq) {
  {
    std::lock_guard lock(mutex_);
    given_up_.push_back({last_sent_seq_, seq});
    given_up_through_ = std::max(given_up_through_, seq);
  }
  AcknowledgeGivenUp();
}

void SourceStream::AcknowledgeGivenUp() {
  uint64_t seq = 0;
  {
    std::lock_guard lock(mutex_);
    while (!given_up_.empty() && given_up_.front().sent_before <= acked_seq_) {
      seq = given_up_.front().seq;
      acked_seq_ = std::max(acked_seq_, seq);
      given_up_.pop_front();
    }
  }
  if (seq > 0) spool_.Acknowledge(key_, seq);
}

// A record that the server can never take must not hold up those behind it: it is left out and declared lost.
bool SourceStream::TooLong(const SpoolRecord& record) {
  uint64_t limit = 0;
  {
    std::lock_guard lock(mutex_);
    limit = max_message_bytes_;
  }
  const uint64_t bytes = record.payload.size() + wire::kRecordOverhead;
  if (limit == 0 || bytes <= limit) return false;
  LogError(kForwardComponent, "record is longer than the server takes, left out",
           {{"source", key_.ToString()}, {"seq", record.seq}, {"bytes", bytes}, {"limit", limit}});
  state_.CountUndeliverable();
  return true;
}

void SourceStream::ReadReplies(rpc::IngestStream& stream) {
  for (;;) {
    auto reply = stream.Read();
    if (!reply.ok()) return Break(reply.status());
    if (!reply->has_value()) return Break(Status(Code::kUnavailable, "the server closed the stream"));
    TakeReply(**reply);
  }
}

void SourceStream::TakeReply(const wire::Reply& reply) {
  if (reply.time_unix_ns != 0) state_.SawServerClock(static_cast<int64_t>(reply.time_unix_ns));
  uint64_t durable = reply.durable_seq;
  if (reply.hello.has_value()) durable = std::max(durable, reply.hello->durable_seq);
  uint64_t progress = 0;
  {
    std::lock_guard lock(mutex_);
    if (durable > acked_seq_) {
      progress = durable - acked_seq_;
      acked_seq_ = durable;
    }
    if (reply.hello.has_value()) {
      greeted_ = true;
      server_seq_ = durable;
      max_message_bytes_ = reply.hello->max_message_bytes;
    }
    changed_.notify_all();
  }
  if (progress > 0) {
    state_.CountAcknowledged(progress);
    progressed_.store(true);
    spool_.Acknowledge(key_, durable);
    AcknowledgeGivenUp();
  }
  if (reply.error.has_value()) state_.ErrorReply(key_, *reply.error, !error_logged_.exchange(true));
  if (wire::ForTrainer(reply)) downlink_(key_, reply);
}

void SourceStream::Break(const Status& status) {
  std::lock_guard lock(mutex_);
  if (!broken_) broken_status_ = status;
  broken_ = true;
  changed_.notify_all();
}

bool SourceStream::WaitBeforeRetry() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, backoff_.Next(), [this] { return stopping_.load(); });
  return !stopping_.load();
}

}  // namespace foreshock::agent
