#include "foreshock/sdk/grpc_stream_link.h"

#include <pthread.h>
#include <signal.h>

#include "foreshock/sdk/grpc_target.h"
#include "foreshock/wire/codec.h"

namespace foreshock::sdk {

GrpcStreamLink::GrpcStreamLink(std::string target, std::string token, std::string hello)
    : target_(std::move(target)), token_(std::move(token)), hello_(std::move(hello)) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  writer_ = std::thread([this] { Write(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

GrpcStreamLink::~GrpcStreamLink() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
  }
  wake_.notify_all();
  writer_.join();
}

Status GrpcStreamLink::Send(wire::RecordType type, std::string payload) {
  std::lock_guard lock(mutex_);
  if (ended_) return why_;
  if (waiting_bytes_ >= kMaxWaitingBytes) return Status(Code::kResourceExhausted, "the server reads slowly");
  waiting_bytes_ += payload.size();
  waiting_.push_back({type, std::move(payload)});
  writing_ = true;
  wake_.notify_all();
  return OkStatus();
}

Status GrpcStreamLink::Poll(std::vector<std::string>* replies) {
  std::lock_guard lock(mutex_);
  for (std::string& reply : replies_) replies->push_back(std::move(reply));
  replies_.clear();
  return ended_ ? why_ : OkStatus();
}

bool GrpcStreamLink::Drained() const {
  std::lock_guard lock(mutex_);
  return ended_ || !writing_;
}

void GrpcStreamLink::End(const Status& why) {
  std::lock_guard lock(mutex_);
  if (!ended_) why_ = why.ok() ? Status(Code::kUnavailable, "the server ended the stream") : why;
  ended_ = true;
  wake_.notify_all();
}

bool GrpcStreamLink::NextRecord(Record* record) {
  std::unique_lock lock(mutex_);
  writing_ = !waiting_.empty();
  wake_.wait(lock, [this] { return stopping_ || ended_ || !waiting_.empty(); });
  if (stopping_ || ended_) return false;
  writing_ = true;
  *record = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= record->payload.size();
  return true;
}

void GrpcStreamLink::Write() {
  auto target = ParseGrpcTarget(target_);
  if (!target.ok()) return End(target.status());
  FillFromEnvironment(&*target);
  rpc::ChannelOptions options;
  options.address = target->host_port;
  options.token = token_;
  options.token_file = target->token_file;
  options.ca_file = target->ca_file;
  options.cert_file = target->cert_file;
  options.key_file = target->key_file;
  options.tls = target->tls;
  auto channel = rpc::Channel::Create(options);
  // Files of certificates and tokens may come later: tried again, unlike what a server refuses for good.
  if (!channel.ok()) return End(Status(Code::kUnavailable, channel.status().message()));
  const auto hello = wire::DecodeHello(hello_);
  auto opened = rpc::OpenIngestStream(*channel, kConnectTimeout, hello.ok() ? hello->run : "");
  if (!opened.ok()) return End(opened.status());
  rpc::IngestStream* stream = opened->get();
  {
    std::lock_guard lock(mutex_);
    stream_ = std::move(opened).value();
    if (stopping_) stream_->Cancel();
  }
  std::thread reader([this, stream] { Read(stream); });
  Status status = stream->Write(wire::RecordType::kHello, hello_);
  Record record;
  while (status.ok() && NextRecord(&record)) status = stream->Write(record.type, record.payload);
  // After a failed write the reader has the server's reason, if it gave one.
  stream->Cancel();
  reader.join();
  End(status);
}

void GrpcStreamLink::Read(rpc::IngestStream* stream) {
  for (;;) {
    auto reply = stream->Read();
    if (!reply.ok()) return End(reply.status());
    if (!reply->has_value()) return End(OkStatus());
    std::lock_guard lock(mutex_);
    replies_.push_back(wire::Encode(**reply));
  }
}

}  // namespace foreshock::sdk
