#include "foreshock/json/writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace foreshock::json {
namespace {

std::string Of(float value) {
  Writer out;
  out.Float(value);
  return out.Take();
}

TEST(Writer, PutsCommasWhereTheyBelong) {
  Writer out;
  out.BeginObject().Key("a").BeginArray().Int(1).Null().Bool(true).EndArray();
  out.Key("b").BeginObject().EndObject().Key("c").Raw("[]").EndObject();
  EXPECT_EQ(out.text(), R"({"a":[1,null,true],"b":{},"c":[]})");
}

TEST(Writer, TextEndingInABracketDoesNotEatTheNextComma) {
  Writer out;
  out.BeginArray().String("[").String("{").String(":").String("x").EndArray();
  EXPECT_EQ(out.text(), R"(["[","{",":","x"])");
}

TEST(Writer, NonFiniteNumbersAreStrings) {
  EXPECT_EQ(Of(std::nanf("")), "\"NaN\"");
  EXPECT_EQ(Of(std::numeric_limits<float>::infinity()), "\"Infinity\"");
  EXPECT_EQ(Of(-std::numeric_limits<float>::infinity()), "\"-Infinity\"");
}

TEST(Writer, EveryFloatReadsBackBitForBit) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(std::strtof(Of(value).c_str(), nullptr)), bits) << Of(value);
    // Also by way of a double, as most JSON readers go.
    const auto read = nlohmann::json::parse(Of(value)).get<double>();
    ASSERT_EQ(std::bit_cast<uint32_t>(static_cast<float>(read)), bits) << Of(value);
  }
  EXPECT_EQ(Of(0.1f), "0.1");
  EXPECT_EQ(Of(0.0f), "0");
}

// "-0" would come back as 0 from readers that know integers.
TEST(Writer, MinusZeroKeepsItsSign) {
  EXPECT_EQ(Of(-0.0f), "-0.0");
  Writer out;
  out.BeginArray().Float(-0.0f).Double(-0.0).EndArray();
  for (const auto& value : nlohmann::json::parse(out.text())) {
    EXPECT_EQ(value.get<double>(), 0);
    EXPECT_TRUE(std::signbit(value.get<double>())) << out.text();
  }
}

TEST(Writer, AnyBytesGiveTextThatAParserTakes) {
  std::mt19937 random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random());
    Writer out;
    out.String(text);
    ASSERT_NO_THROW(nlohmann::json::parse(out.text()).get<std::string>()) << out.text();
  }
  Writer out;
  out.String("a\"\\\n\x01\xff\xc3\xa9");
  EXPECT_EQ(out.text(), "\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\xc3\xa9\"");
}

TEST(Rfc3339, GivesUtcWithNanoseconds) {
  EXPECT_EQ(Rfc3339(1'700'000'000'123'456'789), "2023-11-14T22:13:20.123456789Z");
  EXPECT_EQ(Rfc3339(-1), "1969-12-31T23:59:59.999999999Z");
}

}  // namespace
}  // namespace foreshock::json
