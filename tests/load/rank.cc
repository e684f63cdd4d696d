#include "rank.h"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace foreshock::load {
namespace {

constexpr size_t kQueueSteps = 12;
constexpr uint16_t kSignals[] = {kWqSigma1, kWkSigma1, kWqSigma2, kQkSigma1};

std::vector<sdk::LayerSpec> LayersOf(const LoadOptions& options) {
  std::vector<sdk::LayerSpec> layers(options.layers);
  for (uint32_t i = 0; i < options.layers; ++i) {
    layers[i].layer = i;
    layers[i].query_heads = layers[i].kv_heads = kHeads;
    layers[i].local_query_heads = layers[i].local_kv_heads = kHeads;
    layers[i].head_dim = 128;
    layers[i].wq.emplace();  // columns for their spectra; nothing reads them
    layers[i].wk.emplace();
  }
  return layers;
}

sdk::ExporterOptions ExporterOptionsOf(const LoadOptions& options, uint32_t rank) {
  sdk::ExporterOptions out;
  out.address = *sdk::ParseAddress(options.address);
  out.window_bytes = options.window_bytes;
  out.last_backoff = std::chrono::milliseconds(1000);
  if (const char* library = std::getenv("FORESHOCK_GRPC_LIBRARY")) out.grpc_library = library;
  wire::Hello& hello = out.hello;
  hello.run = options.run;
  hello.attempt = "1";
  hello.rank = rank;
  hello.world_size = hello.local_world_size = options.ranks;
  std::random_device random;
  hello.incarnation = (static_cast<uint64_t>(random()) << 32 | random()) | 1;
  hello.started_unix_ns = static_cast<uint64_t>(SystemClock::Instance().WallNanos());
  for (uint32_t i = 0; i < options.layers; ++i) {
    wire::Layer layer;
    layer.layer = i;
    layer.query_heads = layer.kv_heads = kHeads;
    layer.head_dim = 128;
    hello.model.layers.push_back(layer);
  }
  return out;
}

}  // namespace

Rank::Rank(const LoadOptions& options, uint32_t rank)
    : rank_(rank), layers_(options.layers), layout_(LayersOf(options)), queue_(kQueueSteps) {
  queue_.ForEachSlot([this](sdk::StepRecord& record) { record.frame.Shape(layout_); });
  exporter_ = std::make_unique<sdk::Exporter>(
      ExporterOptionsOf(options, rank), layout_, queue_, request_, SystemClock::Instance(),
      [rank](sdk::LogLevel, const std::string& text) {
        std::fprintf(stderr, "rank %u: %s\n", rank, text.c_str());
      });
}

void Rank::Publish(int64_t step) {
  sdk::StepRecord& record = queue_.Slot();
  record.is_event = false;
  record.frame.Clear();
  record.frame.step = step;
  record.frame.time_unix_ns = SystemClock::Instance().WallNanos();
  sdk::ColumnWriter(layout_, &record.frame, -1, kLoss).Set(0, ValueOf(rank_, step, 0), 1);
  uint32_t place = 0;
  for (const uint16_t signal : kSignals) {
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      sdk::ColumnWriter writer(layout_, &record.frame, static_cast<int32_t>(layer), signal);
      for (uint32_t head = 0; head < kHeads; ++head) writer.Set(head, ValueOf(rank_, step, place++));
    }
  }
  queue_.Publish();
  ++published_;
}

void Rank::End(int64_t last_step, int64_t flush_ms) {
  exporter_->Stop(wire::GoodbyeStatus::kFinished, last_step, std::chrono::milliseconds(flush_ms));
}

std::string Rank::Json() const {
  const sdk::ExporterCounters& counters = exporter_->counters();
  char text[320];
  std::snprintf(
      text, sizeof text,
      R"({"rank":%u,"published":%llu,"queue_dropped":%llu,"window_dropped":%llu,"acknowledged":%llu,"connects":%llu})",
      rank_, static_cast<unsigned long long>(published_),
      static_cast<unsigned long long>(queue_.Counters().dropped),
      static_cast<unsigned long long>(counters.window_dropped),
      static_cast<unsigned long long>(counters.acknowledged),
      static_cast<unsigned long long>(counters.connects));
  return text;
}

}  // namespace foreshock::load
