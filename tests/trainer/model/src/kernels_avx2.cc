// Compiled with -mavx2 -mfma; entered only after kernels.cc has asked the CPU.
#include "kernels_impl.h"

namespace foreshock::trainer {

extern const Kernels kAvx2Kernels;
constinit const Kernels kAvx2Kernels = make_kernels("avx2");

}  // namespace foreshock::trainer
