// proto/wire and the code that protoc generates must agree byte for byte, and with the golden files for ever.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "foreshock/base/catalogue.h"
#include "foreshock/v1/ingest.pb.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"

namespace foreshock::wire {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Series Scalar(uint16_t signal, float value) {
  Series s;
  s.signal = signal;
  s.values = {value};
  return s;
}

// Frames whose encodings are pinned in proto/golden.
Frame GoldenFrame() {
  Frame f;
  f.seq = 7;
  f.step = 1200;
  f.time_unix_ns = 1'700'000'000'123'456'789;
  f.dropped_before = 2;
  f.window_from = 1190;
  f.series.push_back(Scalar(kLoss, 1.5f));
  Series sigma;
  sigma.signal = kWqSigma1;
  sigma.layer = 0;  // layer 0 is not "no layer"
  sigma.heads = {0, 1, 2, 3};
  sigma.present = {1, 0, 1, 1};
  sigma.values = {1.25f, 0, kNan, -kInf};
  f.series.push_back(sigma);
  return f;
}

// A ratio as numerator and denominator, with the moments of its standard error.
Frame GoldenRatio() {
  Frame f;
  f.seq = 8;
  f.step = 1210;
  Series bias;
  bias.signal = kOutputRoundingBias;
  bias.layer = 3;
  bias.heads = {0, 1};
  bias.values = {0.5f, -0.25f};
  bias.weights = {128, 64};
  bias.moments = {100, 1, 2, 3, 50, 4, 5, 6};
  f.series.push_back(bias);
  Series ties;
  ties.signal = kTiedRowFraction;
  ties.layer = 3;
  ties.heads = {4, 9};  // not a range
  ties.values = {3, 0};
  ties.weights = {512};  // one for all
  f.series.push_back(ties);
  return f;
}

// FSDP2: the n per-step partial c_i of this rank's shard, with the hash of u, v, and a hole left by a skipped
// step.
Frame GoldenPartial() {
  Frame f;
  f.seq = 9;
  f.step = 1214;
  f.window_from = 1210;
  Series c;
  c.signal = kUpdateProjection1;
  c.layer = 1;
  c.heads = {2, 3};
  c.present = {1, 0};
  c.values_per_head = 3;
  c.values = {1e-5f, -2e-5f, 3e-5f, 0, 0, 0};
  c.weights = {3};
  c.direction_hash = {0x0123456789abcdef, 0};
  c.flags = kPartial | kLowResolution;
  c.step_offsets = {3, 1, 0};
  c.rotated = {0, 1};
  c.shard = 1;
  c.shards = 4;
  f.series.push_back(c);
  return f;
}

std::string Golden(const std::string& name) {
  const char* root = std::getenv("FORESHOCK_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/proto/golden/" + name + ".hex");
  std::stringstream text;
  text << in.rdbuf();
  std::string hex, bytes;
  for (const char c : text.str()) {
    if (std::isxdigit(static_cast<unsigned char>(c))) hex += c;
  }
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string Hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}

template <typename Message>
std::string Reserialised(const std::string& bytes) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(message.ByteSizeLong(), bytes.size()) << "unknown fields, or defaults on the wire";
  return message.SerializeAsString();
}

struct Pinned {
  const char* name;
  Frame frame;
};

TEST(WireAgrees, FramesAndGoldenFiles) {
  for (const auto& [name, frame] : {Pinned{"frame", GoldenFrame()}, Pinned{"frame_ratio", GoldenRatio()},
                                    Pinned{"frame_partial", GoldenPartial()}}) {
    const std::string bytes = Encode(frame);
    EXPECT_EQ(Hex(Reserialised<v1::Frame>(bytes)), Hex(bytes)) << name;
    EXPECT_EQ(Hex(bytes), Hex(Golden(name))) << name;
    const auto decoded = DecodeFrame(Golden(name));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(Hex(Encode(*decoded)), Hex(bytes)) << name;
  }
}

TEST(WireAgrees, PresenceAndNonFiniteInGeneratedCode) {
  v1::Frame frame;
  ASSERT_TRUE(frame.ParseFromString(Encode(GoldenFrame())));
  ASSERT_EQ(frame.series_size(), 2);
  EXPECT_FALSE(frame.series(0).has_layer());
  const v1::Series& sigma = frame.series(1);
  EXPECT_TRUE(sigma.has_layer());
  EXPECT_EQ(sigma.layer(), 0u);
  EXPECT_EQ(sigma.head_count(), 4u);
  EXPECT_EQ(sigma.presence(), std::string(1, '\x0d'));
  ASSERT_EQ(sigma.values_size(), 3);
  EXPECT_TRUE(std::isnan(sigma.values(1)));
  EXPECT_EQ(sigma.values(2), -kInf);
}

Hello GoldenHello() {
  Hello h;
  h.run = "run-1";
  h.attempt = "a1";
  h.attempt_source = AttemptSource::kSlurm;
  h.rank = 3;
  h.world_size = 8;
  h.incarnation = 0xfeedfacecafebeef;
  h.started_unix_ns = 1'700'000'000'000'000'000;
  h.host = "node-1";
  h.pid = 4242;
  h.sdk_version = "0.1.0";
  h.framework = "c++";
  h.model = {
      "gpt", 64, {{0, "h.0", 4, 2, 16, 0.25f, 50.f, true, false}, {1, "", 4, 2, 16, 0.25f, 0, false, true}}};
  h.unmonitored = {{"h.2", "linear attention"}};
  h.allowed_actions = {"enable_qk_norm", "checkpoint"};
  h.sample_every_steps = 10;
  h.labels = {{"team", "a"}};
  h.local_world_size = 4;
  return h;
}

TEST(WireAgrees, Hello) {
  const std::string bytes = Encode(GoldenHello());
  EXPECT_EQ(Hex(Reserialised<v1::Hello>(bytes)), Hex(bytes));
  EXPECT_EQ(Hex(bytes), Hex(Golden("hello")));
  const auto decoded = DecodeHello(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, GoldenHello());
}

TEST(WireAgrees, EventGoodbyeReply) {
  Event e{5,
          300,
          9,
          1,
          EventKind::kAction,
          "done",
          {0, 2},
          "act-1",
          "enable_qk_norm",
          ActionState::kEffective,
          120.f,
          3.5f};
  EXPECT_EQ(Hex(Reserialised<v1::Event>(Encode(e))), Hex(Encode(e)));
  EXPECT_EQ(Hex(Encode(e)), Hex(Golden("event")));
  EXPECT_EQ(*DecodeEvent(Encode(e)), e);

  Goodbye g{6, 301, 10, 0, GoodbyeStatus::kFinished, "end"};
  EXPECT_EQ(Hex(Reserialised<v1::Goodbye>(Encode(g))), Hex(Encode(g)));
  EXPECT_EQ(Hex(Encode(g)), Hex(Golden("goodbye")));
  EXPECT_EQ(*DecodeGoodbye(Encode(g)), g);

  Reply r;
  r.durable_seq = 9;
  r.hello = HelloAck{"a1", AttemptSource::kMinted, 4, 1 << 22};
  r.actions = {{"act-1", "qk_clip", "a1", "sre", 400, 500, {1}, 100.0, "logits"}};
  r.sampling = Sampling{20, 20, 1, 8};
  r.error = IngestError{3, "step", "1000000000", "10000000", "step: absurd", 8, true};
  r.time_unix_ns = 11;
  EXPECT_EQ(Hex(Reserialised<v1::IngestReply>(Encode(r))), Hex(Encode(r)));
  EXPECT_EQ(Hex(Encode(r)), Hex(Golden("reply")));
  EXPECT_EQ(*DecodeReply(Encode(r)), r);
}

// What a switch in two phases added: fields of their own, so that the encodings above stay as they were.
TEST(WireAgrees, TwoPhaseSwitch) {
  Hello hello = GoldenHello();
  hello.action_protocol = 1;
  EXPECT_EQ(Hex(Reserialised<v1::Hello>(Encode(hello))), Hex(Encode(hello)));
  EXPECT_EQ(Hex(Encode(hello)), Hex(Golden("hello_proposals")));
  EXPECT_EQ(*DecodeHello(Encode(hello)), hello);

  Event event;
  event.seq = 7;
  event.step = 310;
  event.time_unix_ns = 12;
  event.kind = EventKind::kAction;
  event.layers = {2};
  event.action_id = "act-2";
  event.action = "enable_qk_norm";
  event.action_state = ActionState::kAcknowledged;
  EXPECT_EQ(Hex(Reserialised<v1::Event>(Encode(event))), Hex(Encode(event)));
  EXPECT_EQ(Hex(Encode(event)), Hex(Golden("event_acknowledged")));
  EXPECT_EQ(*DecodeEvent(Encode(event)), event);

  Reply reply;
  reply.proposals = {{"act-2", "enable_qk_norm", "a1", "rule:qk_runaway", 0, 500, {2}, 0, "logits", false}};
  reply.actions = {{"act-1", "enable_qk_norm", "a1", "sre", 400, 500, {1}, 0, "logits", true}};
  EXPECT_EQ(Hex(Reserialised<v1::IngestReply>(Encode(reply))), Hex(Encode(reply)));
  EXPECT_EQ(Hex(Encode(reply)), Hex(Golden("reply_proposals")));
  EXPECT_EQ(*DecodeReply(Encode(reply)), reply);
}

// A reader of before: of a proposal nothing is left that it could take for an action.
TEST(WireAgrees, AProposalIsNoActionToWhoDoesNotKnowIt) {
  Reply reply;
  reply.proposals = {{"act-2", "enable_qk_norm", "a1", "sre", 0, 0, {}, 0, ""}};
  v1::IngestReply message;
  ASSERT_TRUE(message.ParseFromString(Encode(reply)));
  message.clear_proposals();
  EXPECT_EQ(message.ByteSizeLong(), 0u);
}

TEST(WireAgrees, IngestRequestOneof) {
  const std::string payload = Encode(GoldenHello());
  const std::string bytes = ToIngestRequest(RecordType::kHello, payload);
  v1::IngestRequest request;
  ASSERT_TRUE(request.ParseFromString(bytes));
  EXPECT_TRUE(request.has_hello());
  EXPECT_EQ(request.hello().run(), "run-1");
  const auto record = FromIngestRequest(bytes);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->type, RecordType::kHello);
  EXPECT_EQ(record->payload, payload);
}

}  // namespace
}  // namespace foreshock::wire
