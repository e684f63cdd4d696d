#include "ingest_reactor.h"

#include <deque>
#include <mutex>

#include "bytes.h"
#include "foreshock/rpc/call_info.h"
#include "foreshock/rpc/status.h"

namespace foreshock::rpc {
namespace {

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr size_t kMaxQueuedReplies = 1024;

// The writing half of a stream. Handlers keep it; OnDone cuts it off from the reactor.
class Sink final : public ReplySink {
 public:
  explicit Sink(Reactor* reactor) : reactor_(reactor) {}

  bool Send(const wire::Reply& reply) override {
    std::lock_guard lock(mutex_);
    if (reactor_ == nullptr || closing_ || queue_.size() >= kMaxQueuedReplies) return false;
    queue_.push_back(ToByteBuffer(wire::Encode(reply)));
    if (!writing_) StartNext();
    return true;
  }

  void Close(const Status& status) override {
    std::lock_guard lock(mutex_);
    if (reactor_ == nullptr || closing_) return;
    closing_ = true;
    status_ = ToGrpc(status);
    if (!writing_) Finish();
  }

  void WriteDone(bool ok) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) queue_.clear();
    if (!queue_.empty()) {
      StartNext();
    } else if (closing_) {
      Finish();
    }
  }

  // The sender hung up: nothing more can be said.
  void Cancelled() {
    std::lock_guard lock(mutex_);
    queue_.clear();
    if (!closing_) {
      closing_ = true;
      status_ = grpc::Status::CANCELLED;
      if (!writing_) Finish();
    }
  }

  // Starts the next read unless the stream is finishing; then the caller must end its handler itself.
  bool StartRead(grpc::ByteBuffer* buffer) {
    std::lock_guard lock(mutex_);
    if (reactor_ == nullptr || finished_) return false;
    reactor_->StartRead(buffer);
    return true;
  }

  void Detach() {
    std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  void StartNext() {
    current_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    reactor_->StartWrite(&current_);
  }

  void Finish() {
    if (finished_) return;
    finished_ = true;
    reactor_->Finish(status_);
  }

  std::mutex mutex_;
  Reactor* reactor_;
  std::deque<grpc::ByteBuffer> queue_;
  grpc::ByteBuffer current_;
  bool writing_ = false, closing_ = false, finished_ = false;
  grpc::Status status_;
};

class IngestReactor final : public Reactor {
 public:
  IngestReactor(IngestHandlerFactory* factory, const PeerInfo& peer) : sink_(std::make_shared<Sink>(this)) {
    std::lock_guard lock(order_);
    handler_ = factory->NewStream(peer, sink_);
    sink_->StartRead(&incoming_);
  }

 private:
  void OnReadDone(bool ok) override {
    std::lock_guard lock(order_);
    if (!ok) return End();
    auto record = wire::FromIngestRequest(ToString(incoming_));
    if (!record.ok()) {
      sink_->Close(record.status());
      return End();
    }
    handler_->OnRecord(std::move(record).value());
    if (!sink_->StartRead(&incoming_)) End();
  }

  void OnWriteDone(bool ok) override { sink_->WriteDone(ok); }
  void OnCancel() override { sink_->Cancelled(); }

  void OnDone() override {
    { std::lock_guard lock(order_); }
    sink_->Detach();
    delete this;
  }

  void End() {
    if (handler_ == nullptr) return;
    handler_->OnEnd();
    handler_.reset();
  }

  // gRPC makes one of these calls at a time, so this never waits; it makes their order visible to
  // ThreadSanitizer, which does not see gRPC's own locks.
  std::mutex order_;
  std::shared_ptr<Sink> sink_;
  std::unique_ptr<IngestHandler> handler_;
  grpc::ByteBuffer incoming_;
};

}  // namespace

Reactor* RawIngestService::Stream(grpc::CallbackServerContext* context) {
  return new IngestReactor(factory_, PeerOf(*context));
}

}  // namespace foreshock::rpc
