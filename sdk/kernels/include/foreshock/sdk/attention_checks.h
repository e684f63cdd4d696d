// The argument checks that every backend makes. They follow no pointer: tensors and cu_seqlens may lie on a
// device.
#pragma once

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/kernel_status.h"
#include "foreshock/sdk/rounding_probe.h"

namespace foreshock::kernels {

// Shapes, dtypes and options; not the contents of cu_seqlens.
KernelStatus CheckAttentionArguments(const AttentionProblem& problem) noexcept;

// The same with the tensors that the rounding probe reads.
KernelStatus CheckRoundingArguments(const RoundingProblem& problem) noexcept;

}  // namespace foreshock::kernels
