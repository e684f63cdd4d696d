// The C functions: nothing but null checks, inertness, and a net for exceptions.
#include <cstdio>
#include <memory>
#include <new>

#include "convert.h"
#include "foreshock/sdk/fork_guard.h"
#include "foreshock/sdk/interventions.h"
#include "open_runs.h"
#include "run.h"

namespace sdk = foreshock::sdk;

namespace {

// Whatever happens inside stays inside: bad_alloc and the like become a status.
template <typename Call>
fs_status Guarded(const fs_run* run, Call&& call) noexcept {
  if (run == nullptr || run->inert()) return FS_OK;
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return run->Fail(FS_ERR_MEMORY, "no memory");
  } catch (...) {
    return run->Fail(FS_ERR_STATE, "unexpected failure inside Foreshock");
  }
}

template <typename T, typename Init>
bool WithDefaults(const T* in, T* out, Init init) {
  init(out);
  return in == nullptr || sdk::CopySized(*in, out);
}

fs_status FromTensorStatus(const foreshock::Status& status) { return status.ok() ? FS_OK : FS_ERR_SHAPE; }

void LogOpen(const fs_options* options, const std::string& text) {
  if (options->log != nullptr) {
    options->log(options->log_context, FS_LOG_ERROR, text.c_str());
  } else {
    std::fprintf(stderr, "foreshock: %s\n", text.c_str());
  }
}

}  // namespace

extern "C" {

const char* fs_version(void) { return FS_VERSION; }

const char* fs_status_name(fs_status status) {
  switch (status) {
    case FS_OK:
      return "ok";
    case FS_NONE:
      return "none";
    case FS_ERR_ARGUMENT:
      return "bad argument";
    case FS_ERR_SHAPE:
      return "bad shape";
    case FS_ERR_DTYPE:
      return "unsupported dtype";
    case FS_ERR_UNKNOWN_LAYER:
      return "unknown layer";
    case FS_ERR_STATE:
      return "wrong moment";
    case FS_ERR_LIMIT:
      return "limit reached";
    case FS_ERR_MEMORY:
      return "no memory";
    case FS_ERR_UNSUPPORTED:
      return "unsupported";
  }
  return "unknown status";
}

const char* fs_last_error(const fs_run* run) { return run == nullptr ? "" : run->last_error(); }

fs_status fs_open(const fs_options* given, fs_run** run) {
  if (run == nullptr) return FS_ERR_ARGUMENT;
  *run = nullptr;
  fs_options options;
  if (!WithDefaults(given, &options, fs_options_init)) {
    fs_options_init(&options);
    LogOpen(&options, "options.size: " + std::to_string(given->size) + ", call fs_options_init first");
    return FS_ERR_ARGUMENT;
  }
  try {
    auto read = sdk::ReadOptions(options, sdk::ProcessEnvironment());
    if (!read.ok()) {
      LogOpen(&options, "nothing is recorded: " + read.status().message());
      return FS_ERR_ARGUMENT;
    }
    auto made = std::make_unique<fs_run>(std::move(read).value(), foreshock::SystemClock::Instance());
    if (!made->inert()) sdk::RememberOpen(made.get());
    *run = made.release();
    return FS_OK;
  } catch (...) {
    return FS_ERR_MEMORY;
  }
}

int fs_attached(const fs_run* run) { return run != nullptr && !run->inert(); }

fs_status fs_close(fs_run* run, fs_end end) {
  if (run == nullptr) return FS_OK;
  // In a forked child the handle's thread, locks and descriptors are the parent's: it is left alone.
  if (sdk::ForkGeneration() != run->fork_generation()) return FS_OK;
  if (end != FS_FINISHED && end != FS_FAILED && end != FS_STOPPED) end = FS_FINISHED;
  const fs_status status = Guarded(run, [&] {
    run->Close(end);
    return FS_OK;
  });
  sdk::ForgetOpen(run);
  delete run;
  return status;
}

fs_status fs_add_layer(fs_run* run, const fs_layer* layer) {
  return Guarded(run, [&] {
    if (layer == nullptr) return run->Fail(FS_ERR_ARGUMENT, "fs_add_layer: layer is null");
    fs_layer copy;
    if (!WithDefaults(layer, &copy, fs_layer_init)) {
      return run->Fail(FS_ERR_ARGUMENT, "layer.size: %u, call fs_layer_init first", layer->size);
    }
    return run->AddLayer(copy);
  });
}

fs_status fs_layer_set_weights(fs_run* run, uint32_t layer, const fs_weights* wq, const fs_weights* wk) {
  return Guarded(run, [&] { return run->SetWeights(layer, wq, wk); });
}

fs_status fs_set_stream(fs_run* run, int32_t device, void* stream) {
  return Guarded(run, [&] { return run->SetStream(device, stream); });
}

int fs_wants_unsharded(const fs_run* run, uint32_t layer) {
  return run != nullptr && !run->inert() && run->WantsUnsharded(layer);
}

fs_status fs_layer_unsharded(fs_run* run, uint32_t layer, const void* wq, const void* wk) {
  return Guarded(run, [&] { return run->Unsharded(layer, wq, wk); });
}

fs_status fs_weights_replaced(fs_run* run) {
  return Guarded(run, [&] { return run->WeightsReplaced(); });
}

fs_status fs_unmonitored(fs_run* run, const char* name, const char* reason) {
  return Guarded(run, [&] { return run->Unmonitored(name, reason); });
}

fs_status fs_step_begin(fs_run* run, int64_t step) {
  return Guarded(run, [&] { return run->StepBegin(step); });
}

int fs_wants_attention(const fs_run* run, uint32_t layer) {
  return run != nullptr && !run->inert() && run->WantsForward(layer);
}

int fs_wants_attention_backward(const fs_run* run, uint32_t layer) {
  return run != nullptr && !run->inert() && run->WantsBackward(layer);
}

fs_status fs_attention_forward(fs_run* run, uint32_t layer, const fs_attention* attention) {
  return Guarded(run, [&] {
    if (attention == nullptr) return run->Fail(FS_ERR_ARGUMENT, "fs_attention_forward: attention is null");
    return run->Forward(layer, *attention);
  });
}

fs_status fs_attention_backward(fs_run* run, uint32_t layer, const fs_attention* attention) {
  return Guarded(run, [&] {
    if (attention == nullptr) return run->Fail(FS_ERR_ARGUMENT, "fs_attention_backward: attention is null");
    return run->Backward(layer, *attention);
  });
}

fs_status fs_loss(fs_run* run, double mean_loss, double tokens) {
  return Guarded(run, [&] { return run->Loss(mean_loss, tokens); });
}

fs_status fs_scalar(fs_run* run, fs_scalar_id id, double value) {
  return Guarded(run, [&] { return run->Scalar(id, value); });
}

fs_status fs_loss_at(fs_run* run, const void* mean_loss, fs_dtype dtype, int32_t device, void* stream,
                     double tokens) {
  return Guarded(run, [&] { return run->LossAt({mean_loss, dtype, device, stream}, tokens); });
}

fs_status fs_scalar_at(fs_run* run, fs_scalar_id id, const void* value, fs_dtype dtype, int32_t device,
                       void* stream) {
  return Guarded(run, [&] { return run->ScalarAt(id, {value, dtype, device, stream}); });
}

fs_status fs_step_skipped(fs_run* run) {
  return Guarded(run, [&] { return run->StepSkipped(); });
}

fs_status fs_step_end(fs_run* run) {
  return Guarded(run, [&] { return run->StepEnd(); });
}

fs_status fs_event(fs_run* run, fs_event_kind kind, int64_t step, const char* detail) {
  return Guarded(run, [&] { return run->Event(kind, step, detail); });
}

fs_status fs_action_poll(fs_run* run, fs_action* action) {
  if (run == nullptr || run->inert()) return FS_NONE;
  return Guarded(run, [&] {
    if (action == nullptr) return run->Fail(FS_ERR_ARGUMENT, "fs_action_poll: action is null");
    return run->ActionPoll(action);
  });
}

fs_status fs_action_report(fs_run* run, const char* id, fs_action_state state, const char* detail) {
  return Guarded(run, [&] { return run->ActionReport(id, state, detail); });
}

fs_status fs_guard_enable(fs_run* run, const fs_guard_options* options) {
  return Guarded(run, [&] {
    fs_guard_options copy;
    if (!WithDefaults(options, &copy, fs_guard_options_init)) {
      return run->Fail(FS_ERR_ARGUMENT, "guard options.size: %u, call fs_guard_options_init first",
                       options->size);
    }
    return run->GuardEnable(copy);
  });
}

int fs_guard_active(const fs_run* run, uint32_t layer) {
  return run != nullptr && !run->inert() && run->GuardActive(layer);
}

fs_status fs_guard_activate(fs_run* run, uint32_t layer) {
  return Guarded(run, [&] { return run->GuardActivate(layer); });
}

fs_status fs_guard_save(const fs_run* run, void* state, size_t* bytes) {
  if ((run == nullptr || run->inert()) && bytes != nullptr) *bytes = 0;
  return Guarded(run, [&] { return run->GuardSave(state, bytes); });
}

fs_status fs_guard_restore(fs_run* run, const void* state, size_t bytes) {
  return Guarded(run, [&] { return run->GuardRestore(state, bytes); });
}

fs_status fs_qk_norm_forward(const fs_tensor* x, const fs_tensor* y) {
  if (x == nullptr || y == nullptr) return FS_ERR_ARGUMENT;
  try {
    return FromTensorStatus(sdk::QkNormForward(sdk::ToView(*x), sdk::ToView(*y)));
  } catch (...) {
    return FS_ERR_MEMORY;
  }
}

fs_status fs_qk_norm_backward(const fs_tensor* x, const fs_tensor* dy, const fs_tensor* dx) {
  if (x == nullptr || dy == nullptr || dx == nullptr) return FS_ERR_ARGUMENT;
  try {
    return FromTensorStatus(sdk::QkNormBackward(sdk::ToView(*x), sdk::ToView(*dy), sdk::ToView(*dx)));
  } catch (...) {
    return FS_ERR_MEMORY;
  }
}

fs_status fs_qk_clip_factors(const fs_run* run, uint32_t layer, double limit, float* factors,
                             uint32_t count) {
  return Guarded(run, [&] { return run->ClipFactors(layer, limit, factors, count); });
}

fs_status fs_project_out(const fs_run* run, uint32_t layer, fs_projection which, uint32_t local_head,
                         float* delta, int64_t row_stride, int64_t col_stride) {
  return Guarded(run,
                 [&] { return run->ProjectOut(layer, which, local_head, delta, row_stride, col_stride); });
}

fs_status fs_get_stats(const fs_run* run, fs_stats* stats) {
  if (stats == nullptr) return FS_ERR_ARGUMENT;
  if (stats->size < sizeof(uint32_t) || stats->size > (1u << 16)) return FS_ERR_ARGUMENT;
  const uint32_t size = stats->size;
  fs_stats all;
  fs_stats_init(&all);
  try {
    if (run != nullptr) {
      run->Stats(&all);
    } else {
      sdk::CopyText("no handle", all.not_recording, sizeof all.not_recording);
    }
  } catch (...) {
    return FS_ERR_MEMORY;
  }
  std::memcpy(stats, &all, size < sizeof all ? size : sizeof all);
  stats->size = size;
  return FS_OK;
}

}  // extern "C"
