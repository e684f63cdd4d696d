#include "kernel_times.h"

#include <gtest/gtest.h>

#include "kernel_names.h"

namespace foreshock::sdk {
namespace {

TEST(KernelNames, TellFamilies) {
  const std::pair<const char*, const char*> cases[] = {
      {"_ZN9foreshock4cuda12FinishKernelENS0_15FinishArgumentsE", "foreshock"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64", "attention_forward"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_1", "attention_backward"},
      {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>",
       "attention_forward"},
      {"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>", "attention_backward"},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention_forward"},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)", "communication"},
      {"void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>", "optimizer"},
      {"void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>", "norm"},
      {"void cunn_SoftMaxForward<8, float>", "softmax_loss"},
      {"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN", "matmul"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "matmul"},
      {"void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", "elementwise"},
      {"triton_poi_fused_add_0", "elementwise"},
      {"Memcpy DtoD", "copy"},
      {"", "other"}};
  for (const auto& [name, family] : cases) EXPECT_EQ(KernelFamily(name), family) << name;
}

TEST(KernelNames, TellTypes) {
  EXPECT_EQ(KernelType("fmha_cutlassF_bf16_aligned"), "bf16");
  EXPECT_EQ(KernelType("flash_fwd<cutlass::half_t>"), "fp16");
  EXPECT_EQ(KernelType("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1"), "16 bit");
  EXPECT_EQ(KernelType("fmha_cutlassF_f16_aligned"), "fp16");
  EXPECT_EQ(KernelType("gemm_e4m3_bf16"), "fp8");
  EXPECT_EQ(KernelType("ampere_sgemm_128x64_nn"), "fp32");
  EXPECT_EQ(KernelType("nvjet_tst"), "");
}

TEST(KernelTimes, SumsByFamilyAndNamesAttention) {
  KernelTimes times;
  EXPECT_EQ(times.OwnShare(), 0);
  times.Add("fmha_cutlassF_bf16", 700);
  times.Add("fmha_cutlassF_bf16", 200);
  times.Add("_ZN9foreshock1xE", 100);
  times.AddLost(3);
  EXPECT_DOUBLE_EQ(times.OwnShare(), 0.1);
  EXPECT_EQ(times.Json(""),
            R"({"reason":"","kernels":3,"lost_records":3,"device_seconds":0.000001000,"own_share":0.100000,)"
            R"("families":{"attention_forward":{"calls":2,"seconds":0.000000900},"foreshock":{"calls":1,"seconds":0.000000100}},)"
            R"("attention":[{"kernel":"fmha_cutlassF_bf16","type":"bf16","calls":2,"seconds":0.000000900}]})"
            "\n");
  EXPECT_NE(times.Json("an \"other\" profiler").find(R"("reason":"an \"other\" profiler")"), std::string::npos);
}

}  // namespace
}  // namespace foreshock::sdk
