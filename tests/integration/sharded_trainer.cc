// A trainer whose query and key projections are sharded over ranks, as FSDP2 does: for test_sharded.py, which
// starts one process a rank. The weights walk by fixed pseudo-random steps that every process computes alike.
//
//   sharded_trainer ADDRESS RUN RANK WORLD STEPS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "foreshock/foreshock.h"

namespace {

constexpr int kHeads = 4, kDim = 8, kModel = 24, kRows = kHeads * kDim;

double Noise(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return static_cast<double>(x >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
}

// W_t of one side, [kRows, kModel] as torch.nn.Linear stores it: a matrix and a drift and a walk.
std::vector<float> Whole(int side, int64_t step) {
  std::vector<float> w(static_cast<size_t>(kRows) * kModel);
  for (size_t i = 0; i < w.size(); ++i) {
    const uint64_t key = i + 100'000u * static_cast<uint64_t>(side + 1);
    double value = 0.3 * Noise(key) + 1e-4 * static_cast<double>(step) * Noise(key + 7'000'000u);
    for (int64_t t = 0; t < step; ++t) value += 1e-3 * Noise(key + 1'000'003u * static_cast<uint64_t>(t + 1));
    w[i] = static_cast<float>(value);
  }
  return w;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int rank = std::atoi(argv[3]), world = std::atoi(argv[4]);
  const int64_t steps = std::atoll(argv[5]);
  fs_options options;
  fs_options_init(&options);
  options.address = argv[1];
  options.run = argv[2];
  options.attempt = "1";
  options.rank = rank;
  options.world_size = options.local_world_size = world;
  options.budget = 1;
  options.flush_timeout_ms = 60'000;
  fs_run* run = nullptr;
  if (fs_open(&options, &run) != FS_OK) return 1;

  std::vector<float> whole[2] = {Whole(0, 0), Whole(1, 0)}, part[2];
  const int first = kRows * rank / world, last = kRows * (rank + 1) / world;
  fs_weights weights[2];
  for (int side = 0; side < 2; ++side) {
    part[side].assign(whole[side].begin() + first * kModel, whole[side].begin() + last * kModel);
    fs_weights_init(&weights[side]);
    weights[side].row_stride = 1;
    weights[side].col_stride = kModel;
    weights[side].head_stride = kDim * kModel;
    weights[side].data = whole[side].data();
    if (world == 1) continue;
    weights[side].data = nullptr;
    weights[side].sharded = 1;
    weights[side].shard_data = part[side].data();
    weights[side].shard_begin = first * kModel;
    weights[side].shard_end = last * kModel;
    weights[side].shard = static_cast<uint32_t>(rank);
    weights[side].shards = static_cast<uint32_t>(world);
  }
  fs_layer layer;
  fs_layer_init(&layer);
  layer.model_dim = kModel;
  layer.query_heads = layer.kv_heads = kHeads;
  layer.head_dim = kDim;
  layer.wq = &weights[0];
  layer.wk = &weights[1];
  if (fs_add_layer(run, &layer) != FS_OK) {
    std::fprintf(stderr, "%s\n", fs_last_error(run));
    return 1;
  }
  for (int64_t t = 0; t < steps; ++t) {
    fs_step_begin(run, t);
    if (fs_wants_unsharded(run, 0)) fs_layer_unsharded(run, 0, whole[0].data(), whole[1].data());
    fs_loss(run, 2, 16);
    for (int side = 0; side < 2; ++side) {
      const std::vector<float> next = Whole(side, t + 1);
      std::copy(next.begin(), next.end(), whole[side].begin());
      std::copy(next.begin() + first * kModel, next.begin() + last * kModel, part[side].begin());
    }
    fs_step_end(run);
  }
  return fs_close(run, FS_FINISHED) == FS_OK ? 0 : 1;
}
