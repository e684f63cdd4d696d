#include "kernels_impl.h"

namespace foreshock::trainer {

extern const Kernels kPortableKernels;
constinit const Kernels kPortableKernels = make_kernels("portable");

}  // namespace foreshock::trainer
