// Body of both kernel versions: included by kernels_portable.cc and kernels_avx2.cc, which are compiled with
// different machine flags. It must not include any header that defines inline functions with external
// linkage: the linker could pick the AVX2 copy of one for the whole program.
#include "foreshock/trainer/kernels.h"

namespace foreshock::trainer {
namespace {

#ifdef __AVX2__
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float V __attribute__((vector_size(4 * kLanes)));
typedef int VI __attribute__((vector_size(4 * kLanes)));
typedef V VU __attribute__((aligned(4), may_alias));
constexpr int kTileColumns = 2 * kLanes;
constexpr int kTileRows = 4;

inline V load(const float* p) { return *reinterpret_cast<const VU*>(p); }
inline void store(float* p, V value) { *reinterpret_cast<VU*>(p) = value; }
inline V splat(float x) { return x - V{}; }

inline float sum(V v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

// exp to about 2 ulp. Inputs below -87 give exp(-87) (about 1e-38), NaN gives NaN.
inline V exp_of(V x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  const V shifted = x * 1.44269504f + kRound;
  const V n = shifted - kRound;
  const V r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  V p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const VI exponent = ((VI)shifted - 0x4b400000 + 127) << 23;
  return p * (V)exponent;
}

template <int Rows>
inline void tile(const Product& d, int i, int j, const float* packed) {
  V low[Rows] = {};
  V high[Rows] = {};
  const float* a = d.a + static_cast<long>(i) * d.a_row;
  for (int p = 0; p < d.k; ++p, a += d.a_col, packed += kTileColumns) {
    const V b0 = load(packed);
    const V b1 = load(packed + kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const float x = a[r * d.a_row];
      low[r] += x * b0;
      high[r] += x * b1;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    float* c = d.c + static_cast<long>(i + r) * d.c_row + j;
    store(c, d.accumulate ? load(c) + low[r] : low[r]);
    store(c + kLanes, d.accumulate ? load(c + kLanes) + high[r] : high[r]);
  }
}

void pack_columns(const Product& d, int j) {
  float* out = d.pack;
  for (int p = 0; p < d.k; ++p, out += kTileColumns) {
    const float* b = d.b + static_cast<long>(p) * d.b_row + static_cast<long>(j) * d.b_col;
    for (int c = 0; c < kTileColumns; ++c) out[c] = b[c * d.b_col];
  }
}

void multiply(const Product& d) {
  for (int j = 0; j < d.n; j += kTileColumns) {
    pack_columns(d, j);
    int i = 0;
    for (; i + kTileRows <= d.m; i += kTileRows) tile<kTileRows>(d, i, j, d.pack);
    for (; i < d.m; ++i) tile<1>(d, i, j, d.pack);
  }
}

void causal_softmax(float* s, int t, float scale, float* largest) {
  for (int i = 0; i < t; ++i, s += t) {
    float top = s[0] * scale;
    for (int j = 0; j <= i; ++j) {
      s[j] *= scale;
      if (s[j] > top || s[j] != s[j]) top = s[j];  // NaN stays
    }
    if (top > *largest || top != top) *largest = top;
    for (int j = i + 1; j < t; ++j) s[j] = top - 200.0f;
    V total = {};
    for (int j = 0; j < t; j += kLanes) {
      V e = exp_of(load(s + j) - top);
      for (int lane = 0; j + kLanes > i + 1 && lane < kLanes; ++lane) {
        if (j + lane > i) e[lane] = 0;
      }
      store(s + j, e);
      total += e;
    }
    const float inverse = 1.0f / sum(total);
    for (int j = 0; j < t; j += kLanes) store(s + j, load(s + j) * inverse);
  }
}

void softmax_backward(const float* p, float* ds, const float* delta, int t, float scale) {
  for (int i = 0; i < t; ++i, p += t, ds += t) {
    for (int j = 0; j < t; j += kLanes) store(ds + j, load(p + j) * (load(ds + j) - delta[i]) * scale);
  }
}

// GELU in its tanh form, as x * sigmoid(2 * 0.79788 * (x + 0.044715 x^3)).
constexpr float kGeluSlope = 1.5957691216f;
constexpr float kGeluCube = 0.044715f;

inline V sigmoid(V z) { return 1.0f / (1.0f + exp_of(-z)); }

void gelu(const float* x, float* y, int count) {
  for (int i = 0; i < count; i += kLanes) {
    const V a = load(x + i);
    store(y + i, a * sigmoid(kGeluSlope * (a + kGeluCube * a * a * a)));
  }
}

void gelu_backward(const float* x, float* dy_to_dx, int count) {
  for (int i = 0; i < count; i += kLanes) {
    const V a = load(x + i);
    const V g = sigmoid(kGeluSlope * (a + kGeluCube * a * a * a));
    const V slope = kGeluSlope * (1.0f + 3.0f * kGeluCube * a * a);
    store(dy_to_dx + i, load(dy_to_dx + i) * (g + a * g * (1.0f - g) * slope));
  }
}

void rms_norm(const float* x, int x_row, const float* gain, float* y, int y_row, float* inverse_rms, int rows,
              int width, float epsilon) {
  for (int r = 0; r < rows; ++r, x += x_row, y += y_row) {
    V squares = {};
    for (int j = 0; j < width; j += kLanes) squares += load(x + j) * load(x + j);
    const float inverse = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(width) + epsilon);
    inverse_rms[r] = inverse;
    for (int j = 0; j < width; j += kLanes) {
      const V scaled = load(x + j) * inverse;
      store(y + j, gain ? scaled * load(gain + j) : scaled);
    }
  }
}

void rms_norm_backward(const float* x, int x_row, const float* gain, const float* inverse_rms,
                       const float* dy, int dy_row, float* dx, int dx_row, bool accumulate, float* dgain,
                       int rows, int width) {
  for (int r = 0; r < rows; ++r, x += x_row, dy += dy_row, dx += dx_row) {
    const float inverse = inverse_rms[r];
    V dots = {};
    for (int j = 0; j < width; j += kLanes) {
      const V g = gain ? load(dy + j) * load(gain + j) : load(dy + j);
      dots += g * load(x + j);
      if (dgain) store(dgain + j, load(dgain + j) + load(dy + j) * load(x + j) * inverse);
    }
    const float along = sum(dots) * inverse * inverse / static_cast<float>(width);
    for (int j = 0; j < width; j += kLanes) {
      const V g = gain ? load(dy + j) * load(gain + j) : load(dy + j);
      const V d = (g - load(x + j) * along) * inverse;
      store(dx + j, accumulate ? load(dx + j) + d : d);
    }
  }
}

double cross_entropy(float* logits, const unsigned char* targets, int rows, int width) {
  double loss = 0;
  const float weight = 1.0f / static_cast<float>(rows);
  for (int r = 0; r < rows; ++r, logits += width) {
    float top = logits[0];
    for (int j = 1; j < width; ++j) top = logits[j] > top ? logits[j] : top;
    const float at_target = logits[targets[r]] - top;
    V total = {};
    for (int j = 0; j < width; j += kLanes) {
      const V e = exp_of(load(logits + j) - top);
      store(logits + j, e);
      total += e;
    }
    const float z = sum(total);
    loss += static_cast<double>(__builtin_logf(z)) - static_cast<double>(at_target);
    for (int j = 0; j < width; j += kLanes) store(logits + j, load(logits + j) * (weight / z));
    logits[targets[r]] -= weight;
  }
  return loss / rows;
}

double sum_of_squares(const float* x, int count) {
  double total = 0;
  for (int i = 0; i < count; i += 16) {
    V squares = {};
    for (int j = i; j < i + 16; j += kLanes) squares += load(x + j) * load(x + j);
    total += static_cast<double>(sum(squares));
  }
  return total;
}

inline V square_root(V x) {
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

void adamw(float* w, const float* g, float* m, float* v, int count, const AdamStep& s) {
  const float m_scale = s.learning_rate / s.correction1;
  const float v_scale = 1.0f / s.correction2;
  for (int i = 0; i < count; i += kLanes) {
    const V gradient = load(g + i) * s.gradient_scale;
    const V first = s.beta1 * load(m + i) + (1.0f - s.beta1) * gradient;
    const V second = s.beta2 * load(v + i) + (1.0f - s.beta2) * gradient * gradient;
    store(m + i, first);
    store(v + i, second);
    const V kept = load(w + i) * (1.0f - s.decay);
    store(w + i, kept - m_scale * first / (square_root(v_scale * second) + s.epsilon));
  }
}

constexpr Kernels make_kernels(const char* name) {
  return {name,     multiply,          causal_softmax, softmax_backward, gelu, gelu_backward,
          rms_norm, rms_norm_backward, cross_entropy,  sum_of_squares,   adamw};
}

}  // namespace
}  // namespace foreshock::trainer
