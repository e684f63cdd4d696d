#include "kernel_names.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>

namespace foreshock::sdk {
namespace {

bool HasAny(const std::string& name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

std::string Lower(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool IsAttention(const std::string& name) {
  return HasAny(name, {"flash", "fmha", "sdpa", "attention", "attn", "mha_fwd", "mha_bwd"});
}

}  // namespace

// The order matters: an attention kernel of cuDNN or CUTLASS is built of matrix products and says so.
std::string_view KernelFamily(std::string_view kernel) {
  const std::string name = Lower(kernel);
  if (HasAny(name, {"foreshock"})) return "foreshock";
  if (IsAttention(name)) {
    return HasAny(name, {"bwd", "backward", "bprop", "dgrad", "dkdv", "dot_do_o"}) ? "attention_backward"
                                                                                   : "attention_forward";
  }
  if (HasAny(name, {"nccl", "allreduce", "all_reduce", "reducescatter", "allgather", "nvshmem"}))
    return "communication";
  if (HasAny(name, {"adam", "multi_tensor_apply", "multitensor", "lamb", "lion_", "fused_sgd"}))
    return "optimizer";
  if (HasAny(name, {"layer_norm", "layernorm", "rms_norm", "rmsnorm", "batch_norm", "gammabeta"}))
    return "norm";
  if (HasAny(name, {"softmax", "nll_loss", "cross_entropy", "crossentropy"})) return "softmax_loss";
  if (HasAny(name, {"gemm", "nvjet", "cutlass", "cublas", "wgmma", "xmma", "gemv", "splitk"}))
    return "matmul";
  if (HasAny(name, {"memcpy", "memset", "direct_copy", "catarray", "transpose", "copy_kernel"}))
    return "copy";
  if (HasAny(name, {"elementwise", "triton_", "reduce_kernel", "dropout", "fill", "gelu", "embedding",
                    "indexing", "gather"})) {
    return "elementwise";
  }
  return "other";
}

std::string_view KernelType(std::string_view kernel) {
  const std::string name = Lower(kernel);
  if (HasAny(name, {"e4m3", "e5m2", "fp8"})) return "fp8";
  if (HasAny(name, {"bf16", "bfloat16"})) return "bf16";
  // cuDNN's names say f16 of bf16 as well (seen on an H200: a bf16 training's attention is "..._wgmma_f16_knob_7").
  if (HasAny(name, {"cudnn", "wgmma_f16"}) && HasAny(name, {"_f16", "f16_"})) return "16 bit";
  if (HasAny(name, {"fp16", "half", "_f16", "f16_"})) return "fp16";
  if (HasAny(name, {"float", "f32", "sgemm", "tf32"})) return "fp32";
  return "";
}

}  // namespace foreshock::sdk
