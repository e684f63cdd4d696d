// Actions and the guard.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "foreshock/sdk/interventions.h"
#include "run.h"

using foreshock::Status;
using foreshock::sdk::EventSlot;
namespace sdk = foreshock::sdk;
namespace wire = foreshock::wire;

namespace {

constexpr uint8_t kNotCausal = wire::kNotCausal;

EventSlot ActionEvent(const char* id, const char* kind, wire::ActionState state, const char* detail,
                      int64_t step) {
  EventSlot event;
  event.kind = static_cast<uint8_t>(wire::EventKind::kAction);
  event.action_state = static_cast<uint8_t>(state);
  event.step = std::max<int64_t>(step, 0);
  sdk::CopyText(id, event.action_id, sizeof event.action_id);
  sdk::CopyText(kind, event.action, sizeof event.action);
  sdk::CopyText(detail, event.detail, sizeof event.detail);
  return event;
}

void CopyLayers(const uint32_t* layers, uint32_t count, EventSlot* event) {
  event->layer_count = std::min<uint32_t>(count, std::size(event->layers));
  std::copy_n(layers, event->layer_count, event->layers);
}

}  // namespace

// ---- actions

void fs_run::CollectActions() {
  // An action is not taken before its trainer has tried; a proposal is a promise, so what is known to fail is
  // said here.
  const auto objection = [this](const sdk::ActionSlot& action) {
    return std::strcmp(action.kind, "enable_qk_norm") == 0 ? guard_refusal_.c_str() : "";
  };
  const auto report = [this](const sdk::ActionSlot& action, wire::ActionState state, const char* detail) {
    EventSlot event = ActionEvent(action.id, action.kind, state, detail, last_step_);
    CopyLayers(action.layers, action.layer_count, &event);
    Publish(event);
  };
  desk_.Collect(exporter_->actions(), NextStep(), options_.exporter.hello.world_size > 1, objection, report);
}

fs_status fs_run::ActionPoll(fs_action* action) {
  if (exporter_ == nullptr || broken_) return FS_NONE;
  CollectActions();
  const sdk::ActionSlot* slot = desk_.Next(NextStep());
  if (slot == nullptr) return FS_NONE;
  std::memset(action, 0, sizeof *action);
  sdk::CopyText(slot->id, action->id, sizeof action->id);
  sdk::CopyText(slot->kind, action->kind, sizeof action->kind);
  sdk::CopyText(slot->issuer, action->issuer, sizeof action->issuer);
  sdk::CopyText(slot->reason, action->reason, sizeof action->reason);
  action->effective_step = slot->effective_step;
  action->expiry_step = slot->expiry_step;
  action->value = slot->value;
  action->layer_count = slot->layer_count;
  std::copy_n(slot->layers, slot->layer_count, action->layers);
  return FS_OK;
}

fs_status fs_run::ActionReport(const char* id, fs_action_state state, const char* detail) {
  if (id == nullptr) return Fail(FS_ERR_ARGUMENT, "fs_action_report: id is null");
  if (state != FS_ACTION_TAKEN && state != FS_ACTION_REFUSED) {
    return Fail(FS_ERR_ARGUMENT, "action state: %d, must be FS_ACTION_TAKEN or FS_ACTION_REFUSED",
                static_cast<int>(state));
  }
  const sdk::ActionSlot* action = desk_.CloseOut(id);
  if (action == nullptr) return Fail(FS_ERR_ARGUMENT, "action '%.79s': none of that id was polled", id);
  EventSlot event = ActionEvent(id, action->kind, static_cast<wire::ActionState>(state), detail, last_step_);
  CopyLayers(action->layers, action->layer_count, &event);
  Publish(event);
  if (state != FS_ACTION_TAKEN) return FS_OK;
  const bool norm = std::strcmp(action->kind, "enable_qk_norm") == 0;
  if (!norm && std::strcmp(action->kind, "qk_clip") != 0) return FS_OK;
  WatchEffect(id, action->kind, action->layers, action->layer_count);
  if (!norm || !guard_.enabled()) return FS_OK;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const uint32_t* end = action->layers + action->layer_count;
    if (action->layer_count == 0 || std::find(action->layers, end, layers_[l].layer) != end)
      guard_.Activate(l);
  }
  AnnounceGuardSwitch(false);  // the action's own effect is watched already
  return FS_OK;
}

void fs_run::WatchEffect(const char* id, const char* action, const uint32_t* layers, uint32_t count) {
  sdk::Effect effect;
  sdk::CopyText(id, effect.action_id, sizeof effect.action_id);
  sdk::CopyText(action, effect.action, sizeof effect.action);
  effect.layer_count = std::min<uint32_t>(count, std::size(effect.layers));
  std::copy_n(layers, effect.layer_count, effect.layers);
  effects_.Start(effect, NextStep());
}

// ---- what a sampled frame says

// At the step's end, whatever a device still owes the frame: by the time it comes the guard may have
// switched.
void fs_run::MarkGuardedLayers(sdk::FrameSlot& frame) noexcept {
  if (!guard_.enabled() || !frame.sampled) return;
  const auto& columns = sampler_->layout().columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool weights =
        columns[i].signal >= foreshock::kWqSigma1 && columns[i].signal < foreshock::kLogitMax;
    if (!weights || columns[i].layer_index < 0) continue;
    if (!guard_.active(static_cast<size_t>(columns[i].layer_index))) continue;
    frame.flags[i] |= kNotCausal;
    frame.has_heads = true;  // so that Clear clears the flags too
  }
}

void fs_run::ObserveFrame(sdk::FrameSlot& frame) {
  effects_.Observe(sampler_->layout(), frame, [this](const sdk::Effect& effect) {
    const auto state = effect.effective ? wire::ActionState::kEffective : wire::ActionState::kNoEffect;
    EventSlot event =
        ActionEvent(effect.action_id, effect.action, state,
                    effect.effective ? "the logits fell" : "the logits did not fall", last_step_);
    CopyLayers(effect.layers, effect.layer_count, &event);
    event.has_logits = true;
    event.logit_before = effect.before;
    event.logit_after = effect.after;
    HoldEvent(event);
  });
  if (guard_.Observe(sampler_->layout(), frame) > 0) guard_switch_waits_ = true;
}

// Events about a frame follow it: between Finish and Publish they are held back.
void fs_run::HoldEvent(const EventSlot& event) noexcept {
  if (held_count_ < held_.size()) held_[held_count_++] = event;
}

void fs_run::FlushEvents() {
  for (size_t i = 0; i < held_count_; ++i) Publish(held_[i]);
  held_count_ = 0;
  if (!guard_switch_waits_) return;
  guard_switch_waits_ = false;
  AnnounceGuardSwitch(true);
}

void fs_run::AnnounceGuardSwitch(bool watch_effect) {
  uint32_t layers[256];
  uint32_t count = 0;
  for (size_t l = 0; l < layers_.size() && count < std::size(layers); ++l) {
    if (guard_.pending(l)) layers[count++] = layers_[l].layer;
  }
  if (count == 0) return;
  GuardEvent("on", layers, count);
  if (!watch_effect) return;
  char id[48];
  std::snprintf(id, sizeof id, "guard-%lld", static_cast<long long>(last_step_));
  WatchEffect(id, "enable_qk_norm", layers, count);
}

void fs_run::GuardEvent(const char* detail, const uint32_t* layers, uint32_t count) {
  EventSlot event;
  event.kind = static_cast<uint8_t>(wire::EventKind::kGuard);
  event.step = std::max<int64_t>(NextStep(), 0);
  sdk::CopyText(detail, event.detail, sizeof event.detail);
  if (count > 0) CopyLayers(layers, count, &event);
  Publish(event);
}

// ---- guard

fs_status fs_run::GuardEnable(const fs_guard_options& options) {
  if (frozen_) return Fail(FS_ERR_STATE, "fs_guard_enable: before the first step, after the layers");
  if (layers_.empty()) return Fail(FS_ERR_STATE, "fs_guard_enable: no layer was added");
  if (options.automatic != 0 && options_.exporter.hello.world_size > 1) {
    return Fail(FS_ERR_UNSUPPORTED,
                "guard.automatic: 1 with world_size %u, ranks would switch at different steps",
                options_.exporter.hello.world_size);
  }
  const Status status = guard_.Enable(options.automatic != 0);
  if (status.ok()) return FS_OK;
  guard_refusal_ = status.message();
  return Fail(FS_ERR_UNSUPPORTED, status);
}

bool fs_run::GuardActive(uint32_t layer) const noexcept {
  const int32_t index = IndexOf(layer);
  return index != kUnknown && guard_.active(static_cast<size_t>(index));
}

fs_status fs_run::GuardActivate(uint32_t layer) {
  if (!guard_.enabled()) return Fail(FS_ERR_STATE, "fs_guard_activate: the guard is not enabled");
  if (layer != FS_ALL_LAYERS && IndexOf(layer) == kUnknown) return UnknownLayer(layer);
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (layer == FS_ALL_LAYERS || layers_[l].layer == layer) guard_.Activate(l);
  }
  AnnounceGuardSwitch(true);
  return FS_OK;
}

fs_status fs_run::GuardSave(void* state, size_t* bytes) const {
  if (bytes == nullptr) return Fail(FS_ERR_ARGUMENT, "fs_guard_save: bytes is null");
  if (!guard_.enabled()) return Fail(FS_ERR_STATE, "fs_guard_save: the guard is not enabled");
  const std::string blob = guard_.Save();
  const size_t room = *bytes;
  *bytes = blob.size();
  if (state == nullptr) return FS_OK;
  if (room < blob.size())
    return Fail(FS_ERR_LIMIT, "fs_guard_save: room for %zu bytes, needs %zu", room, blob.size());
  std::memcpy(state, blob.data(), blob.size());
  return FS_OK;
}

fs_status fs_run::GuardRestore(const void* state, size_t bytes) {
  if (frozen_) return Fail(FS_ERR_STATE, "fs_guard_restore: before the first step");
  if (state == nullptr) return Fail(FS_ERR_ARGUMENT, "fs_guard_restore: state is null");
  const Status status = guard_.Restore({static_cast<const char*>(state), bytes});
  if (!status.ok()) {
    return Fail(status.code() == foreshock::Code::kFailedPrecondition ? FS_ERR_STATE : FS_ERR_ARGUMENT,
                status);
  }
  uint32_t layers[256];
  uint32_t count = 0;
  for (size_t l = 0; l < layers_.size() && count < std::size(layers); ++l) {
    if (guard_.active(l)) layers[count++] = layers_[l].layer;
  }
  GuardEvent(count > 0 ? "restored" : "restored, off", layers, count);
  return FS_OK;
}

fs_status fs_run::ClipFactors(uint32_t layer, double limit, float* factors, uint32_t count) const {
  const int32_t index = IndexOf(layer);
  if (index == kUnknown) return UnknownLayer(layer);
  const sdk::LayerSpec& spec = layers_[static_cast<size_t>(index)];
  if (factors == nullptr) return Fail(FS_ERR_ARGUMENT, "fs_qk_clip_factors: factors is null");
  if (!(limit > 0) || std::isinf(limit)) return Fail(FS_ERR_ARGUMENT, "limit: %g, must be above 0", limit);
  if (count != spec.local_query_heads) {
    return Fail(FS_ERR_SHAPE, "layer %u: factors: %u, this rank's query heads are %u", layer, count,
                spec.local_query_heads);
  }
  for (uint32_t h = 0; h < count; ++h) {
    const double logit =
        sampler_ == nullptr ? 0 : sampler_->attention().last_logit_max(static_cast<size_t>(index))[h];
    factors[h] = sdk::QkClipFactor(logit, limit);
  }
  return FS_OK;
}

fs_status fs_run::ProjectOut(uint32_t layer, fs_projection which, uint32_t local_head, float* delta,
                             int64_t row_stride, int64_t col_stride) const {
  const int32_t index = IndexOf(layer);
  if (index == kUnknown) return UnknownLayer(layer);
  const sdk::LayerSpec& spec = layers_[static_cast<size_t>(index)];
  if (delta == nullptr) return Fail(FS_ERR_ARGUMENT, "fs_project_out: delta is null");
  if (which != FS_WQ && which != FS_WK)
    return Fail(FS_ERR_ARGUMENT, "projection: %d, not FS_WQ or FS_WK", which);
  const uint32_t heads = which == FS_WK ? spec.local_kv_heads : spec.local_query_heads;
  if (local_head >= heads) {
    return Fail(FS_ERR_SHAPE, "layer %u: local_head: %u, this rank has %u", layer, local_head, heads);
  }
  const auto& projection = which == FS_WK ? spec.wk : spec.wq;
  if (projection && projection->device >= 0) {
    return Fail(FS_ERR_UNSUPPORTED, "layer %u: fs_project_out: the weights lie on a GPU", layer);
  }
  const float *u = nullptr, *v = nullptr;
  if (sampler_ == nullptr ||
      !sampler_->weights().Pairs(static_cast<size_t>(index), which == FS_WK, local_head, &u, &v)) {
    return Fail(FS_ERR_STATE, "layer %u: no spectrum of head %u has been taken here", layer, local_head);
  }
  sdk::ProjectOut(delta, row_stride, col_stride, spec.model_dim, spec.head_dim, u, v);
  return FS_OK;
}
