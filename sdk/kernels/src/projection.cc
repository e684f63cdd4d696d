#include <bit>
#include <cmath>

#include "dot.h"
#include "foreshock/sdk/weight_probe.h"
#include "load.h"
#include "weight_checks.h"

namespace foreshock::kernels {
namespace {

// sum_i outer[i] * (sum_j W(i, j) inner[j]), i and j named by stride. The inner sum runs in kLanes partial
// sums.
constexpr int64_t kLanes = 4;

template <typename T>
double Bilinear(const T* data, int64_t outer_n, int64_t outer_stride, const float* outer, int64_t inner_n,
                int64_t inner_stride, const float* inner) {
  double total = 0;
  for (int64_t i = 0; i < outer_n; ++i) {
    const T* line = data + i * outer_stride;
    double lane[kLanes] = {0, 0, 0, 0};
    int64_t j = 0;
    if (inner_stride == 1) {
      for (; j + kLanes <= inner_n; j += kLanes) {
        for (int64_t l = 0; l < kLanes; ++l) {
          lane[l] += static_cast<double>(Widen(line[j + l])) * static_cast<double>(inner[j + l]);
        }
      }
    }
    for (; j < inner_n; ++j) {
      lane[0] += static_cast<double>(Widen(line[j * inner_stride])) * static_cast<double>(inner[j]);
    }
    total += static_cast<double>(outer[i]) * ((lane[0] + lane[1]) + (lane[2] + lane[3]));
  }
  return total;
}

template <typename T>
double ProjectOne(const T* data, const WeightView& w, const float* u, const float* v) {
  if (w.d_model == 0 || w.d_head == 0) return 0;
  // The inner loop follows memory.
  if (w.row_stride == 1 && w.col_stride != 1) {
    return Bilinear(data, w.d_head, w.col_stride, v, w.d_model, w.row_stride, u);
  }
  return Bilinear(data, w.d_model, w.row_stride, u, w.d_head, w.col_stride, v);
}

double AbsDot(const float* a, const float* b, int64_t n) { return std::abs(DotInDouble(a, b, n)); }

uint64_t HashFloats(const float* x, int64_t n, uint64_t hash) {
  for (int64_t i = 0; i < n; ++i) {
    hash = (hash ^ std::bit_cast<uint32_t>(x[i])) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

uint64_t HashPairs(const float* u, int64_t d_model, const float* v, int64_t d_head) noexcept {
  return HashFloats(v, kPairs * d_head, HashFloats(u, kPairs * d_model, 0xcbf29ce484222325u));
}

KernelStatus ProjectPairs(const WeightView* weights, int32_t n, const float* u, int64_t u_stride,
                          const float* v, int64_t v_stride, double* r) noexcept {
  const KernelStatus status = CheckWeights(weights, n);
  if (status != KernelStatus::kOk) return status;
  if (n > 0 && (u == nullptr || v == nullptr || r == nullptr)) return KernelStatus::kNullPointer;
  for (int32_t h = 0; h < n; ++h) {
    const WeightView& w = weights[h];
    if (w.d_model > u_stride || w.d_head > v_stride) return KernelStatus::kBadShape;
  }
  for (int32_t h = 0; h < n; ++h) {
    const WeightView& w = weights[h];
    for (int i = 0; i < kPairs; ++i) {
      const int64_t pair = int64_t{h} * kPairs + i;
      double sum = 0;
      WithElements(w.data, w.dtype, [&](const auto* data) {
        sum = ProjectOne(data, w, u + pair * u_stride, v + pair * v_stride);
      });
      r[pair] = sum;
    }
  }
  return KernelStatus::kOk;
}

void MatchPairs(const float* u_old, const float* u_new, int64_t d_model, const float* v_old,
                const float* v_new, int64_t d_head, double match[kPairs]) noexcept {
  for (int i = 0; i < kPairs; ++i) {
    match[i] = AbsDot(u_old + i * d_model, u_new + i * d_model, d_model) *
               AbsDot(v_old + i * d_head, v_new + i * d_head, d_head);
  }
}

}  // namespace foreshock::kernels
