#include "foreshock/trainer/options.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace foreshock::trainer {
namespace {

bool parse(std::initializer_list<const char*> arguments, Options* options, std::string* error) {
  std::vector<const char*> argv = {"foreshock-trainer"};
  argv.insert(argv.end(), arguments);
  return parse_options(static_cast<int>(argv.size()), argv.data(), options, error);
}

TEST(Options, ReadsValuesInBothForms) {
  Options options;
  std::string error;
  ASSERT_TRUE(parse({"--steps", "200", "--lr=1e-2", "--fault", "delta:0.005", "--fault-step=100",
                     "--fault-head", "1.2", "--data", "a", "--data", "b", "--jsonl"},
                    &options, &error))
      << error;
  EXPECT_EQ(options.steps, 200);
  EXPECT_EQ(options.training.learning_rate, 1e-2);
  EXPECT_EQ(options.training.fault.first_step, 100);
  EXPECT_EQ(options.training.fault.head, 2);
  EXPECT_EQ(options.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(options.jsonl);
}

TEST(Options, NamesOptionValueAndLimit) {
  const struct {
    std::initializer_list<const char*> arguments;
    const char* expected;
  } cases[] = {
      {{"--stepz", "1"}, "--stepz"},
      {{"--steps"}, "--steps needs a value"},
      {{"--steps", "0"}, "--steps 0: expected a number in 1..1000000000"},
      {{"--steps", "12x"}, "--steps 12x"},
      {{"--lr", "nan"}, "--lr nan"},
      {{"--lr", "-1"}, "--lr -1: expected a number in 1e-09..1000"},
      {{"--quiet=yes"}, "--quiet takes no value"},
      {{"--fault", "delta:zero"}, "delta takes a fraction"},
      {{"--fault-head", "2.0"}, "the model has 2 layers of 4 heads"},
      {{"--fault-head", "0.4"}, "the model has 2 layers of 4 heads"},
      {{"--layers", "3", "--fault-head", "3.0"}, "the model has 3 layers of 4 heads"},
      {{"--layers", "0"}, "1..64"},
      {{"--heads", "257"}, "1..256"},
  };
  for (const auto& c : cases) {
    Options options;
    std::string error;
    EXPECT_FALSE(parse(c.arguments, &options, &error)) << c.expected;
    EXPECT_NE(error.find(c.expected), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace foreshock::trainer
