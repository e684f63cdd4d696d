#include "foreshock/sdk/attention_probe.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "arena.h"
#include "attention_problem.h"
#include "online_row.h"
#include "score_block.h"

namespace foreshock::kernels {
namespace {

// Query rows that share one pass over the keys of their key/value head.
constexpr int64_t kRowsAtOnce = 128;

struct Buffers {
  float* q = nullptr;
  float* k = nullptr;
  OnlineRow* rows = nullptr;
  ScoreBlock* block = nullptr;
};

int64_t GroupOf(const AttentionProblem& p) { return p.k.heads > 0 ? p.q.heads / p.k.heads : 0; }

// Rows of each head in one pass: all heads of a group together fill kRowsAtOnce.
int64_t RowsPerHead(const AttentionProblem& p) {
  return std::max<int64_t>(1, kRowsAtOnce / std::max<int64_t>(1, GroupOf(p)));
}

Buffers Layout(const AttentionProblem& p, Arena* arena) {
  const int64_t padded = PaddedDim(p.q.dim);
  const int64_t rows = RowsPerHead(p) * std::max<int64_t>(1, GroupOf(p));
  Buffers b;
  b.q = arena->Take<float>(rows * padded);
  b.k = arena->Take<float>(kBlockKeys * padded);
  b.rows = arena->Take<OnlineRow>(rows);
  b.block = arena->Take<ScoreBlock>(1);
  return b;
}

// Rows first, first + step, ... (count of them) of the query heads of one key/value head.
struct Pass {
  const Sequence* sequence = nullptr;
  int64_t kv_head = 0;
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// The keys that any row of the pass may see.
KeyRange KeysOfPass(const AttentionProblem& p, const Pass& pass) {
  KeyRange all{pass.sequence->k_len, 0};
  for (int64_t i = 0; i < pass.count; ++i) {
    const KeyRange keys = KeysOf(p, *pass.sequence, pass.first + i * pass.step);
    if (keys.last <= keys.first) continue;
    all.first = std::min(all.first, keys.first);
    all.last = std::max(all.last, keys.last);
  }
  return all;
}

void RunPass(const AttentionProblem& p, const Pass& pass, const Buffers& b, AttentionHeadStats* heads) {
  const Sequence& s = *pass.sequence;
  const int64_t padded = PaddedDim(p.q.dim);
  const int64_t group = GroupOf(p);
  const int64_t first_head = pass.kv_head * group;
  for (int64_t g = 0; g < group; ++g) {
    LoadRows(p.q, s.batch, s.q_begin + pass.first, pass.count, pass.step, first_head + g,
             b.q + g * pass.count * padded);
  }
  std::fill(b.rows, b.rows + group * pass.count, OnlineRow{});
  const KeyRange all = KeysOfPass(p, pass);
  for (int64_t key = all.first; key < all.last; key += kBlockKeys) {
    const int64_t keys = std::min(kBlockKeys, all.last - key);
    LoadRows(p.k, s.batch, s.k_begin + key, keys, 1, pass.kv_head, b.k);
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t i = 0; i < pass.count; ++i) {
        const int64_t row = pass.first + i * pass.step;
        const int64_t slot = g * pass.count + i;
        const ScoreRow score_row{&p, &s, b.q + slot * padded, row, first_head + g, KeysOf(p, s, row)};
        ComputeScores(score_row, key, keys, b.k, DotPrecision::kFloat, b.block);
        AddBlock(*b.block, key, b.rows + slot);
      }
    }
  }
  for (int64_t g = 0; g < group; ++g) {
    const float* sinks = p.n_sinks == 0 ? nullptr : p.sinks + (first_head + g) * p.n_sinks;
    for (int64_t i = 0; i < pass.count; ++i) {
      AddRow(b.rows[g * pass.count + i], sinks, p.n_sinks, heads + first_head + g);
    }
  }
}

}  // namespace

size_t ProbeAttentionWorkspaceBytes(const AttentionProblem& problem) noexcept {
  for (const TensorView* t : {&problem.q, &problem.k}) {
    if (CheckShape(*t) != KernelStatus::kOk) return 0;
  }
  Arena arena;
  Layout(problem, &arena);
  return arena.BytesNeeded();
}

KernelStatus ProbeAttention(const AttentionProblem& problem, AttentionHeadStats* heads,
                            Workspace workspace) noexcept {
  const KernelStatus status = CheckAttention(problem);
  if (status != KernelStatus::kOk) return status;
  if (heads == nullptr) return KernelStatus::kNullPointer;
  Arena arena(workspace);
  const Buffers buffers = Layout(problem, &arena);
  if (!arena.Fits()) return KernelStatus::kWorkspaceTooSmall;

  for (int64_t h = 0; h < problem.q.heads; ++h) StartHead(heads + h);
  const int64_t step = problem.sampling.row_every;
  const int64_t at_once = RowsPerHead(problem);
  ForEachSampledSequence(problem, [&](const Sequence& s, int64_t first_row) {
    for (int64_t first = first_row; first < s.q_len; first += at_once * step) {
      const int64_t count = std::min(at_once, (s.q_len - first + step - 1) / step);
      for (int64_t kv = 0; kv < problem.k.heads; ++kv) {
        RunPass(problem, {&s, kv, first, step, count}, buffers, heads);
      }
    }
  });
  for (int64_t h = 0; h < problem.q.heads; ++h) {
    if (heads[h].rows == 0) heads[h].logit_max = heads[h].logit_min = 0;
  }
  return KernelStatus::kOk;
}

void Merge(const AttentionHeadStats& other, AttentionHeadStats* into) noexcept {
  const double visited = into->rows_visited + other.rows_visited;
  if (other.rows == 0 || into->rows == 0) {
    if (into->rows == 0) *into = other;
    into->rows_visited = visited;
    return;
  }
  const auto largest = [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  };
  into->logit_max = largest(into->logit_max, other.logit_max);
  into->logit_min = -largest(-into->logit_min, -other.logit_min);
  into->rows_visited = visited;
  into->rows += other.rows;
  into->tied_rows += other.tied_rows;
  into->tied_rows_bf16 += other.tied_rows_bf16;
  into->unit_p_rows += other.unit_p_rows;
  into->saturated_rows += other.saturated_rows;
  into->entropy_sum += other.entropy_sum;
  into->lse_sum += other.lse_sum;
  into->sink_weight_sum += other.sink_weight_sum;
  into->learned_sink_weight_sum += other.learned_sink_weight_sum;
}

}  // namespace foreshock::kernels
