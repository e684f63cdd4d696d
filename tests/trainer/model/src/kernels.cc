#include "foreshock/trainer/kernels.h"

#include <cstdlib>
#include <string_view>

namespace foreshock::trainer {

extern const Kernels kPortableKernels;
#ifdef FORESHOCK_TRAINER_AVX2
extern const Kernels kAvx2Kernels;
#endif

namespace {

const Kernels& choose() {
#ifdef FORESHOCK_TRAINER_AVX2
  const char* wish = std::getenv("FORESHOCK_TRAINER_KERNELS");
  const bool portable = wish != nullptr && std::string_view(wish) == "portable";
  if (!portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

const Kernels& portable_kernels() { return kPortableKernels; }

}  // namespace foreshock::trainer
