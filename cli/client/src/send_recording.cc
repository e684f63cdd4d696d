#include "send_recording.h"

#include <algorithm>
#include <span>

namespace foreshock::cli {
namespace {

// Frames on their way that are not durable yet: enough to keep the server's commits full, few enough that
// nothing waits for flow control.
constexpr uint64_t kMostOnTheWay = 1024;

// One process's stream.
class Sending {
 public:
  explicit Sending(std::unique_ptr<rpc::IngestStream> stream) : stream_(std::move(stream)) {}

  // Waits for the server's word on the Hello.
  Status Begin(const wire::Hello& hello) {
    FS_RETURN_IF_ERROR(stream_->Write(wire::RecordType::kHello, wire::Encode(hello)));
    while (!greeted_) FS_RETURN_IF_ERROR(Listen());
    return OkStatus();
  }

  Status Send(wire::RecordType type, uint64_t seq, const std::string& payload) {
    if (seq <= durable_) return OkStatus();  // it has come before
    while (seq > durable_ + kMostOnTheWay) FS_RETURN_IF_ERROR(Listen());
    return stream_->Write(type, payload);
  }

  Status Finish(uint64_t last_seq) {
    while (durable_ < last_seq) FS_RETURN_IF_ERROR(Listen());
    return stream_->WritesDone();
  }

 private:
  Status Listen() {
    FS_ASSIGN_OR_RETURN(const std::optional<wire::Reply> reply, stream_->Read());
    if (!reply) return Status(Code::kUnavailable, "the server closed the stream before all was durable");
    if (reply->error) {
      const wire::IngestError& error = *reply->error;
      const std::string field = error.field.empty() ? "" : error.field + ": " + error.value + ": ";
      if (error.final) return Status(Code::kInvalidArgument, field + error.message);
    }
    if (reply->hello) {
      greeted_ = true;
      durable_ = std::max(durable_, reply->hello->durable_seq);
    }
    durable_ = std::max(durable_, reply->durable_seq);
    return OkStatus();
  }

  std::unique_ptr<rpc::IngestStream> stream_;
  bool greeted_ = false;
  uint64_t durable_ = 0;
};

// `items` begin with a Hello and hold no other.
Status SendProcess(const std::shared_ptr<rpc::Channel>& channel, std::chrono::milliseconds connect_timeout,
                   std::span<const wire::RecordingItem> items) {
  const auto& hello = std::get<wire::Hello>(items.front());
  FS_ASSIGN_OR_RETURN(auto stream, rpc::OpenIngestStream(channel, connect_timeout, hello.run));
  Sending sending(std::move(stream));
  FS_RETURN_IF_ERROR(sending.Begin(hello));
  wire::Goodbye goodbye;
  goodbye.seq = 1;
  goodbye.status = wire::GoodbyeStatus::kFinished;
  goodbye.detail = "imported";
  for (const wire::RecordingItem& item : items.subspan(1)) {
    const auto* frame = std::get_if<wire::Frame>(&item);
    if (frame == nullptr) continue;
    FS_RETURN_IF_ERROR(sending.Send(wire::RecordType::kFrame, frame->seq, wire::Encode(*frame)));
    goodbye.seq = frame->seq + 1;
    goodbye.step = frame->step;
    goodbye.time_unix_ns = frame->time_unix_ns;
  }
  FS_RETURN_IF_ERROR(sending.Send(wire::RecordType::kGoodbye, goodbye.seq, wire::Encode(goodbye)));
  return sending.Finish(goodbye.seq);
}

}  // namespace

Status SendRecordingTo(const std::shared_ptr<rpc::Channel>& channel,
                       std::chrono::milliseconds connect_timeout,
                       const std::vector<wire::RecordingItem>& items) {
  for (size_t begin = 0; begin < items.size();) {
    if (!std::holds_alternative<wire::Hello>(items[begin])) {
      return Status(Code::kInvalidArgument, "recording: does not begin with a Hello");
    }
    size_t end = begin + 1;
    while (end < items.size() && !std::holds_alternative<wire::Hello>(items[end])) ++end;
    FS_RETURN_IF_ERROR(SendProcess(channel, connect_timeout, std::span(items).subspan(begin, end - begin)));
    begin = end;
  }
  return OkStatus();
}

}  // namespace foreshock::cli
