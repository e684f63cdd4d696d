// Writes event files as TensorBoard's writers do, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace foreshock::cli::test {

struct Scalar {
  std::string tag;
  double value = 0;
  // How the number is written: simple_value, or a tensor's float_val, double_val or tensor_content.
  enum class Form { kSimple, kFloatVal, kDoubleVal, kFloatContent, kDoubleContent } form = Form::kSimple;
};

std::string Record(const std::string& payload);
std::string VersionEvent();
std::string ScalarEvent(int64_t step, double wall_time, const std::vector<Scalar>& scalars);

}  // namespace foreshock::cli::test
