#include <gtest/gtest.h>

#include <limits>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/recording.h"

namespace foreshock::wire {
namespace {

Hello TwoLayers() {
  Hello hello;
  hello.run = "say \"hi\"\n";
  hello.model.model_dim = 64;
  hello.model.layers = {{0, "a", 2, 1, 16, 0.25f, 0, false, false},
                        {1, "b", 3, 1, 16, 0.25f, 0, false, false}};
  return hello;
}

TEST(Jsonl, HeaderEscapes) {
  const std::string line = JsonlHeader(TwoLayers());
  EXPECT_EQ(line.substr(0, 39), "{\"run\":\"say \\\"hi\\\"\\u000a\",\"format\":2,\"a");
  EXPECT_NE(line.find("\"layers\":2,\"heads\":3,\"kv_heads\":1,\"head_dim\":16,\"model_dim\":64"),
            std::string::npos);
  EXPECT_EQ(line.back(), '\n');
}

TEST(Jsonl, MissingIsNullAndNonFiniteIsAString) {
  Frame frame;
  frame.step = 20;
  Series loss;
  loss.signal = kLoss;
  loss.values = {std::numeric_limits<float>::quiet_NaN()};
  Series logit;
  logit.signal = kLogitMax;
  logit.layer = 1;
  logit.heads = {0, 2};
  logit.values = {0.1f, std::numeric_limits<float>::infinity()};
  frame.series = {loss, logit};
  const std::string line = JsonlLine(TwoLayers(), frame);
  EXPECT_NE(line.find("\"loss\":\"NaN\""), std::string::npos) << line;
  EXPECT_NE(line.find("\"logit_max\":[[null,null],[0.1,null,\"Infinity\"]]"), std::string::npos) << line;
}

TEST(Jsonl, RatiosShowTheQuotientAndTheWeight) {
  Frame frame;
  Series ties;
  ties.signal = kTiedRowFraction;
  ties.layer = 0;
  ties.heads = {0, 1};
  ties.values = {1, 3};
  ties.weights = {4, 0};
  frame.series = {ties};
  const std::string line = JsonlLine(TwoLayers(), frame);
  EXPECT_NE(line.find("\"tied_row_fraction\":[[0.25,null],[null,null,null]]"), std::string::npos) << line;
  EXPECT_NE(line.find("\"tied_row_fraction_weight\":[[4,0],[null,null,null]]"), std::string::npos) << line;
}

TEST(Jsonl, Events) {
  Event e;
  e.step = 9;
  e.kind = EventKind::kCheckpoint;
  e.detail = "ckpt/9";
  EXPECT_EQ(JsonlLine(e), "{\"step\":9,\"event\":\"checkpoint\",\"detail\":\"ckpt/9\"}\n");
  Goodbye g;
  g.step = 10;
  g.status = GoodbyeStatus::kFinished;
  EXPECT_EQ(JsonlLine(g), "{\"step\":10,\"event\":\"goodbye\",\"status\":\"finished\"}\n");
}

}  // namespace
}  // namespace foreshock::wire
