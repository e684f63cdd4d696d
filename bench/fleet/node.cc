#include "node.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "foreshock/base/catalogue.h"
#include "foreshock/rpc/grpc_channel.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"

namespace foreshock::bench {
namespace {

using Bytes = grpc::ByteBuffer;
using SteadyClock = std::chrono::steady_clock;

Bytes ToBytes(wire::RecordType type, const std::string& payload) {
  const std::string message = wire::ToIngestRequest(type, payload);
  grpc::Slice slice(message.data(), message.size());
  return Bytes(&slice, 1);
}

std::string ToText(const Bytes& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

wire::Hello HelloOf(const FleetOptions& options, uint32_t node, uint32_t rank) {
  wire::Hello hello;
  hello.run = "fleet/run-" + std::to_string(node / options.nodes_a_run);
  hello.attempt = "1";
  hello.rank = node % options.nodes_a_run * options.ranks + rank;
  hello.world_size = options.nodes_a_run * options.ranks;
  hello.local_world_size = options.ranks;
  hello.incarnation = uint64_t{node} * 1000 + rank + 1;
  for (uint32_t i = 0; i < options.layers; ++i) {
    wire::Layer layer;
    layer.layer = i;
    layer.query_heads = layer.kv_heads = options.heads * hello.world_size;
    layer.head_dim = 64;
    hello.model.layers.push_back(layer);
  }
  return hello;
}

wire::Frame FrameOf(const FleetOptions& options, const wire::Hello& hello, int64_t step) {
  wire::Frame frame;
  frame.step = step;
  frame.seq = static_cast<uint64_t>(step) + 1;
  frame.time_unix_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  for (const uint16_t signal : {kLoss, kGradNorm, kLearningRate, kTokens, kStepSeconds}) {
    wire::Series series;
    series.signal = signal;
    series.values = {2.5f + 0.001f * static_cast<float>(step % 97)};
    if (signal == kLoss) series.weights = {8192};
    frame.series.push_back(std::move(series));
  }
  if (step % options.heads_every != 0) return frame;
  for (const uint16_t signal : {kWqSigma1, kWkSigma1, kWqSigma2, kQkSigma1}) {
    for (uint32_t layer = 0; layer < options.layers; ++layer) {
      wire::Series series;
      series.signal = signal;
      series.layer = layer;
      for (uint32_t head = 0; head < options.heads; ++head) {
        series.heads.push_back(hello.rank * options.heads + head);
        series.values.push_back(3.0f + 0.01f * static_cast<float>((step * 7 + head * 31 + layer * 13) % 101));
      }
      frame.series.push_back(std::move(series));
    }
  }
  return frame;
}

void CountLatency(FleetCounters& counters, SteadyClock::time_point sent) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - sent).count();
  size_t at = 0;
  while (at + 1 < std::size(counters.latency) && ms >= (int64_t{1} << at)) ++at;
  ++counters.latency[at];
}

}  // namespace

struct Node::Connection {
  std::shared_ptr<rpc::Channel> channel;
  std::unique_ptr<grpc::GenericStub> stub;
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;  // streams; guarded by mutex
};

class Node::Stream final : public grpc::ClientBidiReactor<Bytes, Bytes> {
 public:
  Stream(const FleetOptions& options, wire::Hello hello, Connection& connection, FleetCounters& counters)
      : options_(options), hello_(std::move(hello)), connection_(connection), counters_(counters) {
    connection.stub->PrepareBidiStreamingCall(&context_, "/foreshock.v1.Ingest/Stream", {}, this);
    AddHold();
    StartCall();
    StartRead(&incoming_);
    Write(ToBytes(wire::RecordType::kHello, wire::Encode(hello_)));
  }
  void Step() {
    std::lock_guard lock(mutex_);
    if (!greeted_ || ended_) return;
    if (writing_ || sent_.size() > 1000) {
      ++counters_.late;
      return;
    }
    const wire::Frame frame = FrameOf(options_, hello_, step_++);
    for (const wire::Series& series : frame.series) counters_.values += series.values.size();
    sent_.emplace_back(frame.seq, SteadyClock::now());
    ++counters_.written;
    StartOne(ToBytes(wire::RecordType::kFrame, wire::Encode(frame)));
  }
  void End() {
    context_.TryCancel();
    RemoveHold();
  }

 private:
  void Write(Bytes bytes) {
    std::lock_guard lock(mutex_);
    StartOne(std::move(bytes));
  }
  void StartOne(Bytes bytes) {
    outgoing_ = std::move(bytes);
    writing_ = true;
    StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    ended_ |= !ok;
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    const auto reply = wire::DecodeReply(ToText(incoming_));
    {
      std::lock_guard lock(mutex_);
      if (reply.ok() && reply->hello) {
        greeted_ = true;
        ++counters_.greeted;
      }
      while (reply.ok() && !sent_.empty() && sent_.front().first <= reply->durable_seq) {
        CountLatency(counters_, sent_.front().second);
        ++counters_.acknowledged;
        sent_.pop_front();
      }
    }
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    if (status.error_code() != grpc::StatusCode::CANCELLED) ++(greeted_ ? counters_.broken : counters_.refused);
    Connection& connection = connection_;
    delete this;
    std::lock_guard lock(connection.mutex);
    --connection.open;
    connection.changed.notify_all();
  }

  const FleetOptions& options_;
  const wire::Hello hello_;
  Connection& connection_;
  FleetCounters& counters_;
  grpc::ClientContext context_;
  Bytes incoming_;
  std::mutex mutex_;  // guards what follows
  Bytes outgoing_;
  bool greeted_ = false, writing_ = false, ended_ = false;
  int64_t step_ = 0;
  std::deque<std::pair<uint64_t, SteadyClock::time_point>> sent_;
};

Node::Node(const FleetOptions& options, uint32_t number, FleetCounters& counters)
    : connection_(std::make_unique<Connection>()) {
  rpc::ChannelOptions channel;
  channel.address = options.address;
  connection_->channel = rpc::Channel::Create(channel).value();
  connection_->stub = std::make_unique<grpc::GenericStub>(rpc::GrpcChannel(*connection_->channel));
  connection_->open = options.ranks;
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    streams_.push_back(new Stream(options, HelloOf(options, number, rank), *connection_, counters));
  }
}

Node::~Node() {
  for (Stream* stream : streams_) stream->End();
  std::unique_lock lock(connection_->mutex);
  connection_->changed.wait(lock, [this] { return connection_->open == 0; });
}

void Node::Step(uint32_t rank) { streams_[rank]->Step(); }

}  // namespace foreshock::bench
