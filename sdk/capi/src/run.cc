#include "run.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "convert.h"
#include "cupti_library.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/cuda/weight_probe.h"
#include "foreshock/sdk/fork_guard.h"
#include "foreshock/wire/codec.h"

using foreshock::Status;
using foreshock::sdk::EventSlot;
using foreshock::sdk::LogLevel;
namespace sdk = foreshock::sdk;
namespace wire = foreshock::wire;

namespace {

constexpr uint32_t kMaxLayerIndex = 1u << 16;
constexpr uint32_t kMaxLoggedErrors = 20;

}  // namespace

fs_run::fs_run(sdk::RunOptions options, const foreshock::Clock& clock)
    : options_(std::move(options)), clock_(clock), fork_generation_(sdk::ForkGeneration()) {
  if (!inert()) StartCupti();
}

// Before the trainer makes its kernels, so that the records are whole.
void fs_run::StartCupti() {
  const sdk::CuptiLibrary library = sdk::LoadCupti(options_.cupti);
  options_.sampler.device_times = library.times;
  if (library.times != nullptr) Log(LogLevel::kInfo, "CUPTI measures the device time of kernels");
  if (library.reason.empty()) return;
  Log(LogLevel::kWarning, "FORESHOCK_CUPTI: " + library.reason);
  unmonitored_.push_back({"device time of kernels", library.reason.substr(0, sdk::kMaxDetailBytes)});
}

fs_run::~fs_run() = default;

bool fs_run::inert() const noexcept {
  return options_.exporter.address.kind == sdk::LinkKind::kNone || sdk::ForkGeneration() != fork_generation_;
}

void fs_run::Log(LogLevel level, const std::string& text) const {
  if (options_.log != nullptr) {
    options_.log(options_.log_context, static_cast<fs_log_level>(level), text.c_str());
  } else if (level != LogLevel::kInfo) {
    std::fprintf(stderr, "foreshock: %s\n", text.c_str());
  }
}

fs_status fs_run::Fail(fs_status status, const char* format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error_, sizeof last_error_, format, arguments);
  va_end(arguments);
  errors_.fetch_add(1, std::memory_order_relaxed);
  if (logged_errors_++ >= kMaxLoggedErrors) return status;
  if (exporter_ != nullptr) {
    exporter_->PostLog(LogLevel::kWarning, last_error_);
  } else {
    Log(LogLevel::kWarning, last_error_);
  }
  return status;
}

fs_status fs_run::Fail(fs_status status, const Status& why) const {
  return Fail(status, "%s", why.message().c_str());
}

fs_status fs_run::UnknownLayer(uint32_t layer) const {
  return Fail(FS_ERR_UNKNOWN_LAYER, "layer: %u, not one of the %zu layers that were added", layer,
              layers_.size());
}

fs_status fs_run::AddLayer(const fs_layer& in) {
  if (frozen_ || guard_.enabled()) {
    return Fail(FS_ERR_STATE, "layer %u: layers are added before the first step and before fs_guard_enable",
                in.layer);
  }
  if (in.layer >= kMaxLayerIndex) {
    return Fail(FS_ERR_LIMIT, "layer: %u, at most %u", in.layer, kMaxLayerIndex - 1);
  }
  if (layers_.size() >= wire::kMaxLayers) return Fail(FS_ERR_LIMIT, "layers: at most %u", wire::kMaxLayers);
  if (IndexOf(in.layer) != kUnknown) return Fail(FS_ERR_ARGUMENT, "layer: %u was added before", in.layer);
  sdk::LayerSpec spec = sdk::ToLayer(in);
  Status status = spec.Check();
  if (!status.ok()) return Fail(FS_ERR_SHAPE, status);
  fs_weights weights;
  for (const bool key_side : {false, true}) {
    const fs_weights* given = key_side ? in.wk : in.wq;
    if (given == nullptr) continue;
    fs_weights_init(&weights);
    if (!sdk::CopySized(*given, &weights)) {
      return Fail(FS_ERR_ARGUMENT, "layer %u: %s.size: %u, call fs_weights_init first", in.layer,
                  key_side ? "wk" : "wq", given->size);
    }
    (key_side ? spec.wk : spec.wq) =
        sdk::ToProjection(weights, key_side ? spec.local_kv_heads : spec.local_query_heads);
  }
  status = spec.Check();
  if (!status.ok()) return Fail(FS_ERR_ARGUMENT, status);
  if (spec.dropout > 0) {
    unmonitored_.push_back({"layer " + std::to_string(in.layer) + " rounding", "attention dropout"});
  }
  DropUnmeasurable(&spec);
  if (!spec.wq && !spec.weights_dropped)
    unmonitored_.push_back({"layer " + std::to_string(in.layer) + " weights", "no weights were given"});
  if (layer_index_.size() <= in.layer) layer_index_.resize(in.layer + 1, kUnknown);
  layers_.push_back(std::move(spec));
  attention_told_.push_back(0);
  layer_index_[in.layer] = static_cast<int32_t>(layers_.size() - 1);
  return FS_OK;
}

// Weights on a device that this build, driver or backend cannot measure: said, and never read.
void fs_run::DropUnmeasurable(sdk::LayerSpec* spec) {
  const auto on_device = [](const std::optional<sdk::ProjectionSpec>& p) { return p && p->device >= 0; };
  if (!on_device(spec->wq) && !on_device(spec->wk)) return;
  std::string reason = foreshock::cuda::DriverSupport().reason;
  if (reason.empty() && spec->head_dim > foreshock::cuda::kMaxHeadDimOnDevice) {
    reason = "head_dim " + std::to_string(spec->head_dim) + ", on a GPU at most " +
             std::to_string(foreshock::cuda::kMaxHeadDimOnDevice);
  }
  if (reason.empty() && ((spec->wq && spec->wq->shard) || (spec->wk && spec->wk->shard))) {
    reason = "sharded parameters are measured in host memory alone";
  }
  if (reason.empty()) return;
  unmonitored_.push_back({"layer " + std::to_string(spec->layer) + " weights", reason});
  spec->wq.reset();
  spec->wk.reset();
  spec->weights_dropped = true;
}

fs_status fs_run::SetStream(int32_t device, void* stream) {
  if (device < 0) return Fail(FS_ERR_ARGUMENT, "fs_set_stream: device: %d, must be 0 or more", device);
  if (sampler_ != nullptr && sampler_->in_step()) return Fail(FS_ERR_STATE, "fs_set_stream: within a step");
  const auto known = std::find_if(streams_.begin(), streams_.end(),
                                  [device](const auto& entry) { return entry.first == device; });
  if (known == streams_.end()) {
    streams_.emplace_back(device, stream);
  } else {
    known->second = stream;
  }
  if (sampler_ != nullptr) sampler_->SetStream(device, stream);
  return FS_OK;
}

void fs_run::AttentionUnmonitored(size_t index, const std::string& reason) {
  if (attention_told_[index] != 0) return;
  attention_told_[index] = 1;
  Unmonitored(("layer " + std::to_string(layers_[index].layer) + " attention").c_str(), reason.c_str());
}

// Devices that failed: said once each, as an event and in what later readers are told.
void fs_run::TellFailures() {
  for (const sdk::TrackerFailure& failure : sampler_->TakeFailures()) {
    Unmonitored(failure.name.c_str(), failure.reason.c_str());
  }
}

fs_status fs_run::SetWeights(uint32_t layer, const fs_weights* wq, const fs_weights* wk) {
  const int32_t index = IndexOf(layer);
  if (index == kUnknown) return UnknownLayer(layer);
  if (sampler_ != nullptr && sampler_->in_step())
    return Fail(FS_ERR_STATE, "fs_layer_set_weights: within a step");
  sdk::LayerSpec& spec = layers_[static_cast<size_t>(index)];
  if (spec.weights_dropped) return FS_OK;
  sdk::LayerSpec changed = spec;
  const struct {
    const fs_weights* given;
    std::optional<sdk::ProjectionSpec>* projection;
    uint32_t heads;
    const char* name;
  } sides[] = {{wq, &changed.wq, spec.local_query_heads, "wq"}, {wk, &changed.wk, spec.local_kv_heads, "wk"}};
  for (const auto& side : sides) {
    if ((side.given != nullptr) != side.projection->has_value()) {
      return Fail(FS_ERR_ARGUMENT, "layer %u: %s: must be given exactly when fs_add_layer was given it",
                  layer, side.name);
    }
    if (side.given == nullptr) continue;
    fs_weights weights;
    fs_weights_init(&weights);
    if (!sdk::CopySized(*side.given, &weights)) {
      return Fail(FS_ERR_ARGUMENT, "layer %u: %s.size: %u, call fs_weights_init first", layer, side.name,
                  side.given->size);
    }
    const sdk::ProjectionSpec before = std::move(**side.projection);
    sdk::ProjectionSpec& now = **side.projection;
    now = sdk::ToProjection(weights, side.heads);
    if (now.device != before.device) {
      return Fail(FS_ERR_ARGUMENT, "layer %u: %s: device %d, must stay on %d (-1: host memory)", layer,
                  side.name, now.device, before.device);
    }
    const bool same = now.row_stride == before.row_stride && now.col_stride == before.col_stride &&
                      now.dtype == before.dtype;
    if (now.device >= 0 && !same) {
      return Fail(FS_ERR_ARGUMENT, "layer %u: %s: strides and dtype on a GPU must stay as they were", layer,
                  side.name);
    }
  }
  const Status status = changed.Check();
  if (!status.ok()) return Fail(FS_ERR_ARGUMENT, status);
  spec = std::move(changed);
  if (sampler_ != nullptr) sampler_->weights().SetViews(static_cast<size_t>(index), spec);
  return FS_OK;
}

fs_status fs_run::WeightsReplaced() {
  if (sampler_ == nullptr) return FS_OK;
  if (sampler_->in_step()) return Fail(FS_ERR_STATE, "fs_weights_replaced: within a step");
  sampler_->InvalidateWeights();
  return FS_OK;
}

bool fs_run::WantsUnsharded(uint32_t layer) const noexcept {
  const int32_t index = IndexOf(layer);
  return index != kUnknown && sampler_ != nullptr && sampler_->WantsUnsharded(static_cast<size_t>(index));
}

fs_status fs_run::Unmonitored(const char* name, const char* reason) {
  if (name == nullptr || reason == nullptr)
    return Fail(FS_ERR_ARGUMENT, "fs_unmonitored: name or reason is null");
  wire::Unmonitored item{std::string(name).substr(0, wire::kMaxNameBytes),
                         std::string(reason).substr(0, sdk::kMaxDetailBytes)};
  EventSlot event;
  event.kind = static_cast<uint8_t>(wire::EventKind::kUnmonitored);
  event.step = std::max<int64_t>(last_step_, 0);
  sdk::CopyText((item.name + ": " + item.reason).c_str(), event.detail, sizeof event.detail);
  if (exporter_ == nullptr) {
    unmonitored_.push_back(std::move(item));
    return FS_OK;
  }
  exporter_->AddUnmonitored(std::move(item));
  Publish(event);
  return FS_OK;
}

// Layers whose copy does not fit are said to be unmonitored, with what they would need.
void fs_run::TellSnapshots() {
  const sdk::SamplerOptions& options = options_.sampler;
  if (options.snapshot_bytes == 0) return;
  for (const sdk::LayerSpec& spec : layers_) {
    if ((spec.wq && spec.wq->device >= 0) || (spec.wk && spec.wk->device >= 0)) {
      unmonitored_.push_back({"layer " + std::to_string(spec.layer) + " update_norm",
                              "copies of weights are taken in host memory alone"});
      continue;
    }
    const uint64_t bytes =
        sdk::UpdateSnapshot::BytesOf(spec, options.replica, std::max(options.replicas, 1u));
    if (bytes <= options.snapshot_bytes) continue;
    unmonitored_.push_back(
        {"layer " + std::to_string(spec.layer) + " update_norm",
         "snapshot_bytes: " + std::to_string(options.snapshot_bytes) + ", needs " + std::to_string(bytes)});
  }
}

void fs_run::FillHello() {
  TellSnapshots();
  wire::Hello& hello = options_.exporter.hello;
  hello.started_unix_ns = static_cast<uint64_t>(std::max<int64_t>(clock_.WallNanos(), 0));
  hello.unmonitored = unmonitored_;
  hello.action_protocol = 1;  // fs_action_poll answers proposals
  for (const sdk::LayerSpec& spec : layers_) {
    wire::Layer layer;
    layer.layer = spec.layer;
    layer.name = spec.name;
    layer.query_heads = spec.query_heads;
    layer.kv_heads = spec.kv_heads;
    layer.head_dim = spec.head_dim;
    layer.scale = spec.scale;
    layer.softcap = spec.softcap;
    layer.qk_norm = spec.qk_norm;
    layer.low_resolution = (spec.wq && spec.wq->low_resolution()) || (spec.wk && spec.wk->low_resolution());
    hello.model.layers.push_back(std::move(layer));
    hello.model.model_dim = std::max(hello.model.model_dim, spec.model_dim);
  }
  std::sort(hello.model.layers.begin(), hello.model.layers.end(),
            [](const wire::Layer& a, const wire::Layer& b) { return a.layer < b.layer; });
}

fs_status fs_run::Freeze() {
  if (frozen_) return broken_ ? FS_ERR_MEMORY : FS_OK;
  frozen_ = true;
  broken_ = true;
  FillHello();
  effects_.Prepare();
  sampler_ = std::make_unique<sdk::StepSampler>(layers_, options_.sampler, clock_);
  sampler_view_ = sampler_.get();
  for (const auto& [device, stream] : streams_) sampler_->SetStream(device, stream);
  exporter_ = std::make_unique<sdk::Exporter>(
      options_.exporter, sampler_->layout(), sampler_->queue(), sampler_->request(), clock_,
      [this](LogLevel level, const std::string& text) { Log(level, text); });
  exporter_view_ = exporter_.get();
  const Status started = exporter_->Start();
  if (!started.ok()) return Fail(FS_ERR_MEMORY, started);
  broken_ = false;
  TellFailures();
  for (const EventSlot& event : early_events_) sampler_->PublishEvent(event);
  early_events_.clear();
  early_events_.shrink_to_fit();
  return FS_OK;
}

int64_t fs_run::NextStep() const noexcept {
  return sampler_ != nullptr && sampler_->in_step() ? sampler_->step() : last_step_ + 1;
}

void fs_run::Publish(const EventSlot& event) {
  EventSlot stamped = event;
  stamped.time_unix_ns = clock_.WallNanos();
  if (sampler_ == nullptr) {
    early_events_.push_back(stamped);
  } else if (!broken_) {
    sampler_->PublishEvent(stamped);
  }
}

fs_status fs_run::Event(fs_event_kind kind, int64_t step, const char* detail) {
  switch (kind) {
    case FS_EVENT_CHECKPOINT:
    case FS_EVENT_RESUME:
    case FS_EVENT_PHASE:
    case FS_EVENT_EVAL:
    case FS_EVENT_NOTE:
      break;
    default:
      return Fail(FS_ERR_ARGUMENT, "event kind: %d, not one of fs_event_kind", static_cast<int>(kind));
  }
  if (step < 0)
    return Fail(FS_ERR_ARGUMENT, "event step: %lld, must be 0 or more", static_cast<long long>(step));
  EventSlot event;
  event.kind = static_cast<uint8_t>(kind);
  event.step = step;
  sdk::CopyText(detail, event.detail, sizeof event.detail);
  Publish(event);
  // A guard that was on before the restart and is not now lets the logits loose: the server decides whether
  // it was.
  if (kind == FS_EVENT_RESUME && guard_.enabled() && !guard_.restored()) GuardEvent("missing", nullptr, 0);
  return FS_OK;
}

void fs_run::Stats(fs_stats* stats) const {
  const auto relaxed = std::memory_order_relaxed;
  stats->steps = steps_.load(relaxed);
  stats->sampled_steps = sampled_steps_.load(relaxed);
  stats->errors = errors_.load(relaxed);
  stats->own_nanos = own_nanos_.load(relaxed);
  stats->sampling_interval = sampling_interval_.load(relaxed);
  stats->guard_layers = guard_layers_.load(relaxed);
  if (inert()) {
    sdk::CopyText(options_.exporter.address.kind == sdk::LinkKind::kNone ? "no address" : "a forked child",
                  stats->not_recording, sizeof stats->not_recording);
    return;
  }
  const sdk::Exporter* exporter = exporter_view_.load();
  const sdk::StepSampler* sampler = sampler_view_.load();
  if (exporter == nullptr || sampler == nullptr) {
    sdk::CopyText("no step has begun", stats->not_recording, sizeof stats->not_recording);
    return;
  }
  const foreshock::QueueCounters queue = sampler->queue_counters();
  stats->queued = queue.pushed;
  stats->queue_dropped = queue.dropped;
  const sdk::ExporterCounters& counters = exporter->counters();
  stats->connected = counters.connected.load(relaxed) ? 1 : 0;
  stats->window_dropped = counters.window_dropped.load(relaxed);
  stats->sent = counters.sent.load(relaxed);
  stats->acknowledged = counters.acknowledged.load(relaxed);
  stats->bytes_sent = counters.bytes_sent.load(relaxed);
  stats->connects = counters.connects.load(relaxed);
  stats->actions_received = counters.actions_received.load(relaxed);
  stats->actions_refused = counters.actions_refused.load(relaxed);
  sdk::CopyText(exporter->NotRecording().c_str(), stats->not_recording, sizeof stats->not_recording);
}

void fs_run::Close(fs_end end) {
  if (sampler_ != nullptr && sampler_->in_step()) {
    StepSkipped();
    StepEnd();
  }
  // A run that ends before its first step still says so, and why.
  if (!frozen_ && !(early_events_.empty() && layers_.empty())) Freeze();
  if (exporter_ == nullptr || broken_) return;
  sampler_->Drain(clock_.MonotonicNanos() + std::chrono::nanoseconds(options_.flush_timeout).count() / 2);
  TellFailures();  // of the frames that only now were complete
  exporter_->Stop(static_cast<wire::GoodbyeStatus>(end), std::max<int64_t>(last_step_, 0),
                  options_.flush_timeout);
}

void fs_run::FlushAtExit() {
  if (inert() || exporter_ == nullptr || broken_) return;
  sampler_->Drain(0);
  exporter_->Stop(wire::GoodbyeStatus::kUnspecified, 0, options_.flush_timeout);
}
