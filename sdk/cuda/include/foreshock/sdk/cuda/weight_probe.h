// Spectra of query and key projections that lie on a GPU, and their growth along frozen directions: what
// kernels::ProbeWeights, ProjectPairs and UpdateAccumulator do on the CPU, for all layers in one set of
// launches.
//
// Everything is enqueued on the stream given; nothing waits, nothing allocates after Make. Results stay on
// the device until ReadOut copies them to pinned memory. The same weights, calls and device type give the
// same bits.
//
// One thread at a time. An error is CUDA's own and leaves the probe unusable: drop it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/tensor_view.h"
#include "foreshock/sdk/weight_probe.h"

namespace foreshock::cuda {

// Heads above this are not measured on a GPU.
inline constexpr int64_t kMaxHeadDimOnDevice = 256;

struct DeviceHead {
  kernels::WeightView view;  // device memory; kept: read by every later launch
  double weight_decay = 0;   // lambda of decoupled decay
};

// qk_sigma1 is wanted of these two heads.
struct QkPair {
  int32_t q = 0;
  int32_t k = 0;
};

// The head's window, as UpdateAccumulator sums it.
struct DeviceUpdates {
  double sum_c[kernels::kPairs], sum_abs_c[kernels::kPairs], sum_sign[kernels::kPairs];
  uint32_t nonzero[kernels::kPairs];
  uint32_t rotated[kernels::kPairs];
  double r[kernels::kPairs];       // of the weights last projected
  double last_c[kernels::kPairs];  // of the last counted step
};

struct DeviceSpectrum {
  double sigma[kernels::kPairs];
  double stable_rank, frobenius;
  int32_t pairs;
  int32_t has_stable_rank;
  int32_t finite;
  int32_t rounds;  // of the eigen-solver: how warm its start was
};

// Host copy of everything, in memory of the caller's (pinned, so that the copy does not wait).
struct DeviceResults {
  const DeviceSpectrum* spectra = nullptr;  // one a head
  const DeviceUpdates* updates = nullptr;   // one a head
  const double* qk_sigma1 = nullptr;        // one a pair
};

class WeightProbe {
 public:
  // Uploads the tables and makes every buffer. kInvalidArgument names a head that cannot be measured: d_head
  // above kMaxHeadDimOnDevice, an unknown dtype. kInternal: CUDA's words.
  static Result<std::unique_ptr<WeightProbe>> Make(int device, std::vector<DeviceHead> heads,
                                                   std::vector<QkPair> pairs);
  virtual ~WeightProbe() = default;

  // The head's weights have moved (same shape, strides and dtype). Call Upload before the next launch.
  virtual void SetView(int32_t head, const kernels::WeightView& view) = 0;
  // Sends changed views; between steps, may wait.
  virtual Status Upload(Stream stream) = 0;

  // Spectra of the present weights; their pairs wait as the next ones. `flag`: null, or device memory that
  // makes every kernel return at once while it is 0, so that a captured graph serves unsampled steps too.
  virtual Status Spectra(Stream stream, const int* flag = nullptr) = 0;
  // The next pairs come into use from here on.
  virtual void Adopt() = 0;

  // r_i of the present weights along the pairs in use: as the start of the next difference,
  virtual Status Start(Stream stream, const int* flag = nullptr) = 0;
  // closing a difference (learning_rate times the head's decay is taken out of it),
  virtual Status Step(Stream stream, double learning_rate, const int* flag = nullptr) = 0;
  // or closing one along the pairs in use and starting the next along the next ones, which are adopted.
  virtual Status Refresh(Stream stream, double learning_rate, const int* flag = nullptr) = 0;
  // Spectra and Step of the same weights in two reads of them, not three.
  virtual Status SpectraAndStep(Stream stream, double learning_rate, const int* flag = nullptr) = 0;
  // Forgets the windows' sums. `all`: r too.
  virtual Status Clear(Stream stream, bool all) = 0;

  // Bytes of host memory for ReadOut, and where things lie in it.
  virtual size_t HostBytes() const = 0;
  virtual DeviceResults ResultsIn(const void* host) const = 0;
  // Copies all results to `host`.
  virtual Status ReadOut(Stream stream, void* host) = 0;

  // Device memory: kPairs vectors of the head, one after the other; next: those of the last Spectra.
  virtual const float* u(int32_t head, bool next) const = 0;
  virtual const float* v(int32_t head, bool next) const = 0;
  virtual size_t DeviceBytes() const = 0;
};

}  // namespace foreshock::cuda
