#include "foreshock/sdk/weight_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "arena.h"
#include "gram.h"
#include "gram_product.h"
#include "head_spectrum.h"
#include "weight_checks.h"

namespace foreshock::kernels {
namespace {

struct Extents {
  int64_t model = 0;
  int64_t head = 0;
};

Extents LargestOf(const WeightView* weights, int32_t n) {
  Extents e;
  for (int32_t h = 0; h < n; ++h) {
    if (!ShapeInRange(weights[h])) continue;  // ProbeWeights refuses it
    e.model = std::max(e.model, weights[h].d_model);
    e.head = std::max(e.head, weights[h].d_head);
  }
  return e;
}

struct Buffers {
  SpectrumBuffers spectrum;
  GramProductBuffers product;
  double* gram_q = nullptr;
  double* gram_k = nullptr;
};

Buffers Layout(Arena* arena, Extents e) {
  const int64_t square = e.head * e.head;
  Buffers b;
  b.gram_q = arena->Take<double>(square);
  b.gram_k = arena->Take<double>(square);
  b.product.factor = arena->Take<double>(square);
  b.product.product = arena->Take<double>(square);
  b.product.diagonal = arena->Take<double>(e.head);
  Tridiagonal& t = b.spectrum.tridiagonal;
  t.a = arena->Take<double>(square);
  t.diagonal = arena->Take<double>(e.head);
  t.off = arena->Take<double>(e.head);
  t.tau = arena->Take<double>(e.head);
  t.scratch = arena->Take<double>(e.head);
  b.spectrum.vectors = arena->Take<double>(kPairs * e.head);
  b.spectrum.left = arena->Take<double>(kPairs * e.model);
  b.spectrum.work = arena->Take<double>(5 * e.head);
  b.spectrum.tile = arena->Take<double>(GramTileElements(e.head));
  return b;
}

Extents ExtentsOf(const WeightSet& set) {
  const Extents q = LargestOf(set.wq, set.wq == nullptr ? 0 : set.n_q);
  const Extents k = LargestOf(set.wk, set.wk == nullptr ? 0 : set.n_k);
  return {std::max(q.model, k.model), std::max(q.head, k.head)};
}

int32_t KvOf(const WeightSet& set, int32_t query) {
  return set.kv_of_query == nullptr ? query : set.kv_of_query[query];
}

KernelStatus Check(const WeightSet& set) {
  KernelStatus status = CheckWeights(set.wq, set.n_q);
  if (status == KernelStatus::kOk) status = CheckWeights(set.wk, set.n_k);
  if (status != KernelStatus::kOk || set.n_k == 0) return status;
  if (set.kv_of_query == nullptr && set.n_q != set.n_k) return KernelStatus::kBadShape;
  for (int32_t h = 0; h < set.n_q; ++h) {
    const int32_t kv = KvOf(set, h);
    if (kv < 0 || kv >= set.n_k || set.wk[kv].d_head != set.wq[h].d_head) return KernelStatus::kBadShape;
  }
  return KernelStatus::kOk;
}

PairsOut PairsOfHead(float* u, float* v, Extents e, int32_t head) {
  PairsOut out{u, v, e.model, e.head};
  if (u != nullptr) out.u += head * kPairs * e.model;
  if (v != nullptr) out.v += head * kPairs * e.head;
  return out;
}

double QkSigma1(const Gram& q, const Gram& k, const Buffers& b) {
  if (!q.finite || !k.finite) return std::numeric_limits<double>::quiet_NaN();
  Tridiagonal t = b.spectrum.tridiagonal;
  TridiagonaliseProduct(q.g, k.g, q.n, b.product, &t);
  if (t.n == 0) return 0;
  double lambda = 0;
  LargestEigenvalues(t, 1, &lambda);
  return std::sqrt(std::max(lambda, 0.0)) * q.scale * k.scale;
}

// One side's heads share their pairs' layout.
class Prober {
 public:
  Prober(const WeightSet& set, const WeightProbeResult& result, const Buffers& buffers)
      : set_(set),
        result_(result),
        b_(buffers),
        q_(LargestOf(set.wq, set.n_q)),
        k_(LargestOf(set.wk, set.n_k)) {}

  void QueryHead(int32_t h, const Gram* gram_k) {
    Gram gram;
    gram.g = b_.gram_q;
    ComputeGram(set_.wq[h], b_.spectrum.tile, &gram);
    if (result_.q != nullptr || result_.u_q != nullptr || result_.v_q != nullptr) {
      const HeadSpectrum s =
          ComputeSpectrum(set_.wq[h], gram, b_.spectrum, PairsOfHead(result_.u_q, result_.v_q, q_, h));
      if (result_.q != nullptr) result_.q[h] = s;
    }
    if (gram_k != nullptr && result_.qk_sigma1 != nullptr) result_.qk_sigma1[h] = QkSigma1(gram, *gram_k, b_);
  }

  void KeyHead(int32_t kv) {
    Gram gram;
    gram.g = b_.gram_k;
    ComputeGram(set_.wk[kv], b_.spectrum.tile, &gram);
    if (result_.k != nullptr || result_.u_k != nullptr || result_.v_k != nullptr) {
      const HeadSpectrum s =
          ComputeSpectrum(set_.wk[kv], gram, b_.spectrum, PairsOfHead(result_.u_k, result_.v_k, k_, kv));
      if (result_.k != nullptr) result_.k[kv] = s;
    }
    for (int32_t h = 0; h < set_.n_q; ++h) {
      if (KvOf(set_, h) == kv) QueryHead(h, &gram);
    }
  }

 private:
  const WeightSet& set_;
  const WeightProbeResult& result_;
  const Buffers& b_;
  Extents q_;
  Extents k_;
};

}  // namespace

size_t ProbeWeightsWorkspaceBytes(const WeightSet& set) noexcept {
  Arena arena;
  Layout(&arena, ExtentsOf(set));
  return arena.BytesNeeded();
}

KernelStatus ProbeWeights(const WeightSet& set, const WeightProbeResult& result,
                          Workspace workspace) noexcept {
  const KernelStatus status = Check(set);
  if (status != KernelStatus::kOk) return status;
  Arena arena(workspace);
  const Buffers buffers = Layout(&arena, ExtentsOf(set));
  if (!arena.Fits()) return KernelStatus::kWorkspaceTooSmall;
  Prober prober(set, result, buffers);
  if (set.n_k == 0) {
    for (int32_t h = 0; h < set.n_q; ++h) prober.QueryHead(h, nullptr);
  }
  for (int32_t kv = 0; kv < set.n_k; ++kv) prober.KeyHead(kv);
  return KernelStatus::kOk;
}

}  // namespace foreshock::kernels
