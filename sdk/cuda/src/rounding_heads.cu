// One block a head: the median of ||P K||^2, then the sums over its rows in a fixed order.
#include <cuda_runtime.h>

#include "attention_rows.cuh"
#include "rounding_rows.h"

namespace foreshock::cuda {
namespace {

using kernels::RatioSums;
using kernels::RoundingHeadStats;

constexpr int kThreads = 512;
constexpr float kNegligible = 1e-6f;  // of the head's median

// The norms of a head's rows that count and are numbers; they are not negative, so that they order as their
// bits do.
struct Norms {
  const RoundingRecord* records;
  int64_t count;

  // f(bits) for this thread's.
  template <typename F>
  __device__ void ForEach(F&& f) const {
    for (int64_t i = threadIdx.x; i < count; i += kThreads) {
      const float norm = records[i].key_norm2;
      if (records[i].counts && !isnan(norm)) f(Bits(norm));
    }
  }
};

// One warp: the bin that holds the element of this rank (from 0), and its rank within the bin.
__device__ void FindBin(const int* histogram, int64_t rank, int* bin, int64_t* within) {
  constexpr int kEach = 256 / 32;
  const int first = static_cast<int>(threadIdx.x % 32) * kEach;
  int64_t mine = 0;
  for (int i = 0; i < kEach; ++i) mine += histogram[first + i];
  int64_t upto = mine;  // and in the lower lanes
  for (int by = 1; by < 32; by *= 2) {
    const int64_t below = __shfl_up_sync(kWarp, upto, by);
    if (static_cast<int>(threadIdx.x % 32) >= by) upto += below;
  }
  int64_t left = rank - (upto - mine);
  if (left < 0 || left >= mine) return;
  int at = first;
  while (left >= histogram[at]) left -= histogram[at++];
  *bin = at;
  *within = left;
}

// The bits of the k-th smallest norm (from 0), digit by digit.
__device__ unsigned KthNorm(const Norms& norms, int64_t k, int* histogram) {
  __shared__ int bin;
  __shared__ int64_t rank;
  unsigned prefix = 0;
  if (threadIdx.x == 0) rank = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) histogram[threadIdx.x] = 0;
    __syncthreads();
    const unsigned above = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    norms.ForEach([&](unsigned bits) {
      if ((bits & above) == prefix) atomicAdd(&histogram[bits >> shift & 255], 1);
    });
    __syncthreads();
    const int64_t wanted = rank;
    __syncthreads();
    if (threadIdx.x < 32) FindBin(histogram, wanted, &bin, &rank);
    __syncthreads();
    prefix |= static_cast<unsigned>(bin) << shift;
  }
  return prefix;
}

// The bits of the norm that comes before `bits`, which is the k-th smallest: the same where more than one has
// them.
__device__ unsigned NormBefore(const Norms& norms, unsigned bits, int64_t k) {
  __shared__ unsigned long long below;
  __shared__ unsigned largest;
  if (threadIdx.x == 0) below = largest = 0;
  __syncthreads();
  unsigned long long mine = 0;
  unsigned most = 0;
  norms.ForEach([&](unsigned other) {
    if (other >= bits) return;
    ++mine;
    most = max(most, other);
  });
  if (mine > 0) {
    atomicAdd(&below, mine);
    atomicMax(&largest, most);
  }
  __syncthreads();
  return static_cast<int64_t>(below) == k ? largest : bits;
}

__device__ double Sign(double x) {
  return isnan(x) ? x : static_cast<double>(x > 0) - static_cast<double>(x < 0);
}

__device__ void AddRow(double n, double d, RatioSums* sums) {
  sums->num += n;
  sums->den += d;
  sums->num_num += n * n;
  sums->num_den += n * d;
  sums->den_den += d * d;
  sums->rows += 1;
}

__device__ void AddRecord(const RoundingRecord& row, bool backward, bool gradients, float least,
                          RoundingHeadStats* head) {
  AddRow(row.output_error, row.output_ulp, &head->output_bias);
  AddRow(row.output_error, row.output_ulp, row.tied ? &head->output_bias_tied : &head->output_bias_other);
  head->output_elements += row.output_elements;
  if (!backward) return;
  AddRow(row.delta_output, fabs(row.delta_exact), &head->delta_output);
  head->delta_output_sign += Sign(row.delta_output);
  if (!gradients) return;
  if (row.key_norm2 < least || row.key_norm2 == 0) {
    head->delta_error_left_out += 1;
    return;
  }
  AddRow(row.delta_error, fabs(row.delta_ref), &head->delta_error);
  head->delta_error_sign += Sign(row.delta_error);
}

// All of a head's sums are doubles.
constexpr int kFields = sizeof(RoundingHeadStats) / sizeof(double);

__global__ void __launch_bounds__(kThreads)
    RoundingHeads(const __grid_constant__ TileList list, bool backward, bool gradients,
                  const uint32_t* enabled, const RoundingRecord* records, RoundingHeadStats* heads) {
  if (enabled != nullptr && *enabled == 0) return;
  __shared__ int histogram[256];
  __shared__ double of_warp[kThreads / 32][kFields];
  const int64_t tiles =
      list.prefix == nullptr ? list.max_tiles : int64_t{list.prefix[list.sampled_sequences]};
  const int64_t count = tiles * list.rows_per_tile;
  const RoundingRecord* mine = records + blockIdx.x * list.max_tiles * list.rows_per_tile;
  float least = 0;
  if (gradients) {
    int64_t n = 0;
    for (int64_t first = 0; first < count; first += kThreads) {
      const int64_t i = first + threadIdx.x;
      n += __syncthreads_count(i < count && mine[i].counts && !isnan(mine[i].key_norm2));
    }
    if (n > 0) {
      const Norms norms{mine, count};
      const unsigned high = KthNorm(norms, n / 2, histogram);
      const unsigned low = n % 2 == 1 ? high : NormBefore(norms, high, n / 2);
      least = kNegligible * (0.5f * Float(low) + 0.5f * Float(high));
    }
  }
  RoundingHeadStats sums;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    if (mine[i].counts) AddRecord(mine[i], backward, gradients, least, &sums);
  }
  auto* fields = reinterpret_cast<double*>(&sums);
  for (int f = 0; f < kFields; ++f) {
    for (int lane = 16; lane > 0; lane /= 2) fields[f] += __shfl_xor_sync(kWarp, fields[f], lane);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][f] = fields[f];
  }
  __syncthreads();
  for (int f = static_cast<int>(threadIdx.x); f < kFields; f += kThreads) {
    double sum = 0;
    for (int w = 0; w < kThreads / 32; ++w) sum += of_warp[w][f];
    reinterpret_cast<double*>(heads + blockIdx.x)[f] = sum;
  }
}

}  // namespace

int LaunchRoundingHeads(const kernels::RoundingProblem& p, const TileList& list, const uint32_t* enabled,
                        const RoundingRecord* records, RoundingHeadStats* heads, cudaStream_t stream) {
  const bool backward = p.d_o.data != nullptr;
  RoundingHeads<<<list.heads, kThreads, 0, stream>>>(list, backward, backward && p.dq.data != nullptr,
                                                     enabled, records, heads);
  return cudaGetLastError();
}

}  // namespace foreshock::cuda
