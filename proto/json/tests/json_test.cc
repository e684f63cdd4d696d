#include "foreshock/json/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "foreshock/base/catalogue.h"
#include "foreshock/v1/control.pb.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::json {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

v1::Series Heads(uint32_t signal, std::initializer_list<float> values) {
  v1::Series s;
  s.set_signal(signal);
  s.set_layer(3);
  s.set_head_count(static_cast<uint32_t>(values.size()));
  for (const float v : values) s.add_values(v);
  return s;
}

nlohmann::json Parsed(const google::protobuf::Message& message) {
  const std::string text = ToJson(message);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return nlohmann::json::parse(text);
}

TEST(SeriesJson, MissingIsNullAndNonFiniteIsAString) {
  v1::Series s = Heads(kWqSigma1, {1.25f, kNan, -kInf});
  s.set_head_count(4);
  s.set_presence("\x0d");  // heads 0, 2, 3
  EXPECT_EQ(Parsed(s), nlohmann::json::parse(R"({"signal":"wq_sigma1","unit":"1","layer":3,"heads":[0,1,2,3],
      "values":[1.25,null,"NaN","-Infinity"],"flags":[]})"));
}

TEST(SeriesJson, RatiosCarryTheirParts) {
  v1::Series s = Heads(kTiedRowFraction, {1, 0, 5});
  s.add_weights(3);
  s.add_weights(0);
  s.add_weights(kInf);
  const auto got = Parsed(s);
  EXPECT_EQ(got["values"][0]["value"].get<double>(), 1.0 / 3.0);
  EXPECT_EQ(got["values"][0]["numerator"], 1);
  EXPECT_EQ(got["values"][0]["weight"], 3);
  EXPECT_TRUE(got["values"][1]["value"].is_null());
  EXPECT_EQ(got["values"][2]["weight"], "Infinity");
}

TEST(SeriesJson, PartialValuesAreArraysOfTheirHead) {
  v1::Series s;
  s.set_signal(kUpdateProjection1);
  s.set_layer(0);
  s.add_heads(4);
  s.add_heads(9);
  s.set_values_per_head(2);
  for (const float v : {1.0f, 2.0f, 3.0f, 4.0f}) s.add_values(v);
  s.add_weights(2);
  s.add_direction_hash(~uint64_t{0});
  s.add_direction_hash(5);
  s.set_rotated("\x02");
  s.add_step_offsets(1);
  s.add_step_offsets(0);
  s.set_flags(5);
  EXPECT_EQ(Parsed(s), nlohmann::json::parse(R"({"signal":"update_projection_1","unit":"1","layer":0,
      "heads":[4,9],"values":[[1,2],[3,4]],"weights":[2,2],"rotated":[false,true],
      "direction_hash":["18446744073709551615","5"],"step_offsets":[1,0],"flags":["low_resolution","partial"]})"));
}

TEST(SeriesJson, AMessageThatIsTooShortGivesNullsNotACrash) {
  v1::Series s = Heads(kTiedRowFraction, {1});
  s.set_head_count(3);
  s.add_moments(1);
  const auto got = Parsed(s);
  EXPECT_TRUE(got["values"][0]["value"].is_null());
  EXPECT_TRUE(got["values"][1].is_null());
  EXPECT_EQ(got["moments"][2], nlohmann::json::parse("[null,null,null,null]"));
}

TEST(FrameJson, EveryCatalogueEntryIsThereBitForBit) {
  v1::StepReply reply;
  reply.set_attempt("a");
  reply.set_step(40);
  v1::Frame& frame = *reply.mutable_frame();
  frame.set_step(40);
  frame.set_time_unix_ns(1'700'000'000'000'000'001);
  for (const SignalInfo& info : SignalCatalogue()) {
    v1::Series& s = *frame.add_series();
    s.set_signal(info.id);
    if (info.scope != SignalScope::kScalar) s.set_layer(1), s.set_head_count(1);
    s.add_values(std::bit_cast<float>(0x3f000000u + info.id));
    s.add_weights(static_cast<float>(info.id) + 0.1f);
  }
  const auto got = Parsed(reply);
  EXPECT_EQ(got["frame"]["time"], "2023-11-14T22:13:20.000000001Z");
  for (const SignalInfo& info : SignalCatalogue()) {
    const float sent = std::bit_cast<float>(0x3f000000u + info.id);
    nlohmann::json entry;
    if (info.scope == SignalScope::kScalar) {
      entry = got["frame"]["scalars"][std::string(info.name)];
    } else {
      for (const auto& s : got["frame"]["series"]) {
        if (s["signal"] == info.name) entry = {{"value", s["values"][0]}, {"weight", s["weights"][0]}};
      }
      if (info.merge == SignalMerge::kRatio) entry = entry["value"];
    }
    ASSERT_TRUE(entry.is_object()) << info.name;
    const auto& value = info.merge == SignalMerge::kRatio ? entry["numerator"] : entry["value"];
    EXPECT_EQ(static_cast<float>(value.get<double>()), sent) << info.name;
    EXPECT_EQ(static_cast<float>(entry["weight"].get<double>()), static_cast<float>(info.id) + 0.1f)
        << info.name;
  }
}

TEST(FrameJson, ASignalOfANewerSenderKeepsItsNumber) {
  v1::Frame frame;
  v1::Series& s = *frame.add_series();
  s.set_signal(9999);
  s.add_values(1);
  const auto got = Parsed(frame);
  EXPECT_EQ(got["series"][0]["signal"], "signal_9999");
  EXPECT_EQ(got["series"][0]["values"], nlohmann::json::parse("[1]"));
}

TEST(MessageJson, AlertsSayNullForWhatIsNotThere) {
  v1::Alert alert;
  alert.set_id("r/a/qk_runaway/warning/10");
  alert.set_severity(v1::SEVERITY_WARNING);
  alert.set_state(v1::ALERT_STATE_FIRING);
  alert.set_layer(0);
  alert.set_first_step(8);
  alert.set_last_checkpoint_step(-1);
  alert.set_value(std::nan(""));
  alert.set_fired_unix_ns(1'700'000'000'000'000'000);
  v1::Evidence& e = *alert.add_evidence();
  e.set_name("logit_max");
  e.set_value(80);
  const auto got = Parsed(alert);
  EXPECT_EQ(got["severity"], "warning");
  EXPECT_EQ(got["state"], "firing");
  EXPECT_EQ(got["layer"], 0);
  EXPECT_TRUE(got["head"].is_null());
  EXPECT_TRUE(got["resolved_step"].is_null());
  EXPECT_TRUE(got["last_checkpoint_step"].is_null());
  EXPECT_EQ(got["value"], "NaN");
  EXPECT_EQ(got["fired_at"], "2023-11-14T22:13:20.000000000Z");
  EXPECT_TRUE(got["resolved_at"].is_null());
  EXPECT_EQ(got["evidence"][0], nlohmann::json::parse(R"({"name":"logit_max","value":80,"baseline":null})"));
}

TEST(MessageJson, RunsShowEnumsMapsOptionalsAndIncarnations) {
  v1::Run run;
  run.set_run("gpt \"2\"");
  run.set_state(v1::RUN_STATE_SILENT);
  (*run.mutable_labels())["b"] = "2";
  (*run.mutable_labels())["a"] = "1";
  v1::Source& source = *run.add_attempts()->add_sources();
  source.set_incarnation(0xffffffffffffffffu);
  source.set_clock_skew_ns(-5);
  EXPECT_NE(ToJson(run).find(R"("labels":{"a":"1","b":"2"})"), std::string::npos);
  const auto got = Parsed(run);
  EXPECT_EQ(got["run"], "gpt \"2\"");
  EXPECT_EQ(got["state"], "silent");
  EXPECT_TRUE(got["last_loss"].is_null());
  EXPECT_TRUE(got["model"].is_null());
  EXPECT_EQ(got["attempts"][0]["source"], "unspecified");
  EXPECT_EQ(got["attempts"][0]["sources"][0]["incarnation"], "18446744073709551615");
  EXPECT_EQ(got["attempts"][0]["sources"][0]["clock_skew_ns"], -5);
}

TEST(MessageJson, OneofShowsTheMemberThatIsSet) {
  v1::WatchUpdate update;
  update.set_state(v1::RUN_STATE_FINISHED);
  EXPECT_EQ(ToJson(update), R"({"state":"finished"})");
  update.mutable_event()->set_action_state(v1::ACTION_STATE_NO_EFFECT);
  EXPECT_EQ(Parsed(update)["event"]["action_state"], "no_effect");
}

}  // namespace
}  // namespace foreshock::json
