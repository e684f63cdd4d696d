// FinishHeads: one block a head adds up what the row kernels' warps left, in a fixed order and in double, and
// writes the head's AttentionHeadStats. No atomics, so the same rows give the same bits. It takes one call's
// heads, or those of many calls at once.
//
// PlanTiles: before the row kernels, one block counts the tiles of packed sequences from cu_seqlens on the
// device.
#include "attention_finish.h"

#include <algorithm>

#include "attention_partial.cuh"
#include "kernel_launch.cuh"

namespace foreshock::cuda {
namespace {

constexpr int kThreads = 256;

// A head's sums, as a thread, a warp and the block hold them.
struct Sums {
  double value[10] = {};
  double largest = -INFINITY;
  double smallest = INFINITY;

  __device__ void Add(const WarpPartial& x) {
    const double add[10] = {x.rows,      x.visited, x.tied, x.tied_bf16, x.unit_p,
                            x.saturated, x.entropy, x.lse,  x.sink,      x.learned_sink};
#pragma unroll
    for (int i = 0; i < 10; ++i) value[i] += add[i];
    Extremes(x.largest, x.smallest);
  }
  // NaN wins.
  __device__ void Extremes(double high, double low) {
    largest = isnan(high) || isnan(largest) ? NAN : fmax(largest, high);
    smallest = isnan(low) || isnan(smallest) ? NAN : fmin(smallest, low);
  }
  __device__ void AddLane(int lane) {
#pragma unroll
    for (int i = 0; i < 10; ++i) value[i] += __shfl_xor_sync(kWarp, value[i], lane);
    Extremes(__shfl_xor_sync(kWarp, largest, lane), __shfl_xor_sync(kWarp, smallest, lane));
  }
};

// Calls whose heads one launch adds up; a block a head, call after call.
template <int kMost>
struct Batch {
  HeadsToFinish calls[kMost];
  unsigned end[kMost];  // blocks up to and with this call's
};

// Partials are added in a fixed order: by thread, by lane, by warp. From sm_90 on its blocks may be there
// before the scoring kernel has ended, and wait for it.
template <int kMost>
__global__ void __launch_bounds__(kThreads) FinishHeads(const __grid_constant__ Batch<kMost> batch) {
  WaitForKernelAhead();
  int call = 0;
  while (kMost > 1 && blockIdx.x >= batch.end[call]) ++call;
  const TileList& list = batch.calls[call].list;
  const uint32_t* enabled = batch.calls[call].enabled;
  if (enabled != nullptr && *enabled == 0) return;
  const int head = static_cast<int>(blockIdx.x) - (static_cast<int>(batch.end[call]) - list.heads);
  const WarpPartial* mine = batch.calls[call].partials + head * list.PartialsPerHead();
  const bool packed = list.prefix != nullptr;
  const int64_t count =
      packed ? int64_t{list.prefix[list.sampled_sequences]} * list.warps_per_tile : list.PartialsPerHead();
  Sums sums;
#pragma unroll 4  // their loads do not wait for each other
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sums.Add(mine[i]);
  for (int lane = 16; lane > 0; lane /= 2) sums.AddLane(lane);
  __shared__ Sums of_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sums;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) {
    for (int i = 0; i < 10; ++i) sums.value[i] += of_warp[w].value[i];
    sums.Extremes(of_warp[w].largest, of_warp[w].smallest);
  }
  kernels::AttentionHeadStats out;
  out.rows = sums.value[0];
  out.rows_visited = sums.value[1];
  out.tied_rows = sums.value[2];
  out.tied_rows_bf16 = sums.value[3];
  out.unit_p_rows = sums.value[4];
  out.saturated_rows = sums.value[5];
  out.entropy_sum = sums.value[6];
  out.lse_sum = sums.value[7];
  out.sink_weight_sum = sums.value[8];
  out.learned_sink_weight_sum = sums.value[9];
  out.logit_max = out.rows == 0 ? 0 : sums.largest;
  out.logit_min = out.rows == 0 ? 0 : sums.smallest;
  if (packed && list.prefix[list.sampled_sequences + 1] == 0) out.rows_visited = NAN;
  batch.calls[call].heads[head] = out;
}

// How many tiles come before each sampled sequence. One block; offsets that are no offsets leave no tile.
__global__ void __launch_bounds__(1024)
    PlanTiles(const AttentionProblem p, TileList list, const uint32_t* enabled, int32_t* prefix) {
  if (enabled != nullptr && *enabled == 0) return;
  const int32_t* k = p.cu_seqlens_k == nullptr ? p.cu_seqlens_q : p.cu_seqlens_k;
  bool good = true;
  for (int64_t i = threadIdx.x; i < p.n_sequences; i += blockDim.x) {
    good &= p.cu_seqlens_q[i] <= p.cu_seqlens_q[i + 1] && k[i] <= k[i + 1];
  }
  good &= p.cu_seqlens_q[0] >= 0 && k[0] >= 0;
  good &= p.cu_seqlens_q[p.n_sequences] <= p.q.seq && k[p.n_sequences] <= p.k.seq;
  good = __syncthreads_and(good);

  __shared__ int of_warp[32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  int before = 0;
  for (int first = 0; first < list.sampled_sequences; first += 1024) {
    const int ordinal = first + static_cast<int>(threadIdx.x);
    int tiles = 0;
    if (good && ordinal < list.sampled_sequences) {
      const int sequence = SampledSequence(p, ordinal);
      int row = 0;
      const int rows = SampledRows(p, ordinal, p.cu_seqlens_q[sequence + 1] - p.cu_seqlens_q[sequence], &row);
      tiles = (rows + list.rows_per_tile - 1) / list.rows_per_tile;
    }
    int sum = tiles;  // of this and the lower lanes
    for (int by = 1; by < 32; by *= 2) {
      const int below = __shfl_up_sync(kWarp, sum, by);
      if (lane >= by) sum += below;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int start = before;
    for (int w = 0; w < 32; ++w) {
      if (w < warp) start += of_warp[w];
      before += of_warp[w];
    }
    if (ordinal < list.sampled_sequences) prefix[ordinal] = start + sum - tiles;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    prefix[list.sampled_sequences] = before;
    prefix[list.sampled_sequences + 1] = good;
  }
}

}  // namespace

int LaunchPlanTiles(const AttentionProblem& problem, const TileList& list, const uint32_t* enabled,
                    int32_t* prefix, cudaStream_t stream) {
  PlanTiles<<<1, 1024, 0, stream>>>(problem, list, enabled, prefix);
  return cudaGetLastError();
}

int LaunchFinishHeads(const HeadsToFinish& call, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(call.list.heads);
  return LaunchEarly<FinishHeads<1>>(blocks, kThreads, 0, stream, Batch<1>{{call}, {blocks}});
}

// Not early: what is ahead on the stream is not ours, and need not have waited for what is ahead of it.
int LaunchFinishHeads(const HeadsToFinish* calls, size_t count, cudaStream_t stream) {
  constexpr size_t kMost = 16;  // 4 KB of parameters is what every driver takes
  for (size_t first = 0; first < count; first += kMost) {
    Batch<kMost> batch{};
    unsigned blocks = 0;
    for (size_t i = 0; i < std::min(kMost, count - first); ++i) {
      batch.calls[i] = calls[first + i];
      batch.end[i] = blocks += static_cast<unsigned>(calls[first + i].list.heads);
    }
    FinishHeads<kMost><<<blocks, kThreads, 0, stream>>>(batch);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace foreshock::cuda
