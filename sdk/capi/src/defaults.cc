// The fs_..._init functions: every default in one place.
#include <cstring>

#include "foreshock/foreshock.h"

namespace {

// Writes the defaults that fit into `size` bytes, zeroes what a newer program has beyond them, and no byte
// more.
template <typename T>
void WriteSized(T defaults, T* out, uint32_t size) {
  if (out == nullptr || size < sizeof defaults.size) return;
  defaults.size = size;
  std::memset(out, 0, size);
  std::memcpy(out, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

}  // namespace

extern "C" {

void fs_options_init_size(fs_options* options, uint32_t size) {
  fs_options d{};
  d.rank = d.world_size = d.local_world_size = -1;
  d.replicas = 1;
  d.attention_every_steps = 10;
  d.spectra_every_steps = 10;
  d.projections_every_steps = 1;
  d.row_every = 8;
  d.sequence_every = 1;
  d.budget = 0.004;
  d.queue_frames = 256;
  d.queue_bytes = uint64_t{64} << 20;
  d.window_bytes = uint64_t{64} << 20;
  d.flush_timeout_ms = 2000;
  WriteSized(d, options, size);
}

void fs_weights_init_size(fs_weights* weights, uint32_t size) {
  fs_weights d{};
  d.dtype = d.shard_dtype = FS_FP32;
  d.device = -1;
  d.shards = 1;
  WriteSized(d, weights, size);
}

void fs_layer_init_size(fs_layer* layer, uint32_t size) {
  fs_layer d{};
  d.causal = 1;
  d.window_left = d.window_right = -1;
  WriteSized(d, layer, size);
}

void fs_attention_init_size(fs_attention* attention, uint32_t size) {
  fs_attention d{};
  d.grad_enabled = 1;
  d.device = -1;
  d.causal = -1;
  WriteSized(d, attention, size);
}

void fs_guard_options_init_size(fs_guard_options* options, uint32_t size) {
  fs_guard_options d{};
  d.automatic = 1;
  WriteSized(d, options, size);
}

void fs_stats_init_size(fs_stats* stats, uint32_t size) { WriteSized(fs_stats{}, stats, size); }

fs_tensor fs_tensor_bshd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                         int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, seq * heads * dim, heads * dim, dim, 1};
}

fs_tensor fs_tensor_bhsd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                         int64_t dim) {
  return {data, dtype, batch, seq, heads, dim, heads * seq * dim, dim, seq * dim, 1};
}

}  // extern "C"
