// What stands behind an fs_run handle: puts the SDK's parts together and turns the C interface's rules into
// checks.
//
// The trainer's thread owns everything here but the counters. Until the first step all is configuration;
// Freeze then builds the sampler and starts the exporter, and from there on a step allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "action_desk.h"
#include "foreshock/foreshock.h"
#include "foreshock/sdk/effect_watch.h"
#include "foreshock/sdk/exporter.h"
#include "foreshock/sdk/guard.h"
#include "foreshock/sdk/step_sampler.h"

namespace foreshock::sdk {

// fs_options, copied and completed from the environment.
struct RunOptions {
  SamplerOptions sampler;
  ExporterOptions exporter;
  std::chrono::milliseconds flush_timeout{2000};
  std::string cupti;  // FORESHOCK_CUPTI, see LoadCupti
  fs_log_fn log = nullptr;
  void* log_context = nullptr;
};

// Reads what fs_open was given. kInvalidArgument names field, value and limit.
Result<RunOptions> ReadOptions(const fs_options& options, const Environment& environment);

}  // namespace foreshock::sdk

struct fs_run {
 public:
  fs_run(foreshock::sdk::RunOptions options, const foreshock::Clock& clock);
  ~fs_run();
  fs_run(const fs_run&) = delete;
  fs_run& operator=(const fs_run&) = delete;

  // No address, or a forked child: every call returns at once.
  bool inert() const noexcept;
  uint64_t fork_generation() const noexcept { return fork_generation_; }

  // Sets the text of fs_last_error, counts, and logs a few of them.
  fs_status Fail(fs_status status, const char* format, ...) const __attribute__((format(printf, 3, 4)));
  fs_status Fail(fs_status status, const foreshock::Status& why) const;
  const char* last_error() const { return last_error_; }

  fs_status AddLayer(const fs_layer& layer);
  fs_status SetStream(int32_t device, void* stream);
  fs_status SetWeights(uint32_t layer, const fs_weights* wq, const fs_weights* wk);
  fs_status WeightsReplaced();
  bool WantsUnsharded(uint32_t layer) const noexcept;
  fs_status Unsharded(uint32_t layer, const void* wq, const void* wk);
  fs_status Unmonitored(const char* name, const char* reason);

  fs_status StepBegin(int64_t step);
  bool WantsForward(uint32_t layer) const noexcept;
  bool WantsBackward(uint32_t layer) const noexcept;
  fs_status Forward(uint32_t layer, const fs_attention& attention);
  fs_status Backward(uint32_t layer, const fs_attention& attention);
  fs_status Loss(double mean_loss, double tokens);
  fs_status Scalar(fs_scalar_id id, double value);
  // A number in memory, which may be a device's.
  struct NumberAt {
    const void* value;
    fs_dtype dtype;
    int32_t device;
    void* stream;
  };
  fs_status LossAt(NumberAt number, double tokens);
  fs_status ScalarAt(fs_scalar_id id, NumberAt number);
  fs_status StepSkipped();
  fs_status StepEnd();

  fs_status Event(fs_event_kind kind, int64_t step, const char* detail);
  fs_status ActionPoll(fs_action* action);
  fs_status ActionReport(const char* id, fs_action_state state, const char* detail);

  fs_status GuardEnable(const fs_guard_options& options);
  bool GuardActive(uint32_t layer) const noexcept;
  fs_status GuardActivate(uint32_t layer);
  fs_status GuardSave(void* state, size_t* bytes) const;
  fs_status GuardRestore(const void* state, size_t bytes);
  fs_status ClipFactors(uint32_t layer, double limit, float* factors, uint32_t count) const;
  fs_status ProjectOut(uint32_t layer, fs_projection which, uint32_t local_head, float* delta,
                       int64_t row_stride, int64_t col_stride) const;

  void Stats(fs_stats* stats) const;
  void Close(fs_end end);
  // The process exits without fs_close: sends what is left, announces no end.
  void FlushAtExit();

 private:
  static constexpr int32_t kUnknown = -1;
  int32_t IndexOf(uint32_t layer) const noexcept {
    return layer < layer_index_.size() ? layer_index_[layer] : kUnknown;
  }
  fs_status UnknownLayer(uint32_t layer) const;
  fs_status Freeze();
  void TellSnapshots();
  void StartCupti();
  void FillHello();
  void DropUnmeasurable(foreshock::sdk::LayerSpec* spec);
  void TellFailures();
  // Says once per layer that its attention is not measured.
  fs_status Attend(uint32_t layer, const fs_attention& in, bool backward);
  void AttentionUnmonitored(size_t index, const std::string& reason);
  fs_status FindNumber(const char* name, NumberAt* number) const;
  fs_status NumberStatus(const foreshock::Status& status);
  void Publish(const foreshock::sdk::EventSlot& event);
  void GuardEvent(const char* detail, const uint32_t* layers, uint32_t count);
  void AnnounceGuardSwitch(bool watch_effect);
  void HoldEvent(const foreshock::sdk::EventSlot& event) noexcept;
  void FlushEvents();
  void CollectActions();
  void WatchEffect(const char* id, const char* action, const uint32_t* layers, uint32_t count);
  void ObserveFrame(foreshock::sdk::FrameSlot& frame);
  void MarkGuardedLayers(foreshock::sdk::FrameSlot& frame) noexcept;
  int64_t NextStep() const noexcept;
  void Log(foreshock::sdk::LogLevel level, const std::string& text) const;

  foreshock::sdk::RunOptions options_;
  const foreshock::Clock& clock_;
  const uint64_t fork_generation_;
  std::vector<foreshock::sdk::LayerSpec> layers_;
  std::vector<int32_t> layer_index_;     // by global index
  bool numbers_told_ = false;            // that numbers on a device cannot be read
  std::vector<uint8_t> attention_told_;  // per layer: AttentionUnmonitored was called
  std::vector<foreshock::wire::Unmonitored> unmonitored_;
  std::vector<std::pair<int32_t, void*>> streams_;       // by device, as fs_set_stream gave them
  std::vector<foreshock::sdk::EventSlot> early_events_;  // before the first step
  foreshock::sdk::Guard guard_{layers_};
  foreshock::sdk::EffectWatch effects_{layers_};
  foreshock::sdk::ActionDesk desk_;
  std::string guard_refusal_;  // why the guard cannot be switched on, where that was tried; "" else
  std::unique_ptr<foreshock::sdk::StepSampler> sampler_;
  std::unique_ptr<foreshock::sdk::Exporter> exporter_;
  std::atomic<const foreshock::sdk::Exporter*> exporter_view_{nullptr};  // for fs_get_stats on another thread
  std::atomic<const foreshock::sdk::StepSampler*> sampler_view_{nullptr};
  bool frozen_ = false;
  bool broken_ = false;  // could not be built: nothing is recorded
  int64_t last_step_ = -1;
  std::array<foreshock::sdk::EventSlot, foreshock::sdk::EffectWatch::kMaxWatched> held_;
  size_t held_count_ = 0;
  bool guard_switch_waits_ = false;
  int64_t own_in_step_ = 0;
  int64_t hidden_in_step_ = 0;  // of it: hidden by a device that is behind

  mutable char last_error_[512] = "";
  mutable uint32_t logged_errors_ = 0;
  mutable std::atomic<uint64_t> errors_{0};
  std::atomic<uint64_t> steps_{0}, sampled_steps_{0}, own_nanos_{0};
  std::atomic<uint32_t> sampling_interval_{0}, guard_layers_{0};
};
