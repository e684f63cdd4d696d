#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::reference {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Rounds to 8 significant bits, ties to even: bf16 inside its normal range.
double ToBf16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

double BfUlp(double x) {
  if (std::isnan(x) || std::isinf(x)) return std::abs(x);
  if (x == 0) return std::ldexp(1.0, -133);
  int exponent = 0;
  (void)std::frexp(std::abs(x), &exponent);  // |x| in [2^(e-1), 2^e)
  return std::ldexp(1.0, std::max(exponent - 1 - 7, -133));
}

double SignOf(double x) { return std::isnan(x) ? x : (x > 0 ? 1.0 : (x < 0 ? -1.0 : 0.0)); }

void AddTo(Ratio* ratio, double n, double d) {
  ratio->num += n;
  ratio->den += d;
  ratio->num_num += n * n;
  ratio->num_den += n * d;
  ratio->den_den += d * d;
  ratio->rows += 1;
}

struct Row {
  std::vector<double> score;  // valid entries only
  std::vector<double> capped;
  std::vector<int64_t> key;
  std::vector<double> p;
  double lse = 0;
  double sink_p = 0;
  double gap = 0;
};

double Raw(const Attention& a, const Sequence& s, int64_t head, int64_t i, int64_t j) {
  const int64_t kv = head / (a.q_heads / a.kv_heads);
  double sum = 0;
  for (int64_t d = 0; d < a.dim; ++d) {
    sum += s.q[static_cast<size_t>((i * a.q_heads + head) * a.dim + d)] *
           s.k[static_cast<size_t>((j * a.kv_heads + kv) * a.dim + d)];
  }
  return a.scale * sum;
}

Row MakeRow(const Attention& a, int64_t sequence, int64_t head, int64_t i) {
  const Sequence& s = a.sequences[static_cast<size_t>(sequence)];
  Row row;
  for (int64_t j = 0; j < s.k_len; ++j) {
    if (!a.valid(sequence, head, i, j)) continue;
    double x = Raw(a, s, head, i, j);
    if (a.softcap > 0) x = a.softcap * std::tanh(x / a.softcap);
    row.capped.push_back(x);
    row.score.push_back(x + (a.bias ? a.bias(sequence, head, i, j) : 0));
    row.key.push_back(j);
  }
  if (row.score.size() < 2) return row;
  std::vector<double> sorted = row.score;
  bool nan = false;
  for (double x : sorted) nan = nan || std::isnan(x);
  std::vector<double> all = row.score;
  if (!a.sinks.empty()) {
    all.insert(all.end(), a.sinks[static_cast<size_t>(head)].begin(),
               a.sinks[static_cast<size_t>(head)].end());
  }
  if (!nan) std::sort(sorted.rbegin(), sorted.rend());
  row.gap = nan ? kNaN : sorted[0] - sorted[1];
  const double top = nan ? kNaN : *std::max_element(all.begin(), all.end());
  long double sum = 0;
  for (double x : all) sum += std::exp(static_cast<long double>(x) - top);
  row.lse = std::isinf(top) ? top : static_cast<double>(top + std::log(sum));
  for (size_t j = 0; j < all.size(); ++j) {
    const auto p = static_cast<double>(std::exp(static_cast<long double>(all[j]) - top) / sum);
    if (j < row.score.size()) {
      row.p.push_back(p);
    } else {
      row.sink_p += p;
    }
  }
  return row;
}

double Entropy(const Attention& a, const Row& row, int64_t head) {
  double sum = 0;
  for (double p : row.p) sum -= p > 0 || std::isnan(p) ? p * std::log(p) : 0;
  if (a.sinks.empty()) return sum;
  for (double sink : a.sinks[static_cast<size_t>(head)]) {
    const double p = std::exp(sink - row.lse);
    if (p > 0) sum -= p * std::log(p);
  }
  return sum;
}

// A count of a comparison that NaN makes NaN.
double Count(double value, bool holds) { return std::isnan(value) ? kNaN : (holds ? 1.0 : 0.0); }

}  // namespace

Matrix Multiply(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.cols; ++k) {
      for (int64_t j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

Matrix Transpose(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  }
  return t;
}

Matrix Add(const Matrix& a, const Matrix& b) {
  Matrix c = a;
  for (size_t i = 0; i < c.at.size(); ++i) c.at[i] += b.at[i];
  return c;
}

std::vector<double> SingularValues(const Matrix& a) {
  Matrix m = a.rows >= a.cols ? a : Transpose(a);
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < m.cols; ++p) {
      for (int64_t q = p + 1; q < m.cols; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < m.rows; ++i) {
          pp += m(i, p) * m(i, p);
          qq += m(i, q) * m(i, q);
          pq += m(i, p) * m(i, q);
        }
        if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq)) continue;
        rotated = true;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::hypot(1, zeta));
        const double c = 1 / std::hypot(1, t);
        const double s = c * t;
        for (int64_t i = 0; i < m.rows; ++i) {
          const double x = m(i, p);
          const double y = m(i, q);
          m(i, p) = c * x - s * y;
          m(i, q) = s * x + c * y;
        }
      }
    }
    if (!rotated) break;
  }
  std::vector<double> sigma;
  for (int64_t j = 0; j < m.cols; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < m.rows; ++i) sum = std::hypot(sum, m(i, j));
    sigma.push_back(sum);
  }
  std::sort(sigma.rbegin(), sigma.rend());
  return sigma;
}

HeadStats AttentionStats(const Attention& a, int64_t head) {
  HeadStats out;
  out.largest = -std::numeric_limits<double>::infinity();
  out.smallest = std::numeric_limits<double>::infinity();
  out.gap_margin = std::numeric_limits<double>::infinity();
  for (int64_t b = 0; b < static_cast<int64_t>(a.sequences.size()); ++b) {
    for (int64_t i = 0; i < a.sequences[static_cast<size_t>(b)].q_len; ++i) {
      if (!a.visited(b, i)) continue;
      out.visited += 1;
      const Row row = MakeRow(a, b, head, i);
      if (row.score.size() < 2) continue;
      out.rows += 1;
      std::vector<double> rounded;
      for (double x : row.score) rounded.push_back(ToBf16(x));
      std::sort(rounded.rbegin(), rounded.rend());
      const double top_p = *std::max_element(row.p.begin(), row.p.end());
      out.tied += Count(row.gap, row.gap <= 1e-3);
      out.tied_bf16 += Count(row.gap, rounded[0] - rounded[1] <= 1e-3);
      out.unit_p += Count(row.gap, row.gap <= -std::log1p(-std::ldexp(1.0, -9)));
      out.saturated += Count(row.p[0], top_p >= 0.99);
      out.gap_margin = std::min({out.gap_margin, std::abs(row.gap - 1e-3),
                                 std::abs(row.gap - 0.0019550348358), std::abs(top_p - 0.99)});
      out.entropy += Entropy(a, row, head);
      out.lse += row.lse;
      out.sink += row.key[0] == 0 ? row.p[0] : Count(row.p[0], false);
      out.learned_sink += row.sink_p;
      for (double x : row.score) {
        out.largest = std::isnan(x) || std::isnan(out.largest) ? kNaN : std::max(out.largest, x);
        out.smallest = std::isnan(x) || std::isnan(out.smallest) ? kNaN : std::min(out.smallest, x);
      }
    }
  }
  return out;
}

ExactRow ExactGradients(const Attention& a, int64_t sequence, int64_t head, int64_t i, double delta) {
  const Sequence& s = a.sequences[static_cast<size_t>(sequence)];
  const Row row = MakeRow(a, sequence, head, i);
  const int64_t kv = head / (a.q_heads / a.kv_heads);
  const auto qi = static_cast<size_t>(i * a.q_heads + head);
  ExactRow exact;
  exact.o.assign(static_cast<size_t>(a.v_dim), 0.0);
  exact.dq.assign(static_cast<size_t>(a.dim), 0.0);
  exact.pk.assign(static_cast<size_t>(a.dim), 0.0);
  if (row.p.empty()) return exact;
  std::vector<double> dp(row.p.size(), 0.0);
  for (size_t n = 0; n < row.p.size(); ++n) {
    const auto kj = static_cast<size_t>(row.key[n] * a.kv_heads + kv);
    for (size_t d = 0; d < exact.o.size(); ++d) {
      const double v = s.v[kj * exact.o.size() + d];
      exact.o[d] += row.p[n] * v;
      if (!s.d_o.empty()) dp[n] += s.d_o[qi * exact.o.size() + d] * v;
    }
  }
  if (s.d_o.empty()) return exact;
  for (size_t d = 0; d < exact.o.size(); ++d) exact.delta += exact.o[d] * s.d_o[qi * exact.o.size() + d];
  const double used = std::isnan(delta) ? exact.delta : delta;
  for (size_t n = 0; n < row.p.size(); ++n) {
    const auto kj = static_cast<size_t>(row.key[n] * a.kv_heads + kv);
    double p = row.p[n];
    if (a.softcap > 0) p *= 1 - std::pow(row.capped[n] / a.softcap, 2);
    for (size_t d = 0; d < exact.dq.size(); ++d) {
      const double k = s.k[kj * exact.dq.size() + d];
      exact.dq[d] += a.scale * p * (dp[n] - used) * k;
      exact.pk[d] += p * k;
    }
  }
  return exact;
}

Rounding RoundingStats(const Attention& a, int64_t head) {
  Rounding out;
  std::vector<double> norms, errors, deltas;
  for (int64_t b = 0; b < static_cast<int64_t>(a.sequences.size()); ++b) {
    const Sequence& s = a.sequences[static_cast<size_t>(b)];
    for (int64_t i = 0; i < s.q_len; ++i) {
      if (!a.visited(b, i)) continue;
      const Row row = MakeRow(a, b, head, i);
      if (row.score.size() < 2) continue;
      const auto qi = static_cast<size_t>(i * a.q_heads + head);
      const ExactRow plain = ExactGradients(a, b, head, i, kNaN);
      const auto dv = plain.o.size();
      double n = 0, d = 0, t = 0, stored_delta = 0;
      for (size_t c = 0; c < dv; ++c) {
        const double error = s.o[qi * dv + c] - plain.o[c];
        if (!s.d_o.empty()) {
          t += s.d_o[qi * dv + c] * error;
          stored_delta += s.d_o[qi * dv + c] * s.o[qi * dv + c];
        }
        if (plain.o[c] == 0) continue;
        n += SignOf(plain.o[c]) * error;
        d += BfUlp(plain.o[c]);
        out.elements += 1;
      }
      AddTo(&out.output, n, d);
      AddTo(row.gap <= 1e-3 ? &out.tied : &out.other, n, d);
      if (s.d_o.empty()) continue;
      AddTo(&out.delta_output, t, std::abs(plain.delta));
      out.delta_output_sign += SignOf(t);
      if (s.dq.empty()) continue;
      const ExactRow exact = ExactGradients(a, b, head, i, stored_delta);
      double norm = 0, along = 0;
      for (size_t c = 0; c < exact.dq.size(); ++c) {
        norm += exact.pk[c] * exact.pk[c];
        along += (s.dq[qi * exact.dq.size() + c] - exact.dq[c]) * exact.pk[c];
      }
      norms.push_back(norm);
      errors.push_back(-along / (a.scale * norm));
      deltas.push_back(std::abs(stored_delta));
    }
  }
  std::vector<double> sorted;
  for (double x : norms) {
    if (!std::isnan(x)) sorted.push_back(x);
  }
  std::sort(sorted.begin(), sorted.end());
  const size_t m = sorted.size();
  const double median = m == 0 ? 0 : (sorted[(m - 1) / 2] + sorted[m / 2]) / 2;
  for (size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] < 1e-6 * median || norms[i] == 0) {
      out.left_out += 1;
      continue;
    }
    AddTo(&out.delta_error, errors[i], deltas[i]);
    out.delta_error_sign += SignOf(errors[i]);
  }
  return out;
}

}  // namespace foreshock::reference
