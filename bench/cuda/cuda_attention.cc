// Device time of the attention probe, beside the time that the tensor cores alone would need.
//
//   bench_cuda_attention [--json FILE] [--reference FILE] [--case NAME]
//
// --reference: the output of bench/cuda/attention_reference.py on the same machine; without it the columns
// that compare are empty. Inputs rotate past the L2; figures are medians over batches of calls.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "foreshock/sdk/cuda/attention_probe.h"
#include "probe_timing.h"

namespace {

using namespace foreshock;
using bench::Check;
using bench::MedianMillisecondsOf;
using bench::Normals;
using kernels::AttentionHeadStats;
using kernels::AttentionProblem;
using kernels::DType;

constexpr double kTensorTeraflops = 989;  // dense bf16, H200 datasheet

struct Case {
  const char* name;
  int64_t batch, heads, kv_heads, length, dim;
  bool causal;
  int32_t every;
  bool misaligned;  // takes the portable kernel
  float softcap;
};

constexpr Case kCases[] = {
    {"2x32x4096x128", 2, 32, 32, 4096, 128, true, 1, false, 0},
    {"1x32x16384x128", 1, 32, 32, 16384, 128, true, 1, false, 0},
    {"16x12x1024x64", 16, 12, 12, 1024, 64, true, 1, false, 0},
    {"2x32x4096x128 1/8", 2, 32, 32, 4096, 128, true, 8, false, 0},
    {"1x32x16384x128 1/8", 1, 32, 32, 16384, 128, true, 8, false, 0},
    {"16x12x1024x64 1/8", 16, 12, 12, 1024, 64, true, 8, false, 0},
    {"2x32/8x4096x128", 2, 32, 8, 4096, 128, true, 1, false, 0},
    {"2x32x4096x128 full", 2, 32, 32, 4096, 128, false, 1, false, 0},
    {"16x12x1024x64 portable", 16, 12, 12, 1024, 64, true, 1, true, 0},
    {"16x12x1024x64 softcap", 16, 12, 12, 1024, 64, true, 1, false, 50},
};

// One pair of q and k.
struct Inputs {
  unsigned char* q = nullptr;
  unsigned char* k = nullptr;
};

// Device memory filled with normals from different places of the same sample.
unsigned char* Fill(size_t bytes, const std::vector<uint16_t>& normals, size_t at) {
  void* p = nullptr;
  Check(cudaMalloc(&p, bytes + 16), "cudaMalloc");
  const size_t sample = normals.size() * 2;
  for (size_t to = 0; to < bytes;) {
    const size_t from = (at * 7919 + to * 3) % (sample / 2) / 16 * 16;
    const size_t n = std::min(bytes - to, sample / 2);
    Check(
        cudaMemcpy(static_cast<unsigned char*>(p) + to,
                   reinterpret_cast<const unsigned char*>(normals.data()) + from, n, cudaMemcpyHostToDevice),
        "cudaMemcpy");
    to += n;
  }
  return static_cast<unsigned char*>(p);
}

double MedianMilliseconds(const Case& c, const std::vector<uint16_t>& normals) {
  const auto q_bytes = static_cast<size_t>(c.batch * c.heads * c.length * c.dim * 2);
  const auto k_bytes = static_cast<size_t>(c.batch * c.kv_heads * c.length * c.dim * 2);
  const size_t sets = std::clamp<size_t>((size_t{200} << 20) / (q_bytes + k_bytes) + 1, 2, 8);
  std::vector<Inputs> inputs(sets);
  for (size_t i = 0; i < sets; ++i) {
    inputs[i] = {Fill(q_bytes, normals, 2 * i), Fill(k_bytes, normals, 2 * i + 1)};
  }
  AttentionProblem p;
  p.scale = 1 / std::sqrt(static_cast<float>(c.dim));
  p.causal = c.causal;
  p.softcap = c.softcap;
  p.sampling.row_every = c.every;
  const auto at = [&](const Inputs& in) {
    const int shift = c.misaligned ? 2 : 0;
    p.q = kernels::Bhsd(in.q + shift, DType::kBf16, c.batch, c.length, c.heads, c.dim);
    p.k = kernels::Bhsd(in.k + shift, DType::kBf16, c.batch, c.length, c.kv_heads, c.dim);
  };
  at(inputs[0]);
  const size_t bytes = cuda::AttentionProbeWorkspaceBytes(p);
  void* workspace = nullptr;
  void* out = nullptr;
  Check(cudaMalloc(&workspace, bytes), "cudaMalloc");
  Check(cudaMalloc(&out, static_cast<size_t>(c.heads) * sizeof(AttentionHeadStats)), "cudaMalloc");
  const double median = MedianMillisecondsOf(15, sets, [&] {
    for (const Inputs& in : inputs) {
      at(in);
      Check(cuda::LaunchAttentionProbe(p, nullptr, static_cast<AttentionHeadStats*>(out), {workspace, bytes},
                                       nullptr));
    }
  });
  for (const Inputs& in : inputs) {
    Check(cudaFree(in.q), "cudaFree");
    Check(cudaFree(in.k), "cudaFree");
  }
  Check(cudaFree(workspace), "cudaFree");
  Check(cudaFree(out), "cudaFree");
  return median;
}

// Lines "name<TAB>milliseconds".
std::map<std::string, double> ReadReference(const char* path) {
  std::map<std::string, double> out;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) out[line.substr(0, tab)] = std::atof(line.c_str() + tab + 1);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "cuda_attention: figures need a Release build\n");
  return 1;
#endif
  const char* json_path = nullptr;
  const char* only = nullptr;
  std::map<std::string, double> reference;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--json") == 0) json_path = argv[i + 1];
    if (std::strcmp(argv[i], "--case") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--reference") == 0) reference = ReadReference(argv[i + 1]);
  }
  if (!cuda::DriverSupport().usable) {
    std::printf("cuda_attention: skipped: %s\n", cuda::DriverSupport().reason.c_str());
    return 0;
  }
  const std::vector<uint16_t> normals = Normals(size_t{1} << 23, 1, 7);
  std::FILE* json = json_path == nullptr ? nullptr : std::fopen(json_path, "w");
  std::printf("%-24s %10s %10s %8s %10s %8s\n", "attention probe", "ms", "tensor ms", "share", "cuDNN ms",
              "ratio");
  for (const Case& c : kCases) {
    if (only != nullptr && std::strcmp(only, c.name) != 0) continue;
    const double ms = MedianMilliseconds(c, normals);
    const double scores =
        static_cast<double>(c.batch * c.heads * c.length * c.length) / (c.causal ? 2 : 1) / c.every;
    const double floor_ms = 2 * scores * static_cast<double>(c.dim) / (kTensorTeraflops * 1e9);
    std::string base = c.name;
    base = base.substr(0, base.find(' '));
    const auto found = reference.find(c.causal ? base : base + " full");
    const double cudnn = found == reference.end() ? NAN : found->second;
    std::printf("%-24s %10.4f %10.4f %7.1f%% %10.4f %8.3f\n", c.name, ms, floor_ms, 100 * floor_ms / ms,
                cudnn, ms / cudnn);
    if (json == nullptr) continue;
    std::fprintf(json, "{\"case\":\"%s\",\"ms\":%.5f,\"tensor_core_floor_ms\":%.5f,\"share_of_peak\":%.4f",
                 c.name, ms, floor_ms, floor_ms / ms);
    if (found != reference.end()) std::fprintf(json, ",\"cudnn_ms\":%.5f,\"ratio\":%.4f", cudnn, ms / cudnn);
    std::fprintf(json, "}\n");
  }
  if (json != nullptr) std::fclose(json);
  return 0;
}
