// One allocation for everything that a set of heads needs on its device, and the order of the launches: G of
// every head, its leading vectors, W_Q W_K^T beside the second pass over W, sigma, u and v.
#include "foreshock/sdk/cuda/weight_probe.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "foreshock/sdk/cuda/device_buffer.h"
#include "weight_launch.h"
#include "weight_plan.h"

namespace foreshock::cuda {
namespace {

static_assert(sizeof(DeviceSpectrum) == sizeof(SpectrumRecord));
static_assert(sizeof(DeviceUpdates) == sizeof(UpdateRecord));
static_assert(static_cast<int>(kernels::DType::kBf16) == 1 && static_cast<int>(kernels::DType::kFp16) == 2 &&
              static_cast<int>(kernels::DType::kFp32) == 3 && static_cast<int>(kernels::DType::kFp64) == 4);

constexpr size_t kAlign = 256;

// Places of the parts of one allocation.
class Places {
 public:
  template <typename T>
  size_t Take(size_t count) {
    const size_t at = bytes_;
    bytes_ += (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// A second stream, forked off a caller's and joined to it again, also while the caller captures a graph. Of
// the greatest priority: its kernel's blocks need whole multiprocessors, and would come last among those of
// many others.
class SideStream {
 public:
  SideStream() = default;
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream() {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    for (cudaEvent_t event : {forked_, joined_}) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
  }

  // On the current device. Returns a cudaError_t, as the others.
  int Make() {
    int least = 0, greatest = 0;
    int error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error == 0) error = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
    if (error == 0) error = cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming);
    if (error == 0) error = cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming);
    return error;
  }
  // What is enqueued on stream() from now on runs after what is on `from`.
  int Fork(Stream from) {
    const int error = cudaEventRecord(forked_, static_cast<cudaStream_t>(from));
    return error != 0 ? error : cudaStreamWaitEvent(stream_, forked_, 0);
  }
  // What is enqueued on `to` from now on runs after what is on stream().
  int Join(Stream to) {
    const int error = cudaEventRecord(joined_, stream_);
    return error != 0 ? error : cudaStreamWaitEvent(static_cast<cudaStream_t>(to), joined_, 0);
  }
  Stream stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

class Probe final : public WeightProbe {
 public:
  Probe(int device, WeightPlan plan) : device_(device), plan_(std::move(plan)) {}

  Status Build() {
    const DeviceGuard guard(device_);
    if (!guard.ok())
      return Status(Code::kUnavailable, "CUDA device " + std::to_string(device_) + " is not there");
    FS_RETURN_IF_ERROR(CudaStatus(PrepareWeightKernels(), "cudaFuncSetAttribute"));
    FS_RETURN_IF_ERROR(CudaStatus(PrepareEigenKernels(), "cudaFuncSetAttribute"));
    FS_RETURN_IF_ERROR(CudaStatus(side_.Make(), "cudaStreamCreate"));
    Places places;
    const size_t heads = plan_.heads.size(), qk = plan_.qk.size();
    const size_t at_heads = places.Take<HeadRecord>(heads);
    const size_t at_gram_chunks = places.Take<RowChunk>(plan_.gram_chunks.size());
    const size_t at_project_chunks = places.Take<RowChunk>(plan_.project_chunks.size());
    const size_t at_head_list = places.Take<int32_t>(heads);
    const size_t at_qk = places.Take<QkRecord>(qk);
    const size_t at_records = places.Take<GramRecord>(heads);
    const size_t at_partial = places.Take<double>(plan_.project_chunks.size() * kPartials);
    const size_t at_arrived = places.Take<unsigned>(heads);
    const size_t at_gram = places.Take<float>(static_cast<size_t>(plan_.gram_floats));
    const size_t at_basis = places.Take<float>(static_cast<size_t>(plan_.basis_floats));
    size_t at_u[2], at_v[2];
    for (int i = 0; i < 2; ++i) {
      at_u[i] = places.Take<float>(static_cast<size_t>(plan_.u_floats));
      at_v[i] = places.Take<float>(static_cast<size_t>(plan_.v_floats));
    }
    // Read out in one copy.
    at_results_ = places.bytes();
    at_spectra_ = places.Take<SpectrumRecord>(heads) - at_results_;
    at_updates_ = places.Take<UpdateRecord>(heads) - at_results_;
    at_qk_ = places.Take<double>(qk) - at_results_;
    host_bytes_ = places.bytes() - at_results_;
    FS_ASSIGN_OR_RETURN(buffer_, DeviceBuffer::Make(device_, std::max<size_t>(places.bytes(), 1)));
    auto* base = buffer_.as<unsigned char>();
    buffers_.heads = reinterpret_cast<HeadRecord*>(base + at_heads);
    buffers_.gram_chunks = reinterpret_cast<RowChunk*>(base + at_gram_chunks);
    buffers_.project_chunks = reinterpret_cast<RowChunk*>(base + at_project_chunks);
    buffers_.head_list = reinterpret_cast<int32_t*>(base + at_head_list);
    buffers_.qk = reinterpret_cast<QkRecord*>(base + at_qk);
    buffers_.gram = reinterpret_cast<float*>(base + at_gram);
    buffers_.basis = reinterpret_cast<float*>(base + at_basis);
    buffers_.records = reinterpret_cast<GramRecord*>(base + at_records);
    buffers_.spectra = reinterpret_cast<SpectrumRecord*>(base + at_results_ + at_spectra_);
    buffers_.updates = reinterpret_cast<UpdateRecord*>(base + at_results_ + at_updates_);
    buffers_.qk_sigma1 = reinterpret_cast<double*>(base + at_results_ + at_qk_);
    buffers_.partial = reinterpret_cast<double*>(base + at_partial);
    buffers_.arrived = reinterpret_cast<unsigned*>(base + at_arrived);
    for (int i = 0; i < 2; ++i) {
      pairs_[i] = {reinterpret_cast<float*>(base + at_u[i]), reinterpret_cast<float*>(base + at_v[i])};
    }
    const auto send = [&](size_t at, const auto& from) {
      return CudaStatus(
          cudaMemcpy(base + at, from.data(), from.size() * sizeof(from[0]), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    };
    FS_RETURN_IF_ERROR(send(at_heads, plan_.heads));
    FS_RETURN_IF_ERROR(send(at_gram_chunks, plan_.gram_chunks));
    FS_RETURN_IF_ERROR(send(at_project_chunks, plan_.project_chunks));
    FS_RETURN_IF_ERROR(send(at_head_list, plan_.head_list));
    FS_RETURN_IF_ERROR(send(at_qk, plan_.qk));
    return CudaStatus(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

  void SetView(int32_t head, const kernels::WeightView& view) override {
    PlaceHead(view, &plan_.heads[static_cast<size_t>(head)]);
  }

  Status Upload(Stream stream) override {
    const DeviceGuard guard(device_);
    return CudaStatus(cudaMemcpyAsync(const_cast<HeadRecord*>(buffers_.heads), plan_.heads.data(),
                                      plan_.heads.size() * sizeof(HeadRecord), cudaMemcpyHostToDevice,
                                      static_cast<cudaStream_t>(stream)),
                      "cudaMemcpyAsync");
  }

  Status Spectra(Stream stream, const int* flag) override { return Sample(stream, nullptr, 0, flag); }
  Status SpectraAndStep(Stream stream, double learning_rate, const int* flag) override {
    return Sample(stream, &pairs_[now_], learning_rate, flag);
  }

  void Adopt() override { now_ = 1 - now_; }

  Status Start(Stream stream, const int* flag) override {
    return Project(stream, false, Counting::kStart, 0, flag);
  }
  Status Step(Stream stream, double learning_rate, const int* flag) override {
    return Project(stream, false, Counting::kStep, learning_rate, flag);
  }
  Status Refresh(Stream stream, double learning_rate, const int* flag) override {
    FS_RETURN_IF_ERROR(Project(stream, true, Counting::kStep, learning_rate, flag));
    Adopt();
    return OkStatus();
  }
  Status Clear(Stream stream, bool all) override {
    const DeviceGuard guard(device_);
    return CudaStatus(LaunchClear(buffers_, heads(), all, stream), "clearing windows");
  }

  size_t HostBytes() const override { return host_bytes_; }
  DeviceResults ResultsIn(const void* host) const override {
    const auto* base = static_cast<const unsigned char*>(host);
    return {reinterpret_cast<const DeviceSpectrum*>(base + at_spectra_),
            reinterpret_cast<const DeviceUpdates*>(base + at_updates_),
            reinterpret_cast<const double*>(base + at_qk_)};
  }
  Status ReadOut(Stream stream, void* host) override {
    const DeviceGuard guard(device_);
    return CudaStatus(cudaMemcpyAsync(host, buffer_.as<unsigned char>() + at_results_, host_bytes_,
                                      cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)),
                      "cudaMemcpyAsync");
  }

  const float* u(int32_t head, bool next) const override {
    return pairs_[next ? 1 - now_ : now_].u + plan_.heads[static_cast<size_t>(head)].u_at;
  }
  const float* v(int32_t head, bool next) const override {
    return pairs_[next ? 1 - now_ : now_].v + plan_.heads[static_cast<size_t>(head)].v_at;
  }
  size_t DeviceBytes() const override { return buffer_.bytes(); }

 private:
  int heads() const { return static_cast<int>(plan_.heads.size()); }

  // Spectra, and with `now`, the pairs in use, what Step does.
  Status Sample(Stream stream, const Pairs* now, double learning_rate, const int* flag) {
    const DeviceGuard guard(device_);
    int error = 0;
    const auto run = [&error](int code) {
      if (error == 0) error = code;
    };
    const Pairs next = pairs_[1 - now_];
    for (const GramGroup& g : plan_.gram_groups)
      run(LaunchGram(buffers_, g.padded, g.dtype, g.kind, g.first, g.count, flag, stream));
    run(LaunchGramSlow(buffers_, heads(), plan_.largest_padded, flag, stream));
    for (const SizeGroup& g : plan_.head_groups)
      run(LaunchSpectrum(buffers_, g.padded, g.first, g.count, next.v, flag, stream));
    // The products' solver waits for its own sums most of the time, the second pass over W for memory.
    const bool side = !plan_.qk_groups.empty();
    if (side) run(side_.Fork(stream));
    for (const SizeGroup& g : plan_.qk_groups)
      run(LaunchQk(buffers_, g.padded, g.first, g.count, flag, side_.stream()));
    for (const ProjectGroup& g : plan_.project_groups)
      run(LaunchSpectraPass(buffers_, g, plan_.largest_head, next, now, flag, stream));
    run(LaunchFinish(buffers_, heads(), next, now != nullptr, learning_rate, flag, stream));
    if (side) run(side_.Join(stream));
    return CudaStatus(error, "weight spectra");
  }

  Status Project(Stream stream, bool both, Counting counting, double learning_rate, const int* flag) {
    const DeviceGuard guard(device_);
    int error = 0;
    for (const ProjectGroup& g : plan_.project_groups) {
      if (error != 0) break;
      error = LaunchProject(buffers_, g, plan_.largest_head, pairs_[now_], both ? &pairs_[1 - now_] : nullptr,
                            counting, learning_rate, flag, stream);
    }
    return CudaStatus(error, "weight projections");
  }

  const int device_;
  WeightPlan plan_;
  SideStream side_;
  DeviceBuffer buffer_;
  WeightBuffers buffers_{};
  Pairs pairs_[2] = {};
  int now_ = 0;
  size_t at_results_ = 0, at_spectra_ = 0, at_updates_ = 0, at_qk_ = 0, host_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<WeightProbe>> WeightProbe::Make(int device, std::vector<DeviceHead> heads,
                                                       std::vector<QkPair> pairs) {
  int multiprocessors = 0;
  FS_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                 "cudaDeviceGetAttribute"));
  int major = 0, minor = 0;
  FS_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                                "cudaDeviceGetAttribute"));
  FS_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                                "cudaDeviceGetAttribute"));
  FS_ASSIGN_OR_RETURN(WeightPlan plan,
                      PlanWeights(heads, pairs, multiprocessors, HasHopperKernels(major, minor)));
  auto probe = std::make_unique<Probe>(device, std::move(plan));
  FS_RETURN_IF_ERROR(probe->Build());
  return std::unique_ptr<WeightProbe>(std::move(probe));
}

}  // namespace foreshock::cuda
