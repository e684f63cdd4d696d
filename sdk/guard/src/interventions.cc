#include "foreshock/sdk/interventions.h"

#include <cmath>
#include <string>

#include "foreshock/sdk/weight_probe.h"

namespace foreshock::sdk {

using kernels::TensorView;

namespace {

Status CheckTensor(const char* name, const TensorView& tensor, const TensorView& like) {
  const std::string field(name);
  if (tensor.data == nullptr)
    return Status(Code::kInvalidArgument, field + ".data: null, must point to a tensor");
  if (!kernels::IsKnown(tensor.dtype) || tensor.dtype == kernels::DType::kFp64) {
    return Status(
        Code::kInvalidArgument,
        field + ".dtype: " + std::to_string(static_cast<int>(tensor.dtype)) + ", must be bf16, fp16 or fp32");
  }
  if (tensor.batch != like.batch || tensor.seq != like.seq || tensor.heads != like.heads ||
      tensor.dim != like.dim) {
    return Status(Code::kInvalidArgument, field + ": shape differs from x");
  }
  return OkStatus();
}

double RootMeanSquare(const TensorView& x, int64_t at) {
  double sum = 0;
  for (int64_t i = 0; i < x.dim; ++i) {
    const double value = kernels::LoadFloat(x.data, x.dtype, at + i * x.dim_stride);
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(x.dim) + kQkNormEpsilon);
}

// fn(b, s, h) for every vector.
template <typename Fn>
void ForEachVector(const TensorView& x, Fn&& fn) {
  for (int64_t b = 0; b < x.batch; ++b) {
    for (int64_t s = 0; s < x.seq; ++s) {
      for (int64_t h = 0; h < x.heads; ++h) fn(b, s, h);
    }
  }
}

float Load(const TensorView& t, int64_t at, int64_t i) {
  return kernels::LoadFloat(t.data, t.dtype, at + i * t.dim_stride);
}
void Store(const TensorView& t, int64_t at, int64_t i, double value) {
  kernels::StoreFloat(const_cast<void*>(t.data), t.dtype, at + i * t.dim_stride, static_cast<float>(value));
}

}  // namespace

Status QkNormForward(const TensorView& x, const TensorView& y) {
  FS_RETURN_IF_ERROR(CheckTensor("x", x, x));
  FS_RETURN_IF_ERROR(CheckTensor("y", y, x));
  ForEachVector(x, [&](int64_t b, int64_t s, int64_t h) {
    const int64_t x_at = x.Offset(b, s, h), y_at = y.Offset(b, s, h);
    const double inverse = 1 / RootMeanSquare(x, x_at);
    for (int64_t i = 0; i < x.dim; ++i) Store(y, y_at, i, Load(x, x_at, i) * inverse);
  });
  return OkStatus();
}

Status QkNormBackward(const TensorView& x, const TensorView& dy, const TensorView& dx) {
  FS_RETURN_IF_ERROR(CheckTensor("x", x, x));
  FS_RETURN_IF_ERROR(CheckTensor("dy", dy, x));
  FS_RETURN_IF_ERROR(CheckTensor("dx", dx, x));
  ForEachVector(x, [&](int64_t b, int64_t s, int64_t h) {
    const int64_t x_at = x.Offset(b, s, h), dy_at = dy.Offset(b, s, h), dx_at = dx.Offset(b, s, h);
    const double inverse = 1 / RootMeanSquare(x, x_at);
    double along = 0;
    for (int64_t i = 0; i < x.dim; ++i) along += static_cast<double>(Load(dy, dy_at, i)) * Load(x, x_at, i);
    along *= inverse * inverse / static_cast<double>(x.dim);
    for (int64_t i = 0; i < x.dim; ++i) {
      Store(dx, dx_at, i, (Load(dy, dy_at, i) - along * Load(x, x_at, i)) * inverse);
    }
  });
  return OkStatus();
}

float QkClipFactor(double logit_max, double limit) {
  if (!(logit_max > limit) || !(limit > 0)) return 1;
  return static_cast<float>(std::sqrt(limit / logit_max));
}

void ProjectOut(float* delta, int64_t row_stride, int64_t col_stride, int64_t d_model, int64_t d_head,
                const float* u, const float* v) noexcept {
  double r[kernels::kPairs] = {};
  for (int pair = 0; pair < kernels::kPairs; ++pair) {
    const float* left = u + pair * d_model;
    const float* right = v + pair * d_head;
    for (int64_t i = 0; i < d_model; ++i) {
      double row = 0;
      for (int64_t j = 0; j < d_head; ++j)
        row += static_cast<double>(delta[i * row_stride + j * col_stride]) * right[j];
      r[pair] += row * left[i];
    }
  }
  for (int64_t i = 0; i < d_model; ++i) {
    for (int64_t j = 0; j < d_head; ++j) {
      double away = 0;
      for (int pair = 0; pair < kernels::kPairs; ++pair) {
        away += r[pair] * u[pair * d_model + i] * v[pair * d_head + j];
      }
      delta[i * row_stride + j * col_stride] -= static_cast<float>(away);
    }
  }
}

}  // namespace foreshock::sdk
