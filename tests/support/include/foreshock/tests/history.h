// For tests of the server's parts: a real store in a folder of its own, and runs written into it as ingest
// and merge would (worlds of one rank).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "foreshock/base/catalogue.h"
#include "foreshock/base/clock.h"
#include "foreshock/server/store/store.h"
#include "foreshock/wire/codec.h"

namespace foreshock::tests {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline wire::Series Scalar(uint16_t signal, float value) {
  wire::Series series;
  series.signal = signal;
  series.values = {value};
  return series;
}

// Heads 0, 1, ... of a layer.
inline wire::Series Heads(uint16_t signal, uint32_t layer, std::vector<float> values,
                          std::vector<float> weights = {}) {
  wire::Series series;
  series.signal = signal;
  series.layer = layer;
  for (uint32_t head = 0; head < values.size(); ++head) series.heads.push_back(head);
  series.values = std::move(values);
  series.weights = std::move(weights);
  return series;
}

inline wire::Frame Step(int64_t step, std::vector<wire::Series> series) {
  wire::Frame frame;
  frame.step = step;
  frame.series = std::move(series);
  return frame;
}

inline wire::Frame Loss(int64_t step, float loss) { return Step(step, {Scalar(kLoss, loss)}); }

// A Hello of two layers with four heads of 16.
inline wire::Hello SmallHello(const std::string& run, const std::string& attempt = "1") {
  wire::Hello hello;
  hello.run = run;
  hello.attempt = attempt;
  hello.incarnation = 0x1234567890abcdef;
  hello.host = "node1";
  hello.allowed_actions = {"enable_qk_norm", "checkpoint"};
  for (uint32_t layer = 0; layer < 2; ++layer) {
    wire::Layer l;
    l.layer = layer;
    l.query_heads = 4;
    l.kv_heads = 4;
    l.head_dim = 16;
    l.scale = 0.25f;
    hello.model.layers.push_back(l);
  }
  return hello;
}

class History {
 public:
  History() { Reopen(); }

  // As a server does that was killed and started again.
  void Reopen() {
    store_.reset();
    store::StoreOptions options;
    options.folder = folder_.path() + "/store";
    auto opened = store::Store::Open(options);
    if (!opened.ok()) throw std::runtime_error(opened.status().ToString());
    store_ = *std::move(opened);
  }

  store::Store& store() { return *store_; }
  ManualClock& clock() { return clock_; }
  const std::string& folder() const { return folder_.path(); }

  store::SourceId Hello(const wire::Hello& hello) {
    auto source = store_->OpenSource(hello, clock_.WallNanos());
    if (!source.ok()) throw std::runtime_error(source.status().ToString());
    next_seq_[source->id] = source->durable_seq + 1;
    return source->id;
  }
  store::SourceId Hello(const std::string& run, const std::string& attempt = "1") {
    return Hello(SmallHello(run, attempt));
  }

  void Put(const store::SourceId& source, wire::Frame frame) {
    Check(store_->PutMerged(source, PutOfRank(source, std::move(frame)), false, store_->Stamp()));
  }
  // One of several ranks: what is merged is the caller's affair.
  std::shared_ptr<const wire::Frame> PutOfRank(const store::SourceId& source, wire::Frame frame) {
    frame.seq = next_seq_[source];
    auto shared = std::make_shared<const wire::Frame>(std::move(frame));
    store::Append record = Record(source, wire::RecordType::kFrame, *shared);
    record.frame = shared;
    Write(std::move(record));
    return shared;
  }
  void Put(const store::SourceId& source, wire::Event event) {
    event.seq = next_seq_[source];
    store::Append record = Record(source, wire::RecordType::kEvent, event);
    record.event = std::make_shared<const wire::Event>(std::move(event));
    Write(std::move(record));
  }
  void Goodbye(const store::SourceId& source, int64_t step,
               wire::GoodbyeStatus status = wire::GoodbyeStatus::kFinished) {
    wire::Goodbye goodbye;
    goodbye.seq = next_seq_[source];
    goodbye.step = step;
    goodbye.status = status;
    store::Append record = Record(source, wire::RecordType::kGoodbye, goodbye);
    record.goodbye = std::make_shared<const wire::Goodbye>(std::move(goodbye));
    Write(std::move(record));
  }
  void Checkpoint(const store::SourceId& source, int64_t step) {
    wire::Event event;
    event.step = step;
    event.kind = wire::EventKind::kCheckpoint;
    event.detail = "ckpt/" + std::to_string(step);
    Put(source, std::move(event));
  }

 private:
  template <typename Message>
  store::Append Record(const store::SourceId& source, wire::RecordType type, const Message& message) {
    store::Append record;
    record.source = source;
    record.type = type;
    record.payload = wire::Encode(message);
    record.head = {message.seq, message.step, 0};
    record.received_unix_ns = record.sent_unix_ns = clock_.WallNanos();
    return record;
  }
  void Write(store::Append record) {
    ++next_seq_[record.source];
    const store::Append records[] = {std::move(record)};
    auto outcomes = store_->AppendRecords(records);
    if (!outcomes.ok()) throw std::runtime_error(outcomes.status().ToString());
    if ((*outcomes)[0] != store::AppendOutcome::kStored) throw std::runtime_error("record not stored");
  }
  static void Check(const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

  TempFolder folder_;
  ManualClock clock_;
  std::unique_ptr<store::Store> store_;
  std::map<store::SourceId, uint64_t> next_seq_;
};

}  // namespace foreshock::tests
