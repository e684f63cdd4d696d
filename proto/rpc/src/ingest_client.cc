#include "foreshock/rpc/ingest_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "bytes.h"
#include "foreshock/base/percent.h"
#include "foreshock/rpc/grpc_channel.h"
#include "foreshock/rpc/status.h"

namespace foreshock::rpc {
namespace {

constexpr char kMethod[] = "/foreshock.v1.Ingest/Stream";
constexpr char kRunHeader[] = "foreshock-run";
constexpr size_t kMaxReplies = 4096;

// The reactor of one call. Callbacks come on gRPC's threads; callers block on the condition variable. A hold
// keeps OnDone away while operations may still be started from outside.
class StreamImpl final : public IngestStream,
                         private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamImpl(const std::shared_ptr<Channel>& channel, const std::string& token, std::string_view run)
      : channel_(channel), stub_(GrpcChannel(*channel)) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    if (!run.empty()) context_.AddMetadata(kRunHeader, HeaderOfRun(run));
    stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  ~StreamImpl() override {
    Cancel();
    std::unique_lock lock(mutex_);
    ReleaseHold();
    changed_.wait(lock, [&] { return done_; });
  }

  Status Write(wire::RecordType type, std::string_view payload) override {
    std::unique_lock lock(mutex_);
    if (closing_) return EndStatus(lock);
    outgoing_ = ToByteBuffer(wire::ToIngestRequest(type, payload));
    writing_ = true;
    StartWrite(&outgoing_);
    changed_.wait(lock, [&] { return !writing_; });
    return write_ok_ ? OkStatus() : EndStatus(lock);
  }

  Status WritesDone() override {
    std::unique_lock lock(mutex_);
    if (closing_) return EndStatus(lock);
    writing_ = true;
    StartWritesDone();
    changed_.wait(lock, [&] { return !writing_; });
    return write_ok_ ? OkStatus() : EndStatus(lock);
  }

  Result<std::optional<wire::Reply>> Read() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !replies_.empty() || done_ || closing_; });
    if (!replies_.empty()) {
      auto reply = std::move(replies_.front());
      replies_.pop_front();
      if (read_paused_) {
        read_paused_ = false;
        StartRead(&incoming_);
      }
      if (!reply.ok()) return reply.status();
      return std::optional<wire::Reply>(std::move(reply).value());
    }
    const Status status = EndStatus(lock);
    if (status.ok()) return std::optional<wire::Reply>();
    return status;
  }

  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    std::lock_guard lock(mutex_);
    if (!ok) {
      closing_ = true;
      ReleaseHold();
    } else {
      replies_.push_back(wire::DecodeReply(ToString(incoming_)));
      if (replies_.size() < kMaxReplies) {
        StartRead(&incoming_);
      } else {
        read_paused_ = true;  // Read() goes on
      }
    }
    changed_.notify_all();
  }

  void OnWriteDone(bool ok) override { FinishWrite(ok); }
  void OnWritesDoneDone(bool ok) override { FinishWrite(ok); }

  void FinishWrite(bool ok) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    write_ok_ = ok;
    changed_.notify_all();
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    status_ = FromGrpc(status);
    closing_ = true;
    done_ = true;
    changed_.notify_all();
  }

  // Waits for the call's end, which a failed operation announces, and tells how it ended.
  Status EndStatus(std::unique_lock<std::mutex>& lock) {
    closing_ = true;
    ReleaseHold();
    changed_.wait(lock, [&] { return done_; });
    return status_;
  }

  void ReleaseHold() {
    if (held_) RemoveHold();
    held_ = false;
  }

  std::shared_ptr<Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All below are guarded by mutex_.
  grpc::ByteBuffer incoming_, outgoing_;
  std::deque<Result<wire::Reply>> replies_;
  bool held_ = true, closing_ = false, done_ = false, writing_ = false, write_ok_ = false,
       read_paused_ = false;
  Status status_;
};

// Until the channel is connected. A reason that another try would not mend ends it at once.
Status AwaitConnection(const Channel& channel, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::system_clock::now() + timeout;
  for (;;) {
    const std::shared_ptr<grpc::Channel> connection = GrpcChannel(channel);
    const grpc_connectivity_state state = connection->GetState(true);
    if (state == GRPC_CHANNEL_READY) return OkStatus();
    Status why;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) why = channel.Diagnose();
    const bool may_pass = why.code() == Code::kUnavailable || why.code() == Code::kResourceExhausted;
    if (!why.ok() && !may_pass) return why;
    if (GrpcChannel(channel) != connection) continue;  // the diagnosis has begun another
    if (connection->WaitForStateChange(state, deadline)) continue;
    if (!why.ok()) return Status(Code::kUnavailable, why.message());
    return Status(Code::kUnavailable, "no connection to " + channel.options().address + " within " +
                                          std::to_string(timeout.count()) + " ms");
  }
}

}  // namespace

Result<std::unique_ptr<IngestStream>> OpenIngestStream(const std::shared_ptr<Channel>& channel,
                                                       std::chrono::milliseconds connect_timeout,
                                                       std::string_view run) {
  FS_RETURN_IF_ERROR(AwaitConnection(*channel, connect_timeout));
  FS_ASSIGN_OR_RETURN(const std::string token, channel->Token());
  return std::unique_ptr<IngestStream>(std::make_unique<StreamImpl>(channel, token, run));
}

std::string HeaderOfRun(std::string_view run) { return PercentEncode(run, "/"); }

}  // namespace foreshock::rpc
