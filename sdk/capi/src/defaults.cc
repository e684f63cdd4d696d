// The fs_..._init functions: every default in one place.
#include <cstring>

#include "foreshock/foreshock.h"

namespace {

template <typename T>
void Zero(T* out) {
  std::memset(out, 0, sizeof *out);
  out->size = sizeof *out;
}

}  // namespace

extern "C" {

void fs_options_init(fs_options* options) {
  if (options == nullptr) return;
  Zero(options);
  options->rank = options->world_size = options->local_world_size = -1;
  options->replicas = 1;
  options->attention_every_steps = 10;
  options->spectra_every_steps = 10;
  options->projections_every_steps = 1;
  options->row_every = 8;
  options->sequence_every = 1;
  options->budget = 0.004;
  options->queue_frames = 256;
  options->queue_bytes = uint64_t{64} << 20;
  options->window_bytes = uint64_t{64} << 20;
  options->flush_timeout_ms = 2000;
}

void fs_weights_init(fs_weights* weights) {
  if (weights == nullptr) return;
  Zero(weights);
  weights->dtype = FS_FP32;
  weights->device = -1;
}

void fs_layer_init(fs_layer* layer) {
  if (layer == nullptr) return;
  Zero(layer);
  layer->causal = 1;
  layer->window_left = layer->window_right = -1;
}

void fs_attention_init(fs_attention* attention) {
  if (attention == nullptr) return;
  Zero(attention);
  attention->grad_enabled = 1;
  attention->device = -1;
}

void fs_guard_options_init(fs_guard_options* options) {
  if (options == nullptr) return;
  Zero(options);
  options->automatic = 1;
}

void fs_stats_init(fs_stats* stats) {
  if (stats != nullptr) Zero(stats);
}

fs_tensor fs_tensor_bshd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                         int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, seq * heads * dim, heads * dim, dim, 1};
}

fs_tensor fs_tensor_bhsd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                         int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, heads * seq * dim, dim, seq * dim, 1};
}

}  // extern "C"
