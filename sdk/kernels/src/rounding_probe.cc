#include "foreshock/sdk/rounding_probe.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "arena.h"
#include "attention_problem.h"
#include "rounding_row.h"

namespace foreshock::kernels {
namespace {

constexpr double kNegligible = 1e-6;  // of the head's median ||P K||^2

// What delta_error needs of each row until the median is known.
struct DeltaRow {
  double key_norm2 = 0;  // ||P K||^2
  double error = 0;
  double delta = 0;  // |delta_ref|
};

struct Buffers {
  RoundingRowBuffers row;
  DeltaRow* deltas = nullptr;
  double* norms = nullptr;
};

int64_t MostRows(const RoundingProblem& p) {
  const AttentionProblem& a = p.attention;
  return p.dq.data == nullptr || p.d_o.data == nullptr ? 0 : a.q.batch * a.q.seq;
}

Buffers Layout(const RoundingProblem& p, Arena* arena) {
  Buffers b;
  b.row = LayoutRoundingRow(p, arena);
  b.deltas = arena->Take<DeltaRow>(MostRows(p));
  b.norms = arena->Take<double>(MostRows(p));
  return b;
}

bool SameTokens(const TensorView& a, const TensorView& b) { return a.batch == b.batch && a.seq == b.seq; }

double Sign(double value) {
  if (std::isnan(value)) return value;
  return static_cast<double>(value > 0) - static_cast<double>(value < 0);
}

void AddOutput(const RoundingRow& row, RoundingHeadStats* head) {
  head->output_bias.Add(row.output_error, row.output_ulp);
  RatioSums& apart = row.tied ? head->output_bias_tied : head->output_bias_other;
  apart.Add(row.output_error, row.output_ulp);
  head->output_elements += static_cast<double>(row.output_elements);
}

// NaN norms do not take part.
double MedianNorm(const DeltaRow* rows, int64_t count, double* scratch) {
  double* end = scratch;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isnan(rows[i].key_norm2)) *end++ = rows[i].key_norm2;
  }
  const int64_t n = end - scratch;
  if (n == 0) return 0;
  double* middle = scratch + n / 2;
  std::nth_element(scratch, middle, end);
  if (n % 2 == 1) return *middle;
  return (*middle + *std::max_element(scratch, middle)) / 2;
}

void AddDeltas(const Buffers& b, int64_t count, RoundingHeadStats* head) {
  const double least = kNegligible * MedianNorm(b.deltas, count, b.norms);
  for (int64_t i = 0; i < count; ++i) {
    const DeltaRow& row = b.deltas[i];
    if (row.key_norm2 < least || row.key_norm2 == 0) {
      head->delta_error_left_out += 1;
      continue;
    }
    head->delta_error.Add(row.error, row.delta);
    head->delta_error_sign += Sign(row.error);
  }
}

void RunHead(const RoundingProblem& p, int64_t head, Buffers& b, RoundingHeadStats* stats) {
  int64_t deltas = 0;
  ForEachSampledSequence(p.attention, [&](const Sequence& s, int64_t first_row) {
    for (int64_t i = first_row; i < s.q_len; i += p.attention.sampling.row_every) {
      const RoundingRow row = ComputeRoundingRow(p, s, i, head, &b.row);
      if (!row.counts) continue;
      AddOutput(row, stats);
      if (p.d_o.data == nullptr) continue;
      stats->delta_output.Add(row.delta_output, std::abs(row.delta_exact));
      stats->delta_output_sign += Sign(row.delta_output);
      if (p.dq.data != nullptr)
        b.deltas[deltas++] = {row.key_norm2, row.delta_error, std::abs(row.delta_ref)};
    }
  });
  AddDeltas(b, deltas, stats);
}

}  // namespace

KernelStatus CheckRoundingArguments(const RoundingProblem& p) noexcept {
  KernelStatus status = CheckAttentionArguments(p.attention);
  if (status != KernelStatus::kOk) return status;
  const TensorView& q = p.attention.q;
  const TensorView& k = p.attention.k;
  for (const TensorView* t : {&p.v, &p.o, &p.d_o, &p.dq}) {
    const bool optional = t == &p.d_o || t == &p.dq;
    if (optional && t->data == nullptr) continue;
    status = CheckTensor(*t);
    if (status != KernelStatus::kOk) return status;
    const TensorView& peer = t == &p.v ? k : q;
    if (!SameTokens(*t, peer) || t->heads != peer.heads) return KernelStatus::kBadShape;
    const int64_t dim = t == &p.dq ? q.dim : p.v.dim;
    if (t->dim != dim) return KernelStatus::kBadShape;
  }
  // Without the gradient of O there is no dP.
  return p.dq.data != nullptr && p.d_o.data == nullptr ? KernelStatus::kNullPointer : KernelStatus::kOk;
}

void RatioSums::Merge(const RatioSums& other) noexcept {
  num += other.num;
  den += other.den;
  num_num += other.num_num;
  num_den += other.num_den;
  den_den += other.den_den;
  rows += other.rows;
}

double RatioSums::StandardError() const noexcept {
  if (!(rows >= 2)) return std::numeric_limits<double>::quiet_NaN();
  const double ratio = num / den;
  const double squares = num_num - 2 * ratio * num_den + ratio * ratio * den_den;
  if (std::isnan(squares)) return squares;
  return std::sqrt(std::max(squares, 0.0) * rows / (rows - 1)) / std::abs(den);
}

size_t ProbeRoundingWorkspaceBytes(const RoundingProblem& problem) noexcept {
  for (const TensorView* t : {&problem.attention.q, &problem.attention.k, &problem.v}) {
    if (CheckShape(*t) != KernelStatus::kOk) return 0;
  }
  Arena arena;
  Layout(problem, &arena);
  return arena.BytesNeeded();
}

KernelStatus ProbeRounding(const RoundingProblem& problem, RoundingHeadStats* heads,
                           Workspace workspace) noexcept {
  KernelStatus status = CheckRoundingArguments(problem);
  if (status == KernelStatus::kOk) status = CheckAttention(problem.attention);
  if (status != KernelStatus::kOk) return status;
  if (heads == nullptr) return KernelStatus::kNullPointer;
  Arena arena(workspace);
  Buffers buffers = Layout(problem, &arena);
  if (!arena.Fits()) return KernelStatus::kWorkspaceTooSmall;
  for (int64_t h = 0; h < problem.attention.q.heads; ++h) {
    heads[h] = RoundingHeadStats{};
    RunHead(problem, h, buffers, heads + h);
  }
  return KernelStatus::kOk;
}

}  // namespace foreshock::kernels
