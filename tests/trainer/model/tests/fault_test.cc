#include "foreshock/trainer/fault.h"

#include <gtest/gtest.h>

namespace foreshock::trainer {
namespace {

TEST(Fault, ReadsBothKindsAndOneHead) {
  Fault fault;
  std::string error;
  ASSERT_TRUE(parse_fault("output:32", &fault, &error));
  EXPECT_EQ(fault.kind, Fault::Kind::output);
  EXPECT_EQ(fault.amount, 32);
  ASSERT_TRUE(parse_fault("delta:-0.005", &fault, &error));
  EXPECT_EQ(fault.kind, Fault::Kind::delta);
  EXPECT_EQ(fault.amount, -0.005);
  ASSERT_TRUE(parse_fault_head("1.3", &fault, &error));
  EXPECT_TRUE(fault.hits(1, 3));
  EXPECT_FALSE(fault.hits(0, 3));
  EXPECT_FALSE(fault.hits(1, 2));
}

TEST(Fault, ActsFromItsFirstStepOn) {
  const Fault fault{.kind = Fault::Kind::delta, .amount = 1, .first_step = 10};
  EXPECT_FALSE(fault.active(9));
  EXPECT_TRUE(fault.active(10));
  EXPECT_FALSE(Fault{}.active(10));
}

TEST(Fault, RefusesWhatItCannotMean) {
  for (const char* text : {"", "output", "output:", "output:0", "output:1.5", "output:2000", "output:32x",
                           "delta:", "delta:nan", "delta:0", "delta:11", "delta:inf", "mantissa:3"}) {
    Fault fault;
    std::string error;
    EXPECT_FALSE(parse_fault(text, &fault, &error)) << text;
    EXPECT_NE(error.find(text), std::string::npos);
    EXPECT_EQ(fault.kind, Fault::Kind::none);
  }
  for (const char* text : {"", "1", "1.", ".1", "-1.0", "a.b", "1.2.3"}) {
    Fault fault;
    std::string error;
    EXPECT_FALSE(parse_fault_head(text, &fault, &error)) << text;
  }
}

}  // namespace
}  // namespace foreshock::trainer
