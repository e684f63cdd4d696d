#include "online_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exp_float.h"
#include "foreshock/sdk/dtype.h"

namespace foreshock::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kLanes = 8;

struct Extremes {
  double largest = -kInfinity;
  double second = -kInfinity;
  double smallest = kInfinity;
  bool has_nan = false;
};

Extremes ExtremesOf(const ScoreBlock& block) {
  Extremes e;
  for (int32_t i = 0; i < block.count; ++i) {
    const double s = block.score[i];
    e.has_nan |= std::isnan(s);
    e.second = std::max(e.second, std::min(e.largest, s));
    e.largest = std::max(e.largest, s);
    e.smallest = std::min(e.smallest, s);
  }
  return e;
}

void AddExponentials(const ScoreBlock& block, OnlineRow* row) {
  float x[kBlockKeys];
  const int32_t padded = (block.count + kLanes - 1) / kLanes * kLanes;
  for (int32_t i = 0; i < block.count; ++i) x[i] = static_cast<float>(block.score[i] - row->largest);
  for (int32_t i = block.count; i < padded; ++i) x[i] = -kInfinity;
  float sum[kLanes] = {};
  float weighted[kLanes] = {};
  for (int32_t i = 0; i < padded; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float p = ExpNonPositive(x[i + l]);
      sum[l] += p;
      // 0 * -infinity would be NaN; its limit is 0.
      weighted[l] += p * std::max(x[i + l], -200.0f);
    }
  }
  for (int l = 0; l < kLanes; ++l) {
    row->sum += static_cast<double>(sum[l]);
    row->weighted += static_cast<double>(weighted[l]);
  }
}

// Moves the sums' reference point up to a new maximum.
void Rescale(double largest, OnlineRow* row) {
  const double drop = row->largest - largest;
  const double factor = std::exp(drop);
  row->weighted = factor == 0 ? 0 : factor * (row->weighted + drop * row->sum);
  row->sum *= factor;
  row->largest = largest;
}

double Infect(bool infected, double value) { return infected ? kNaN : value; }

}  // namespace

void AddBlock(const ScoreBlock& block, int64_t first_key, OnlineRow* row) {
  if (block.count == 0) return;
  if (first_key == 0 && block.key[0] == 0) {
    row->has_first_key = true;
    row->first_key = block.score[0];
  }
  const Extremes e = ExtremesOf(block);
  row->has_nan |= e.has_nan;
  if (row->count == 0) {
    row->largest = e.largest;
    row->second = e.second;
    row->smallest = e.smallest;
  } else {
    row->second = std::max(std::min(row->largest, e.largest), std::max(row->second, e.second));
    row->smallest = std::min(row->smallest, e.smallest);
    if (e.largest > row->largest) Rescale(e.largest, row);
  }
  row->count += block.count;
  AddExponentials(block, row);
}

void StartHead(AttentionHeadStats* head) {
  *head = AttentionHeadStats{};
  head->logit_max = -kInfinity;
  head->logit_min = kInfinity;
}

void AddRow(const OnlineRow& row, const float* sinks, int32_t n_sinks, AttentionHeadStats* head) {
  head->rows_visited += 1;
  if (row.count < 2) return;
  head->rows += 1;

  const double gap = Infect(row.has_nan, row.largest - row.second);
  const double gap_bf16 =
      Infect(row.has_nan, static_cast<double>(RoundToBf16(static_cast<float>(row.largest))) -
                              static_cast<double>(RoundToBf16(static_cast<float>(row.second))));
  const bool no_gap = std::isnan(gap);
  head->tied_rows += no_gap ? kNaN : static_cast<double>(gap <= kTieGap);
  head->tied_rows_bf16 += std::isnan(gap_bf16) ? kNaN : static_cast<double>(gap_bf16 <= kTieGap);
  head->unit_p_rows += no_gap ? kNaN : static_cast<double>(gap <= kUnitPGap);

  double top = row.largest;
  for (int32_t i = 0; i < n_sinks; ++i) {
    const auto s = static_cast<double>(sinks[i]);
    if (s > top || std::isnan(s)) top = s;
    if (std::isnan(top)) break;
  }
  // A largest score of infinity leaves no probabilities, but log-sum-exp is still what it is.
  const bool undefined = row.has_nan || !std::isfinite(top);
  const double drop = row.largest - top;
  const double factor = drop == 0 ? 1 : std::exp(drop);
  double sum = row.sum * factor;
  double weighted = factor == 0 ? 0 : factor * (row.weighted + drop * row.sum);
  double sink_sum = 0;
  for (int32_t i = 0; i < n_sinks; ++i) {
    const double x = static_cast<double>(sinks[i]) - top;
    const double e = std::exp(x);
    sink_sum += e;
    if (e > 0) weighted += e * x;
  }
  sum += sink_sum;
  const double log_sum = std::log(sum);
  head->lse_sum += row.has_nan ? kNaN : (undefined ? top : top + log_sum);
  head->entropy_sum += Infect(undefined, log_sum - weighted / sum);
  head->saturated_rows += undefined ? kNaN : static_cast<double>(factor / sum >= kSaturatedProbability);
  head->sink_weight_sum += Infect(undefined, row.has_first_key ? std::exp(row.first_key - top) / sum : 0);
  head->learned_sink_weight_sum += Infect(undefined, sink_sum / sum);
  head->logit_max =
      row.has_nan || std::isnan(head->logit_max) ? kNaN : std::max(head->logit_max, row.largest);
  head->logit_min =
      row.has_nan || std::isnan(head->logit_min) ? kNaN : std::min(head->logit_min, row.smallest);
}

}  // namespace foreshock::kernels
