// What the example trainer has not: attention with learned sinks, and a loss scale. For test_roundtrip.py;
// the numbers are fixed pseudo-random ones, so that every process computes the same.
//
//   sinks_trainer ADDRESS RUN STEPS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "foreshock/foreshock.h"

namespace {

constexpr int kBatch = 2, kSeq = 24, kHeads = 4, kDim = 8, kSinks = 3;

std::vector<float> Values(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u ^ (seed + 1) * 0xBF58476D1CE4E5B9u;
    values[i] = static_cast<float>((x >> 40) % 4096) / 1024.0f - 2.0f;
  }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  fs_options options;
  fs_options_init(&options);
  options.address = argv[1];
  options.run = argv[2];
  options.attempt = "1";
  options.attention_every_steps = 1;
  options.row_every = 1;
  options.budget = 1;
  options.flush_timeout_ms = 60'000;
  fs_run* run = nullptr;
  if (fs_open(&options, &run) != FS_OK) return 1;
  fs_layer layer;
  fs_layer_init(&layer);
  layer.query_heads = layer.kv_heads = kHeads;
  layer.head_dim = kDim;
  if (fs_add_layer(run, &layer) != FS_OK) {
    std::fprintf(stderr, "%s\n", fs_last_error(run));
    return 1;
  }
  constexpr size_t kElements = size_t{kBatch} * kSeq * kHeads * kDim;
  const int64_t steps = std::atoll(argv[3]);
  for (int64_t t = 0; t < steps; ++t) {
    const auto seed = static_cast<uint64_t>(t);
    const std::vector<float> q = Values(kElements, 2 * seed), k = Values(kElements, 2 * seed + 1);
    const std::vector<float> sinks = Values(size_t{kHeads} * kSinks, seed + 1'000);
    fs_step_begin(run, t);
    fs_attention attention;
    fs_attention_init(&attention);
    attention.q = fs_tensor_bshd(q.data(), FS_FP32, kBatch, kSeq, kHeads, kDim);
    attention.k = fs_tensor_bshd(k.data(), FS_FP32, kBatch, kSeq, kHeads, kDim);
    attention.sinks = sinks.data();
    attention.n_sinks = kSinks;
    if (fs_attention_forward(run, 0, &attention) != FS_OK) {
      std::fprintf(stderr, "%s\n", fs_last_error(run));
      return 1;
    }
    fs_loss(run, 2, 16);
    fs_scalar(run, FS_LOSS_SCALE, 65536.0 / static_cast<double>(1 << (t % 4)));
    fs_step_end(run);
  }
  return fs_close(run, FS_FINISHED) == FS_OK ? 0 : 1;
}
