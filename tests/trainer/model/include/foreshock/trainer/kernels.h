#pragma once

namespace foreshock::trainer {

// One matrix product C = A B, or C += A B. Element A(i,p) is a[i * a_row + p * a_col], B(p,j) is
// b[p * b_row + j * b_col], so that a transposed operand is a matter of strides; C is row-major. n must be a
// multiple of 16. `pack` holds at least 16 * k floats and is overwritten.
struct Product {
  int m, n, k;
  const float* a;
  int a_row, a_col;
  const float* b;
  int b_row, b_col;
  float* c;
  int c_row;
  bool accumulate;
  float* pack;
};

struct AdamStep {
  float learning_rate, beta1, beta2, epsilon;
  float correction1, correction2;  // 1 - beta^t
  float gradient_scale;            // from clipping
  float decay;                     // decoupled weight decay, times the learning rate
};

// The arithmetic that takes the time, compiled once for every x86-64 (or other) CPU and once for AVX2 with
// FMA. No function allocates or calls the system. Widths (`width`, `count`, `keys`) are multiples of 16.
// Results of the two versions differ in rounding; each is deterministic.
struct Kernels {
  const char* name;
  void (*multiply)(const Product& product);
  // Row i of s (t x t) keeps its keys 0..i: s := softmax(scale * s), the rest 0. *largest is raised to the
  // largest scaled score of the keys kept; NaN scores make their row NaN and *largest NaN.
  void (*causal_softmax)(float* s, int t, float scale, float* largest);
  // ds := p * (ds - delta[row]) * scale on t x t, ds holding dP on entry.
  void (*softmax_backward)(const float* p, float* ds, const float* delta, int t, float scale);
  void (*gelu)(const float* x, float* y, int count);
  void (*gelu_backward)(const float* x, float* dy_to_dx, int count);  // in place
  // y = gain * x / sqrt(mean(x^2) + epsilon) a row; gain may be null (1). rows lie *_row floats apart.
  void (*rms_norm)(const float* x, int x_row, const float* gain, float* y, int y_row, float* inverse_rms,
                   int rows, int width, float epsilon);
  // dx = or += the derivative; dgain (may be null) += sum over rows.
  void (*rms_norm_backward)(const float* x, int x_row, const float* gain, const float* inverse_rms,
                            const float* dy, int dy_row, float* dx, int dx_row, bool accumulate, float* dgain,
                            int rows, int width);
  // Mean cross-entropy over rows; logits become d(mean loss)/d(logits). targets are bytes.
  double (*cross_entropy)(float* logits, const unsigned char* targets, int rows, int width);
  double (*sum_of_squares)(const float* x, int count);
  void (*adamw)(float* w, const float* g, float* m, float* v, int count, const AdamStep& step);
};

// The fastest version this CPU can run, chosen once. FORESHOCK_TRAINER_KERNELS=portable in the environment
// picks the portable one.
const Kernels& kernels();
const Kernels& portable_kernels();

}  // namespace foreshock::trainer
