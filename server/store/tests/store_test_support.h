// Helpers of the store's tests: a folder that is removed, Hellos, frames and batches of records.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/store/store.h"

namespace foreshock::store::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "foreshock_store_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct HelloFields {
  std::string attempt = "1";
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t incarnation = 1;
};

inline wire::Hello HelloOf(const std::string& run, const HelloFields& fields = {}) {
  wire::Hello hello;
  hello.run = run;
  hello.attempt = fields.attempt;
  hello.rank = fields.rank;
  hello.world_size = fields.world_size;
  hello.incarnation = fields.incarnation;
  return hello;
}

inline wire::Frame FrameOf(int64_t step, float loss) {
  wire::Frame frame;
  frame.step = step;
  wire::Series series;
  series.signal = kLoss;
  series.values = {loss};
  frame.series.push_back(std::move(series));
  return frame;
}

inline wire::Series HeadSeries(uint16_t signal, uint32_t layer, std::vector<float> values) {
  wire::Series series;
  series.signal = signal;
  series.layer = layer;
  for (uint32_t head = 0; head < values.size(); ++head) series.heads.push_back(head);
  series.values = std::move(values);
  return series;
}

// Records of one source with rising sequence numbers.
class Records {
 public:
  struct FrameFields {
    uint64_t dropped_before = 0;
  };
  explicit Records(SourceId source, uint64_t first_seq = 1) : next_seq_(first_seq), source_(source) {}

  Records& Frame(int64_t step, float loss) { return Frame(FrameOf(step, loss)); }
  Records& Frame(int64_t step, float loss, const FrameFields& fields) {
    wire::Frame frame = FrameOf(step, loss);
    frame.dropped_before = fields.dropped_before;
    return Frame(std::move(frame));
  }
  Records& Frame(wire::Frame frame) {
    frame.seq = next_seq_;
    Append& record = Add(wire::RecordType::kFrame, frame);
    record.frame = std::make_shared<const wire::Frame>(std::move(frame));
    return *this;
  }
  Records& Split(const wire::Frame& frame, size_t max_bytes) {
    for (wire::Frame& part : wire::SplitFrame(frame, max_bytes)) Frame(std::move(part));
    return *this;
  }
  Records& Event(int64_t step, wire::EventKind kind = wire::EventKind::kNote, std::string detail = {}) {
    wire::Event event;
    event.step = step;
    event.kind = kind;
    event.detail = std::move(detail);
    event.seq = next_seq_;
    Append& record = Add(wire::RecordType::kEvent, event);
    record.event = std::make_shared<const wire::Event>(std::move(event));
    return *this;
  }
  Records& Goodbye(wire::GoodbyeStatus status) {
    wire::Goodbye goodbye;
    goodbye.seq = next_seq_;
    goodbye.status = status;
    Append& record = Add(wire::RecordType::kGoodbye, goodbye);
    record.goodbye = std::make_shared<const wire::Goodbye>(goodbye);
    return *this;
  }

  std::vector<Append> list;

 private:
  template <typename Message>
  Append& Add(wire::RecordType type, const Message& message) {
    Append record;
    record.source = source_;
    record.type = type;
    record.payload = wire::Encode(message);
    record.head = {next_seq_++, message.step, message.dropped_before};
    record.received_unix_ns = 2'000;
    list.push_back(std::move(record));
    return list.back();
  }
  uint64_t next_seq_;
  SourceId source_;
};

}  // namespace foreshock::store::test
