#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "foreshock/foreshock.h"
#include "foreshock/trainer/options.h"
#include "foreshock/trainer/training.h"

namespace foreshock::trainer {

// What one trained layer gives to Foreshock, and the guard's word on it. This is the whole of what a trainer
// adds to be watched; it uses the public C interface alone. Ignores every status: training goes on whatever
// happens.
class Watch {
 public:
  // Opens the handle and declares every layer of `training`, which must outlive this object.
  Watch(const Options& options, Training& training);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  fs_run* handle() { return run_; }
  bool guarded() const { return guarded_; }
  // Why --guard could not be granted; empty otherwise.
  const std::string& guard_refusal() const { return guard_refusal_; }

  // Around one step: begin(), compute, measured(), update, end(). None allocates or calls the system.
  void begin(std::int64_t step);
  void measured();
  void end();

  // Switches layers of the model on where the guard is active; calls on_switch(layer) for each.
  template <typename OnSwitch>
  void apply_guard(OnSwitch on_switch) {
    for (int layer = 0; layer < training_.model().shape().layers; ++layer) {
      if (fs_guard_active(run_, static_cast<std::uint32_t>(layer)) == 0) continue;
      if (training_.model().attention(layer).qk_norm()) continue;
      training_.model().attention(layer).set_qk_norm(true);
      on_switch(layer);
    }
  }

  // The guard's state, to keep beside a checkpoint. save: false when there is none or it cannot be written.
  bool save_guard(const std::string& path) const;
  bool restore_guard(const std::string& path, std::string* error);

  fs_stats stats() const;
  void checkpoint(std::int64_t step, const std::string& path) {
    fs_event(run_, FS_EVENT_CHECKPOINT, step, path.c_str());
  }
  void resumed(std::int64_t step, const std::string& path) {
    fs_event(run_, FS_EVENT_RESUME, step, path.c_str());
  }

  // A line about the run, at a step; "fault NAME" is what `foreshock summary` and the report read.
  void note(std::int64_t step, const std::string& text) { fs_event(run_, FS_EVENT_NOTE, step, text.c_str()); }

  // Says goodbye and waits a little for what is unsent. Every later call does nothing.
  void close(fs_end end);

 private:
  void declare_layer(int layer, bool qk_norm);
  fs_attention attention_of(int layer) const;

  Training& training_;
  fs_run* run_ = nullptr;
  bool guarded_ = false;
  std::string guard_refusal_;
};

}  // namespace foreshock::trainer
