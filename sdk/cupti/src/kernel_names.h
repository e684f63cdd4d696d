// What a GPU kernel does and in which type, from its name alone: names are all that CUPTI gives. Mangled or
// not.
#pragma once

#include <string_view>

namespace foreshock::sdk {

// "foreshock" (our own), "attention_forward", "attention_backward", "communication", "optimizer", "norm",
// "softmax_loss", "matmul", "copy", "elementwise", "other".
std::string_view KernelFamily(std::string_view name);

// "bf16", "fp16", "16 bit" where the name says that it is one of these, "fp8", "fp32", or "" where it does not say.
std::string_view KernelType(std::string_view name);

}  // namespace foreshock::sdk
