#include "session.h"

#include <algorithm>
#include <limits>

#include "attempts.h"
#include "foreshock/base/logging.h"
#include "foreshock/wire/check.h"

namespace foreshock::ingest {
namespace {

constexpr uint32_t kInvalidArgumentOnWire = 3;  // gRPC's number

// "step: 17, must be ..." -> "step"
std::string FieldOf(const Status& status) {
  const size_t colon = status.message().find(':');
  return colon == std::string::npos ? "" : status.message().substr(0, colon);
}

template <typename Message>
wire::RecordHead HeadOf(const Message& message) {
  return {message.seq, message.step, message.dropped_before};
}

}  // namespace

Session::Session(Shared& shared, const rpc::PeerInfo& peer, std::shared_ptr<rpc::ReplySink> sink)
    : shared_(shared), end_(std::make_shared<StreamEnd>(std::move(sink))) {
  ++shared_.counters.streams;
  auth::Credentials credentials{peer.token, peer.identity, peer.address};
  if (const Status entered = Enter(credentials); !entered.ok()) {
    Hangup(entered);
  } else {
    watched_ = shared_.watch.Add(std::move(credentials), end_);
  }
}

Session::~Session() {
  shared_.watch.Remove(watched_);
  --shared_.counters.streams;
}

Status Session::Enter(const auth::Credentials& credentials) {
  FS_ASSIGN_OR_RETURN(auth::Caller caller, shared_.gate.Identify(credentials));
  FS_RETURN_IF_ERROR(shared_.gate.Count(caller.MayAtAll(auth::Scope::kWrite)));
  FS_ASSIGN_OR_RETURN(slot_, shared_.slots.Take(caller.name()));
  FS_ASSIGN_OR_RETURN(connection_, shared_.connections.Take(caller.name(), credentials.address));
  caller_ = std::move(caller);
  return OkStatus();
}

void Session::OnRecord(wire::Record record) {
  if (closed_) return;
  if (record.type == wire::RecordType::kHello) return OnHello(std::move(record.payload));
  if (!hello_) {
    return Hangup(Status(Code::kInvalidArgument, "hello: missing, a stream begins with one"));
  }
  OnCounted(std::move(record));
}

void Session::OnEnd() {
  if (hello_) shared_.outbox.Leave(hello_->run, hello_->attempt, end_);
  closed_ = true;
  end_->Ended();
}

void Session::OnHello(std::string payload) {
  Result<wire::Hello> hello = wire::DecodeHello(payload);
  Status status = hello.status();
  if (status.ok() && hello_)
    status = Status(Code::kInvalidArgument, "hello: a second one on the same stream");
  if (status.ok()) {
    if (hello->world_size == 0) hello->world_size = 1;
    status = wire::CheckHello(*hello);
  }
  if (status.ok()) status = OpenSource(std::move(hello).value());
  if (status.ok()) return;
  if (status.code() == Code::kUnavailable) return Hangup(status);
  ++shared_.counters.refused_hellos;
  LogWarning("server/ingest", "refused a stream", {{"caller", caller_->name()}, {"error", status}});
  Hangup(status);
}

Status Session::CheckLimits(const wire::Hello& hello) {
  const IngestOptions& options = shared_.options;
  FS_RETURN_IF_ERROR(CheckHeads(hello.model, options.max_heads_per_run));
  if (shared_.store.GetRun(hello.run).ok()) return OkStatus();
  Status room;
  if (shared_.store.CountRuns() >= options.max_runs) {
    room = Status(Code::kResourceExhausted, "run: the server holds " + std::to_string(options.max_runs) +
                                                " runs, its limit (max_runs)");
  } else {
    room = shared_.new_runs.Take(caller_->name(), shared_.clock.MonotonicNanos());
  }
  if (!room.ok()) ++shared_.counters.refused_runs;
  return room;
}

Status Session::OpenSource(wire::Hello hello) {
  FS_RETURN_IF_ERROR(shared_.gate.Count(caller_->May(auth::Scope::kWrite, hello.run)));
  std::lock_guard lock(shared_.hello_mutex);
  const int64_t now = shared_.clock.WallNanos();
  if (hello.attempt.empty()) MintAttempt(shared_.store, now, &hello);
  FS_RETURN_IF_ERROR(CheckLimits(hello));
  FS_ASSIGN_OR_RETURN(const store::SourceInfo source, shared_.store.OpenSource(hello, now));
  source_ = source.id;
  shape_.emplace(hello.model);
  steps_.emplace(shared_.options.max_step, shared_.options.max_step_jump, source.last_step);
  end_->StartFrom(source.durable_seq);
  wire::Reply reply;
  reply.durable_seq = source.durable_seq;
  reply.time_unix_ns = static_cast<uint64_t>(now);
  reply.hello = wire::HelloAck{.attempt = hello.attempt,
                               .attempt_source = hello.attempt_source,
                               .durable_seq = source.durable_seq,
                               .max_message_bytes = shared_.options.max_message_bytes};
  hello_ = std::move(hello);
  shared_.watch.Greeted(watched_, hello_->run);
  shared_.outbox.Join(hello_->run, hello_->attempt, end_, std::move(reply));
  // Looked at after joining: either CloseStreams sees this stream, or this sees that it was called.
  if (shared_.stopping) return Status(Code::kUnavailable, "the server is stopping");
  return OkStatus();
}

void Session::OnCounted(wire::Record record) {
  store::Append append;
  append.source = source_;
  append.received_unix_ns = shared_.clock.WallNanos();
  const Status filled = Fill(std::move(record), &append);
  if (!filled.ok()) {
    ++shared_.counters.unreadable;
    return Complain(filled, 0);
  }
  if (!append.quarantine.empty()) {
    Complain(Status(Code::kInvalidArgument, append.quarantine), append.head.seq);
  }
  const Status pushed = shared_.committer.Push({std::move(append), end_});
  if (!pushed.ok()) Hangup(pushed);
}

Status Session::Fill(wire::Record record, store::Append* append) {
  append->type = record.type;
  append->payload = std::move(record.payload);
  const auto take = [&](auto decoded, auto* into) -> Status {
    if (!decoded.ok()) {
      // A record whose number can be read is kept, for whoever wants to know what was wrong.
      FS_ASSIGN_OR_RETURN(append->head, wire::PeekHead(append->payload));
      append->quarantine = decoded.status().message();
      return OkStatus();
    }
    append->head = HeadOf(*decoded);
    MeasureSkew(decoded->time_unix_ns, append);
    using Message = std::decay_t<decltype(*decoded)>;
    *into = std::make_shared<const Message>(std::move(decoded).value());
    return OkStatus();
  };
  switch (append->type) {
    case wire::RecordType::kFrame:
      FS_RETURN_IF_ERROR(take(wire::DecodeFrame(append->payload), &append->frame));
      break;
    case wire::RecordType::kEvent:
      FS_RETURN_IF_ERROR(take(wire::DecodeEvent(append->payload), &append->event));
      break;
    case wire::RecordType::kGoodbye:
      FS_RETURN_IF_ERROR(take(wire::DecodeGoodbye(append->payload), &append->goodbye));
      break;
    default:
      // From a newer sender: kept, for whoever will know it, and acknowledged.
      FS_ASSIGN_OR_RETURN(append->head, wire::PeekHead(append->payload));
      append->quarantine =
          "record: type " + std::to_string(static_cast<int>(append->type)) + " is not known to this server";
  }
  FS_RETURN_IF_ERROR(wire::CheckSeq(append->head.seq));
  if (append->frame == nullptr || !append->quarantine.empty()) return OkStatus();
  Status verdict = shape_->Check(*append->frame);
  if (verdict.ok()) verdict = steps_->Check(append->frame->step);
  append->quarantine = verdict.message();
  return OkStatus();
}

// Data may be old (a spool's backlog), never from the future: the largest difference is the best estimate.
void Session::MeasureSkew(uint64_t time_unix_ns, store::Append* append) {
  if (time_unix_ns == 0) return;
  constexpr uint64_t kLatest = std::numeric_limits<int64_t>::max();
  append->sent_unix_ns = static_cast<int64_t>(std::min(time_unix_ns, kLatest));
  const int64_t difference = append->sent_unix_ns - append->received_unix_ns;
  skew_ns_ = std::max(skew_ns_.value_or(difference), difference);
  append->clock_skew_ns = skew_ns_;
}

void Session::Complain(const Status& status, uint64_t seq) {
  wire::Reply reply;
  reply.error = wire::IngestError{.code = kInvalidArgumentOnWire,
                                  .field = FieldOf(status),
                                  .value = {},
                                  .limit = {},
                                  .message = status.message(),
                                  .seq = seq,
                                  .final = true};
  (void)end_->Send(reply);  // the count says it too
}

void Session::Hangup(const Status& status) {
  closed_ = true;
  if (hello_) shared_.outbox.Leave(hello_->run, hello_->attempt, end_);
  end_->Close(status);
}

}  // namespace foreshock::ingest
