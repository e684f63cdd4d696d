#include "foreshock/jsonl/text_recording.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::jsonl {
namespace {

constexpr char kHeader[] = R"({"run":"a","layers":2,"heads":2,"head_dim":16,"sample_every_steps":20})"
                           "\n";
constexpr char kHeader2[] = R"({"run":"a","format":2,"layers":1,"heads":2,"kv_heads":1})"
                            "\n";

struct Read {
  Status status;
  std::vector<wire::RecordingItem> items;
  std::vector<std::string> warnings;

  const wire::Frame& frame(size_t i) const { return std::get<wire::Frame>(items[i]); }
};

Read ReadAll(const std::string& text) {
  Read read;
  read.status = ReadTextRecording(
      text, [&](wire::RecordingItem item) { read.items.push_back(std::move(item)); }, &read.warnings);
  return read;
}

TEST(TextRecording, OlderFormatReadsNullAsNan) {
  const Read read = ReadAll(std::string(kHeader) + R"({"step":20,"loss":null,"wq_sigma1":[[1,null],[3,4.5]]})"
                                                   "\n");
  ASSERT_TRUE(read.status.ok()) << read.status.ToString();
  const wire::Frame& frame = read.frame(1);
  EXPECT_EQ(frame.step, 20);
  EXPECT_TRUE(std::isnan(frame.Find(kLoss)->values[0]));
  EXPECT_TRUE(std::isnan(frame.Find(kWqSigma1, 0)->values[1]));
  EXPECT_EQ(frame.Find(kWqSigma1, 1)->values[1], 4.5f);
}

TEST(TextRecording, FormatTwoReadsNullAsMissingAndStringsAsNotFinite) {
  const Read read = ReadAll(std::string(kHeader2) +
                            R"({"step":1,"loss":null,"logit_max":[[null,"Infinity"]],"wk_sigma1":[["NaN"]]})"
                            "\n");
  ASSERT_TRUE(read.status.ok()) << read.status.ToString();
  EXPECT_EQ(read.frame(1).Find(kLoss), nullptr);
  const wire::Series* logits = read.frame(1).Find(kLogitMax, 0);
  EXPECT_EQ(logits->heads, std::vector<uint32_t>{1});
  EXPECT_TRUE(std::isinf(logits->values[0]));
  EXPECT_TRUE(std::isnan(read.frame(1).Find(kWkSigma1, 0)->values[0]));
}

TEST(TextRecording, RatioComesBackAsNumeratorAndWeight) {
  const Read read = ReadAll(
      std::string(kHeader2) +
      R"({"step":1,"saturated_row_fraction":[[0.5,0.25]],"saturated_row_fraction_weight":[[100,200]]})"
      "\n");
  const wire::Series* series = read.frame(1).Find(kSaturatedRowFraction, 0);
  EXPECT_EQ(series->values, (std::vector<float>{50, 50}));
  EXPECT_EQ(series->weights, (std::vector<float>{100, 200}));
}

TEST(TextRecording, WhatTheWriterWroteComesBack) {
  wire::Hello hello;
  hello.run = "r";
  hello.attempt = "7";
  hello.model.layers = {{0, "a", 2, 1, 16, 0.25f, 0, true, false},
                        {3, "b", 1, 1, 16, 0.25f, 0, false, false}};
  wire::Frame frame;
  frame.step = 5;
  frame.skipped = true;
  frame.series.resize(2);
  frame.series[0].signal = kLoss;
  frame.series[0].values = {2.5f};
  frame.series[1].signal = kWqSigma1;
  frame.series[1].layer = 3;
  frame.series[1].heads = {0};
  frame.series[1].values = {1.25f};
  wire::Event event;
  event.step = 6;
  event.kind = wire::EventKind::kGuard;
  event.detail = "on";
  event.layers = {3};
  wire::Goodbye goodbye;
  goodbye.step = 7;
  goodbye.status = wire::GoodbyeStatus::kFinished;
  const Read read = ReadAll(wire::JsonlHeader(hello) + wire::JsonlLine(hello, frame) +
                            wire::JsonlLine(event) + wire::JsonlLine(goodbye));
  ASSERT_TRUE(read.status.ok()) << read.status.ToString();
  ASSERT_EQ(read.items.size(), 4u);
  EXPECT_EQ(std::get<wire::Hello>(read.items[0]).model.layers, hello.model.layers);
  EXPECT_EQ(std::get<wire::Hello>(read.items[0]).attempt, "7");
  EXPECT_TRUE(read.frame(1).skipped);
  EXPECT_EQ(read.frame(1).Find(kWqSigma1, 3)->values[0], 1.25f);
  EXPECT_EQ(read.frame(1).Find(kWqSigma1, 0), nullptr);
  EXPECT_EQ(std::get<wire::Event>(read.items[2]).kind, wire::EventKind::kGuard);
  EXPECT_EQ(std::get<wire::Event>(read.items[2]).layers, std::vector<uint32_t>{3});
  EXPECT_EQ(std::get<wire::Goodbye>(read.items[3]).status, wire::GoodbyeStatus::kFinished);
}

TEST(TextRecording, TornLastLineIsAWarning) {
  const Read read = ReadAll(std::string(kHeader) + "{\"step\":20,\"loss\":1}\n{\"step\":40,\"lo");
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.items.size(), 2u);
  ASSERT_EQ(read.warnings.size(), 1u);
  EXPECT_EQ(read.warnings[0].rfind("line 3: torn", 0), 0u);
}

TEST(TextRecording, LastLineWithoutNewlineCountsWhenWhole) {
  EXPECT_EQ(ReadAll(std::string(kHeader) + "{\"step\":20}").items.size(), 2u);
}

struct BadCase {
  const char* text;
  const char* message;
};

TEST(TextRecording, BadLinesNameLineFieldAndLimit) {
  const BadCase cases[] = {
      {"{\"step\":1}\n{\"step\":2,,}\n{\"step\":3}\n", "line 3: not valid JSON"},
      {"[1,2]\n", "line 2: not a JSON object"},
      {"{\"loss\":1}\n", "line 2: step: missing"},
      {"{\"step\":-1}\n", "line 2: step: -1, expected a whole number from 0 to 9223372036854775807"},
      {"{\"step\":1,\"loss\":\"x\"}\n", "line 2: loss: \"x\" is no number"},
      {"{\"step\":1,\"wq_sigma1\":[[1,2]]}\n", "line 2: wq_sigma1: 1 layers, the header says 2"},
      {"{\"step\":1,\"wq_sigma1\":[[1,2],[3]]}\n", "line 2: wq_sigma1, layer 1: 1 heads, the header says 2"},
      {"{\"step\":1,\"wq_sigma1\":[[1,2],[3,{}]]}\n", "line 2: wq_sigma1, layer 1: {} is no number"},
      {"{\"step\":1,\"wq_sigma1\":3}\n", "line 2: wq_sigma1: not a [layer][head] array"},
  };
  for (const BadCase& bad : cases) {
    const Read read = ReadAll(std::string(kHeader) + bad.text);
    EXPECT_EQ(read.status.code(), Code::kDataLoss) << bad.text;
    EXPECT_EQ(read.status.message().rfind(bad.message, 0), 0u) << read.status.message();
  }
}

TEST(TextRecording, WrongBeginningsAreRefused) {
  EXPECT_EQ(ReadAll("").status.code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadAll("\x7f"
                    "ELF\n")
                .status.code(),
            Code::kInvalidArgument);
  EXPECT_EQ(ReadAll("{\"step\":1}\n").status.code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadAll("{\"run\":\"a\",\"layers\":99999,\"heads\":2}\n").status.code(), Code::kDataLoss);
  EXPECT_EQ(ReadAll("{\"run\":\"\",\"layers\":1,\"heads\":2}\n").status.code(), Code::kDataLoss);
}

TEST(TextRecording, AnIncarnationIsDecimalTextOrAnError) {
  const auto read = [](const std::string& incarnation) {
    return ReadAll("{\"run\":\"r\",\"layers\":1,\"heads\":1,\"incarnation\":" + incarnation + "}\n");
  };
  EXPECT_EQ(std::get<wire::Hello>(read("\"18446744073709551615\"").items.at(0)).incarnation, UINT64_MAX);
  for (const char* wrong : {"\"18446744073709551616\"", "\"12x\"", "\"\"", "\"-1\"", "7", "null"}) {
    const std::string message = "line 1: incarnation: " + std::string(wrong) + ", expected decimal text";
    EXPECT_EQ(read(wrong).status.message().rfind(message, 0), 0u) << read(wrong).status.message();
  }
}

TEST(TextRecording, DeepNestingDoesNotCrash) {
  const Read read = ReadAll(std::string(kHeader) + std::string(200000, '[') + "\n{\"step\":1}\n");
  EXPECT_EQ(read.status.code(), Code::kDataLoss);
}

}  // namespace
}  // namespace foreshock::jsonl
