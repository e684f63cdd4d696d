#include "foreshock/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace foreshock {
namespace {

Result<std::vector<std::unique_ptr<int>>> Three() {
  std::vector<std::unique_ptr<int>> numbers;
  for (int i = 1; i <= 3; ++i) numbers.push_back(std::make_unique<int>(i));
  return numbers;
}

// A reference into a Result that died with its expression would be read after free here (asan).
TEST(Result, AValueTakenFromATemporaryLives) {
  int sum = 0;
  for (const auto& number : Three().value()) sum += *number;
  for (const auto& number : *Three()) sum += *number;
  auto&& kept = Three().value();
  EXPECT_EQ(sum + *kept.back(), 15);
  static_assert(std::is_same_v<decltype(Three().value()), std::vector<std::unique_ptr<int>>>);
  static_assert(std::is_same_v<decltype(*Three()), std::vector<std::unique_ptr<int>>>);
}

TEST(Result, MacrosPassOnTheFailure) {
  const auto twice = [](Result<int> in) -> Result<int> {
    FS_ASSIGN_OR_RETURN(const int value, std::move(in));
    FS_RETURN_IF_ERROR(value < 0 ? Status(Code::kOutOfRange, "value: -1, at least 0") : OkStatus());
    return 2 * value;
  };
  EXPECT_EQ(*twice(4), 8);
  EXPECT_EQ(twice(Status(Code::kIo, "disk")).status().ToString(), "I/O error: disk");
  EXPECT_EQ(twice(-1).status().Annotate("sum").message(), "sum: value: -1, at least 0");
}

TEST(Result, AnOkStatusIsNoValue) { EXPECT_EQ(Result<int>(OkStatus()).status().code(), Code::kInternal); }

}  // namespace
}  // namespace foreshock
