// Times the weight probe on a GPU: spectra of all heads, and the projections of every step.
//
// usage: cuda_weights [--json FILE] [--case INDEX] [--once INDEX]
//   --case: that case alone; --once: one call of it, for a profiler
//
// Each case keeps two versions of the weights that differ by about ten optimizer steps (1e-3 of their size)
// and alternates between them, so that the warm-started eigen-solver has its usual work; all of it lies past
// the L2. Times are medians of CUDA events, each beside one read of the same bytes by a kernel that does
// nothing else.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/cuda/weight_probe.h"
#include "read_kernel.h"

namespace foreshock::bench {
namespace {

using cuda::DeviceBuffer;
using kernels::DType;
using kernels::ProjectionLayout;

void Must(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}
void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) Must(result.status());
  return std::move(result).value();
}

struct Case {
  const char* name;
  int layers, heads;  // query heads, and as many key heads
  int64_t d_model, d_head;
  bool bf16;
  ProjectionLayout layout;
  bool fused;                         // q, k and v in one parameter
  double limit_ms, project_limit_ms;  // 0: none was set
};

const Case kCases[] = {
    {"4096x128 bf16", 16, 32, 4096, 128, true, ProjectionLayout::kLinear, false, 0.8, 0},
    {"4096x128 fp32", 16, 32, 4096, 128, false, ProjectionLayout::kLinear, false, 1.6, 0},
    {"4096x128 bf16 conv1d", 16, 32, 4096, 128, true, ProjectionLayout::kConv1d, false, 0.8, 0},
    {"768x64 fp32 (GPT-2)", 12, 12, 768, 64, false, ProjectionLayout::kLinear, false, 0.16, 0.03},
    {"768x64 fp32 fused conv1d", 12, 12, 768, 64, false, ProjectionLayout::kConv1d, true, 0.16, 0.03},
};

double MedianMs(int repeats, const std::function<void(int)>& prepare, const std::function<void(int)>& run) {
  cudaEvent_t begin, end;
  Must(cudaEventCreate(&begin), "event");
  Must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -3; i < repeats; ++i) {
    prepare(i + 3);
    Must(cudaDeviceSynchronize(), "synchronize");
    Must(cudaEventRecord(begin, nullptr), "record");
    run(i + 3);
    Must(cudaEventRecord(end, nullptr), "record");
    Must(cudaDeviceSynchronize(), "synchronize");
    float ms = 0;
    Must(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return times[times.size() / 2];
}

// One version of a model's weights, `parts` parameters a layer.
struct Weights {
  DeviceBuffer buffer;
  int64_t parameter = 0;  // elements
};

class Model {
 public:
  explicit Model(const Case& c) : c_(c) {
    const int64_t outputs = c.heads * c.d_head * (c.fused ? 3 : 1);
    parameter_ = outputs * c.d_model;
    count_ = static_cast<size_t>(parameter_) * c.layers * (c.fused ? 1 : 2);
    // Small models: several copies, so that a read never finds the last one in the L2.
    const size_t bytes = count_ * (c.bf16 ? 2 : 4);
    copies_ = bytes > (size_t{300} << 20) ? 2 : 6;
    auto change = Must(DeviceBuffer::Make(0, bytes));
    for (int i = 0; i < copies_; ++i) versions_.push_back(Must(DeviceBuffer::Make(0, bytes)));
    LaunchFill(versions_[0].data(), count_, c.bf16, 0.02f, 1);
    for (int i = 1; i < copies_; ++i) {
      LaunchFill(change.data(), count_, c.bf16, 2e-5f, 10 + static_cast<unsigned>(i));
      LaunchAdd(versions_[0].data(), change.data(), versions_[static_cast<size_t>(i)].data(), count_, c.bf16);
    }
    Must(cudaDeviceSynchronize(), "fill");
  }

  int copies() const { return copies_; }
  const void* data(int version) const { return versions_[static_cast<size_t>(version)].data(); }
  size_t bytes() const { return count_ * (c_.bf16 ? 2 : 4); }
  // Bytes of W_Q and W_K alone.
  double used_bytes() const {
    return 2.0 * c_.layers * c_.heads * static_cast<double>(c_.d_model * c_.d_head) * (c_.bf16 ? 2 : 4);
  }

  std::vector<cuda::DeviceHead> Heads(int version) const {
    std::vector<cuda::DeviceHead> heads;
    const DType dtype = c_.bf16 ? DType::kBf16 : DType::kFp32;
    for (int l = 0; l < c_.layers; ++l) {
      for (const bool key : {false, true}) {
        for (int h = 0; h < c_.heads; ++h) {
          const auto* base = static_cast<const unsigned char*>(data(version));
          if (c_.fused) {
            base += size_t(l) * parameter_ * kernels::SizeOf(dtype);
            heads.push_back(
                {kernels::HeadOfFusedQkv(base, dtype, c_.layout, kernels::QkvPacking::kConcatenated,
                                         key ? kernels::QkvPart::kKey : kernels::QkvPart::kQuery, c_.d_model,
                                         c_.heads, c_.heads, h, c_.d_head),
                 0.1});
          } else {
            base += size_t(l * 2 + key) * parameter_ * kernels::SizeOf(dtype);
            heads.push_back(
                {kernels::HeadOfProjection(base, dtype, c_.layout, c_.d_model, c_.heads, h, c_.d_head), 0.1});
          }
        }
      }
    }
    return heads;
  }
  std::vector<cuda::QkPair> Pairs() const {
    std::vector<cuda::QkPair> pairs;
    for (int l = 0; l < c_.layers; ++l) {
      for (int h = 0; h < c_.heads; ++h)
        pairs.push_back({(2 * l) * c_.heads + h, (2 * l + 1) * c_.heads + h});
    }
    return pairs;
  }

 private:
  Case c_;
  int64_t parameter_ = 0;
  size_t count_ = 0;
  int copies_ = 1;
  std::vector<DeviceBuffer> versions_;
};

struct Row {
  std::string name;
  double read_ms, cold_ms, spectra_ms, whole_ms, project_ms, refresh_ms, bytes;
  int rounds_cold, rounds_warm;
};

int LargestRounds(cuda::WeightProbe* probe, size_t heads) {
  std::vector<unsigned char> host(probe->HostBytes());
  Must(probe->ReadOut(nullptr, host.data()));
  Must(cudaDeviceSynchronize(), "read");
  int most = 0;
  for (size_t h = 0; h < heads; ++h) most = std::max(most, probe->ResultsIn(host.data()).spectra[h].rounds);
  return most;
}

Row Measure(const Case& c, bool once) {
  const Model model(c);
  const size_t n = model.Heads(0).size();
  auto probe = Must(cuda::WeightProbe::Make(0, model.Heads(0), model.Pairs()));
  auto scratch = Must(DeviceBuffer::Make(0, 256));
  const auto look_at = [&](int i) {
    const auto heads = model.Heads(i % model.copies());
    for (size_t h = 0; h < n; ++h) probe->SetView(static_cast<int32_t>(h), heads[h].view);
    Must(probe->Upload(nullptr));
  };
  Row row{};
  row.name = c.name;
  row.bytes = model.used_bytes();
  // Cold: a probe's first call, kernels loaded by another's.
  Must(probe->Spectra(nullptr));
  Must(cudaDeviceSynchronize(), "warm-up");
  auto cold = Must(cuda::WeightProbe::Make(0, model.Heads(0), model.Pairs()));
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, nullptr);
  Must(cold->Spectra(nullptr));
  cudaEventRecord(end, nullptr);
  Must(cudaDeviceSynchronize(), "cold");
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  row.cold_ms = ms;
  row.rounds_cold = LargestRounds(cold.get(), n);
  probe->Adopt();
  if (once) {
    look_at(1);
    Must(probe->Spectra(nullptr));
    Must(probe->Start(nullptr));
    Must(cudaDeviceSynchronize(), "once");
    return row;
  }
  const int repeats = 30;
  row.read_ms = MedianMs(
      repeats, [](int) {},
      [&](int i) {
        LaunchRead(model.data(i % model.copies()), static_cast<size_t>(row.bytes), scratch.data());
      });
  row.spectra_ms = MedianMs(repeats, look_at, [&](int) { Must(probe->Spectra(nullptr)); });
  row.rounds_warm = LargestRounds(probe.get(), n);
  row.whole_ms = MedianMs(repeats, look_at, [&](int) { Must(probe->SpectraAndStep(nullptr, 1e-3)); });
  row.project_ms = MedianMs(repeats, look_at, [&](int) { Must(probe->Step(nullptr, 1e-3)); });
  row.refresh_ms = MedianMs(repeats, look_at, [&](int) { Must(probe->Refresh(nullptr, 1e-3)); });
  return row;
}

}  // namespace

int Main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "cuda_weights: build with CMAKE_BUILD_TYPE=Release\n");
  return 2;
#endif
  if (!cuda::DriverSupport().usable) {
    std::printf("cuda_weights: %s: nothing is measured\n", cuda::DriverSupport().reason.c_str());
    return 0;
  }
  const char* json = nullptr;
  int once = -1, only = -1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--json") == 0) json = argv[i + 1];
    if (std::strcmp(argv[i], "--case") == 0) only = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--once") == 0) only = once = std::atoi(argv[i + 1]);
  }
  std::FILE* out = json != nullptr ? std::fopen(json, "w") : nullptr;
  // Share: of the time that one read of the weights takes. Whole: spectra, and r_i that closes c_i.
  std::printf("%-26s %8s %8s %8s %6s %8s %8s %8s %6s %8s %7s\n", "weights", "read ms", "cold ms", "spectra",
              "share", "limit", "whole ms", "r_i ms", "share", "limit", "rounds");
  int index = 0;
  for (const Case& c : kCases) {
    if (const int at = index++; only >= 0 && only != at) continue;
    const Row r = Measure(c, once >= 0);
    if (once >= 0) return 0;
    std::printf("%-26s %8.3f %8.3f %8.3f %5.0f%% %8.3f %8.3f %8.3f %5.0f%% %8.3f %3d/%d\n", r.name.c_str(),
                r.read_ms, r.cold_ms, r.spectra_ms, 100 * r.read_ms / r.spectra_ms, c.limit_ms, r.whole_ms,
                r.project_ms, 100 * r.read_ms / r.project_ms, c.project_limit_ms, r.rounds_warm,
                r.rounds_cold);
    if (out != nullptr) {
      std::fprintf(
          out,
          "{\"bench\":\"cuda_weights\",\"case\":\"%s\",\"bytes\":%.0f,\"read_ms\":%.4f,\"read_gb_s\":%.0f,"
          "\"cold_ms\":%.4f,\"spectra_ms\":%.4f,\"project_ms\":%.4f,\"refresh_ms\":%.4f,\"whole_ms\":%.4f,"
          "\"limit_ms\":%.3f,"
          "\"project_limit_ms\":%.3f,\"rounds_warm\":%d,\"rounds_cold\":%d}\n",
          r.name.c_str(), r.bytes, r.read_ms, r.bytes / r.read_ms * 1e-6, r.cold_ms, r.spectra_ms,
          r.project_ms, r.refresh_ms, r.whole_ms, c.limit_ms, c.project_limit_ms, r.rounds_warm,
          r.rounds_cold);
      std::fflush(out);
    }
  }
  if (out != nullptr) std::fclose(out);
  return 0;
}

}  // namespace foreshock::bench

int main(int argc, char** argv) { return foreshock::bench::Main(argc, argv); }
