// What a hostile, broken, older or newer peer can send.
#include <gtest/gtest.h>

#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <random>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/check.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"
#include "foreshock/wire/recording.h"

namespace foreshock::wire {
namespace {

std::string FrameOf(const std::string& series) {
  std::string frame;
  protozero::pbf_writer(frame).add_message(9, series);
  return frame;
}

// 8 KiB that would unfold to 65,536 heads of 65,536 values.
TEST(Attack, SmallMessageDoesNotUnfoldWithoutLimit) {
  std::string series;
  protozero::pbf_writer w(series);
  w.add_uint32(1, kUpdateProjection1);
  w.add_uint32(2, 0);
  w.add_uint32(4, kMaxHeads);
  w.add_bytes(6, std::string(kMaxHeads / 8, '\0'));
  w.add_uint32(10, kMaxValuesPerHead);
  w.add_uint32(12, kPartial);
  const auto frame = DecodeFrame(FrameOf(series));
  ASSERT_FALSE(frame.ok());
  EXPECT_NE(frame.status().message().find("missing heads included"), std::string::npos)
      << frame.status().message();
}

TEST(Attack, ManyRowsOfMissingHeadsAreRefusedToo) {
  std::string series;
  protozero::pbf_writer w(series);
  w.add_uint32(1, kLogitMax);
  w.add_uint32(2, 0);
  w.add_uint32(4, kMaxHeads);
  w.add_bytes(6, std::string(kMaxHeads / 8, '\0'));
  std::string frame;
  for (int i = 0; i < 200; ++i) frame += FrameOf(series);
  EXPECT_EQ(DecodeFrame(frame).status().code(), Code::kInvalidArgument);
}

TEST(Attack, LargestHonestStepsFit) {
  Frame frame;
  for (uint32_t layer = 0; layer < 128; ++layer) {
    Series s;
    s.signal = kUpdateProjection1;
    s.layer = layer;
    s.values_per_head = 100;
    s.flags = kPartial;
    for (uint32_t h = 0; h < 128; ++h) s.heads.push_back(h);
    s.values.assign(128 * 100, 1.0f);
    frame.series.push_back(std::move(s));
  }
  EXPECT_TRUE(DecodeFrame(Encode(frame)).ok());
}

TEST(Attack, HeadIndicesDoNotWrapAround) {
  std::string series;
  protozero::pbf_writer w(series);
  w.add_uint32(1, kLogitMax);
  w.add_uint32(2, 0);
  w.add_uint32(3, 0xFFFFFFFFu);
  w.add_uint32(4, 2);
  const float values[] = {1, 2};
  w.add_packed_float(7, values, values + 2);
  EXPECT_EQ(DecodeFrame(FrameOf(series)).status().code(), Code::kInvalidArgument);
}

// A good series of two heads, changed by `change`; the refusal's message, empty when it is taken.
template <typename Change>
std::string Refusal(Change change) {
  Series s;
  s.signal = kUpdateProjection1;
  s.layer = 0;
  s.heads = {0, 1};
  s.values = {1, 2};
  s.weights = {3, 4};
  change(s);
  Frame frame;
  frame.series = {s};
  return DecodeFrame(Encode(frame)).status().message();
}

TEST(Attack, RefusalsNameFieldValueAndLimit) {
  const std::string where = "series of signal 41: ";
  EXPECT_EQ(Refusal([](Series&) {}), "");
  EXPECT_EQ(Refusal([](Series& s) {
              s.heads = {65535, 65536};
            }),
            where + "first_head + head_count: 65537, at most 65536");
  EXPECT_EQ(Refusal([](Series& s) { s.heads = {70000, 1}; }), where + "heads: 70000, at most 65535");
  EXPECT_EQ(Refusal([](Series& s) { s.signal = 0; }), "series of signal 0: signal: 0, numbers begin at 1");
  EXPECT_EQ(Refusal([](Series& s) { s.weights = {3, -1}; }), where + "weights: -1.000000, at least 0");
  EXPECT_EQ(Refusal([](Series& s) { s.moments = {1, 1, -1, 1, NAN, 1, 1, 1}; }),
            where + "moments: nan rows, at least 0");
  EXPECT_EQ(Refusal([](Series& s) { s.moments = {1, 1, -1, 1, 1, 1, 1, -2}; }),
            where + "moments: a sum of squares of -2.000000, at least 0");
  EXPECT_EQ(Refusal([](Series& s) {
              s.values_per_head = 2, s.values = {1, 2, 3, 4};
            }),
            where + "values_per_head: 2, at most 1 without the flag of partial values");
  EXPECT_EQ(Refusal([](Series& s) { s.step_offsets = {0}; }),
            where + "step_offsets: only with the flag of partial values");
  const auto partial = [](Series& s, std::vector<uint32_t> offsets) {
    s.flags = kPartial;
    s.values_per_head = 2;
    s.values = {1, 2, 3, 4};
    s.step_offsets = std::move(offsets);
  };
  EXPECT_EQ(Refusal([&](Series& s) { partial(s, {4, 1}); }), "");
  EXPECT_EQ(Refusal([&](Series& s) {
              partial(s, {1, 1});
            }),
            where + "step_offsets: 1 after 1, must fall from the oldest step to the newest");
  EXPECT_EQ(Refusal([&](Series& s) { partial(s, {}), s.shard = 3, s.shards = 4; }), "");
  EXPECT_EQ(Refusal([&](Series& s) { partial(s, {}), s.shard = s.shards = 4; }),
            where + "shard: 4, must be below shards, 4");
  EXPECT_EQ(Refusal([](Series& s) { s.shards = 4; }),
            where + "shards: 4, only with the flag of partial values");
}

// What the trainer's numbers gave is no fault of the sender.
TEST(Attack, NotFiniteWeightsAndMomentsAreValues) {
  EXPECT_EQ(Refusal([](Series& s) { s.weights = {NAN, INFINITY}; }), "");
  EXPECT_EQ(Refusal([](Series& s) { s.moments = {1, NAN, -INFINITY, INFINITY, 0, 0, 0, -0.0f}; }), "");
}

TEST(Attack, ListAndRangeOfHeadsExcludeEachOther) {
  std::string series;
  protozero::pbf_writer w(series);
  w.add_uint32(1, kLogitMax);
  w.add_uint32(2, 0);
  w.add_uint32(4, 2);
  const uint32_t heads[] = {5, 7};
  w.add_packed_uint32(5, heads, heads + 2);
  const float values[] = {1, 2};
  w.add_packed_float(7, values, values + 2);
  EXPECT_EQ(DecodeFrame(FrameOf(series)).status().message(),
            "series of signal 96: head_count: 2, must be 0 beside a list of heads");
}

TEST(Attack, AHeadStandsOnce) {
  Frame frame;
  Series s;
  s.signal = kLogitMax;
  s.layer = 0;
  s.heads = {3, 1, 3};
  s.values = {1, 2, 3};
  frame.series = {s};
  const auto decoded = DecodeFrame(Encode(frame));
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.status().message().find("heads: 3 stands there twice"), std::string::npos);
}

// The same number with another wire type is another field, and is skipped; it must not be misread, nor end
// the process in builds with assertions.
TEST(Attack, WrongWireTypesAreUnknownFields) {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  w.add_bytes(1, std::string("\x10\x07", 2));  // seq as text, which holds "step: 7"
  w.add_int64(2, 5);
  w.add_uint64(3, 9);    // time is fixed64
  w.add_uint64(9, 1);    // series is a message
  w.add_float(6, 1.0f);  // part is a varint
  const auto frame = DecodeFrame(bytes);
  ASSERT_TRUE(frame.ok()) << frame.status().ToString();
  EXPECT_EQ(frame->seq, 0u);
  EXPECT_EQ(frame->step, 5);
  EXPECT_EQ(frame->time_unix_ns, 0u);
  EXPECT_TRUE(frame->series.empty());
  EXPECT_EQ(PeekHead(bytes)->step, 5);
}

TEST(Attack, PackedFieldsMayComeInPieces) {
  std::string series;
  protozero::pbf_writer w(series);
  w.add_uint32(1, kLogitMax);
  w.add_uint32(2, 0);
  w.add_uint32(4, 2);
  const float values[] = {1, 2};
  w.add_packed_float(7, values, values + 1);
  w.add_packed_float(7, values + 1, values + 2);
  const auto frame = DecodeFrame(FrameOf(series));
  ASSERT_TRUE(frame.ok()) << frame.status().ToString();
  EXPECT_EQ(frame->series[0].values, (std::vector<float>{1, 2}));
}

// A rank that holds no head of a layer.
TEST(Attack, ASeriesOfNoHeadsIsNotSent) {
  Frame frame;
  Series none;
  none.signal = kWkSigma1;
  none.layer = 2;
  frame.series = {none};
  const auto decoded = DecodeFrame(Encode(frame));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_TRUE(decoded->series.empty());
}

TEST(Attack, ExtremeStepsAndOneWeightForOneHeadOfMany) {
  for (const int64_t step : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    Frame frame;
    frame.step = frame.window_from = step;
    frame.seq = UINT64_MAX;
    Series s;
    s.signal = kLogitMax;
    s.layer = 0;
    s.heads = {0, 1, 2};
    s.present = {0, 0, 1};
    s.values = {0, 0, -0.0f};
    s.weights = {0, 0, 7};
    frame.series = {s};
    const auto back = DecodeFrame(Encode(*DecodeFrame(Encode(frame))));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->step, step);
    EXPECT_EQ(back->window_from, step);
    EXPECT_TRUE(std::signbit(back->series[0].values[2]));
    EXPECT_EQ(*back->series[0].weight(2), 7.0f);
  }
}

// --- Text

TEST(Attack, InvalidUtf8IsMended) {
  Event event;
  event.kind = EventKind::kCheckpoint;
  event.detail = "ckpt/\xff\xc3/9\xe2\x82";
  const auto decoded = DecodeEvent(Encode(event));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->detail, "ckpt/\xEF\xBF\xBD\xEF\xBF\xBD/9\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(JsonlLine(event).find('\xff'), std::string::npos);
}

Hello GoodHello() {
  Hello hello;
  hello.run = "r";
  hello.incarnation = 1;
  return hello;
}

TEST(Attack, RunNames) {
  const auto code = [](const std::string& run) {
    Hello hello = GoodHello();
    hello.run = run;
    return CheckHello(hello).code();
  };
  for (const std::string& good : {std::string("a/b"), std::string("Übung 7"), std::string(200, 'x')}) {
    EXPECT_EQ(code(good), Code::kOk) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("/a"), std::string("a\0b", 3), std::string("a\n"), std::string("a\x7f"),
        std::string("\xff"), std::string("\xc0\xaf"), std::string("\xed\xa0\x80"), std::string(201, 'x')}) {
    EXPECT_EQ(code(bad), Code::kInvalidArgument) << bad;
  }
}

TEST(Attack, HellosThatNoServerTakes) {
  const auto code = [](auto change) {
    Hello hello = GoodHello();
    change(hello);
    return CheckHello(hello).code();
  };
  EXPECT_EQ(code([](Hello&) {}), Code::kOk);
  EXPECT_EQ(code([](Hello& h) { h.wire_version = 2; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Hello& h) { h.incarnation = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Hello& h) { h.rank = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Hello& h) { h.attempt = "/x"; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Hello& h) { h.model.layers.resize(2); }), Code::kInvalidArgument);
}

TEST(Attack, HelloTextsAndListsAreBounded) {
  const auto refusal = [](auto change) {
    Hello hello = GoodHello();
    hello.model.layers.resize(1);
    hello.labels = {{"team", "a"}};
    change(hello);
    return CheckHello(hello).message();
  };
  EXPECT_EQ(refusal([](Hello&) {}), "");
  EXPECT_EQ(refusal([](Hello& h) { h.labels[""] = "x"; }), "labels: empty");
  EXPECT_EQ(refusal([](Hello& h) { h.labels["team"] = std::string(513, 'x'); }),
            "labels[team]: 513 bytes, at most 512");
  EXPECT_EQ(refusal([](Hello& h) {
              for (int i = 0; i < 64; ++i) h.labels[std::to_string(i)];
            }),
            "labels: 65, at most 64");
  EXPECT_EQ(refusal([](Hello& h) { h.allowed_actions.resize(65); }), "allowed_actions: 65, at most 64");
  EXPECT_EQ(refusal([](Hello& h) { h.framework = std::string(4097, 'x'); }),
            "framework: 4097 bytes, at most 4096");
  EXPECT_EQ(refusal([](Hello& h) {
              h.unmonitored = {{"a", std::string(5000, 'x')}};
            }),
            "unmonitored: 5000 bytes, at most 4096");
  EXPECT_EQ(refusal([](Hello& h) { h.model.layers[0].scale = NAN; }),
            "model.layers[0].scale: nan, must be finite");
  EXPECT_EQ(refusal([](Hello& h) { h.model.layers[0].softcap = -1; }),
            "model.layers[0].softcap: -1.000000, must be finite and at least 0");
}

// Numbers that no sender reaches by counting, where sums and differences would wrap around.
TEST(Attack, SequenceNumbersHaveALimit) {
  EXPECT_EQ(CheckSeq(0).message(), "seq: 0, counts from 1");
  EXPECT_TRUE(CheckSeq(1).ok());
  EXPECT_TRUE(CheckSeq(kMaxSeq).ok());
  EXPECT_EQ(CheckSeq(kMaxSeq + 1).message(), "seq: 9223372036854775808, at most 9223372036854775807");
  EXPECT_FALSE(CheckSeq(UINT64_MAX).ok());
}

// --- Newer senders

TEST(Attack, RecordsOfLaterTypesPass) {
  std::string bytes;
  AppendRecord(static_cast<RecordType>(6), "later", &bytes);
  AppendRecord(static_cast<RecordType>(200), "link only", &bytes);
  AppendRecord(RecordType::kFrame, "", &bytes);
  RecordParser parser;
  parser.Feed(bytes);
  auto record = parser.Next();
  ASSERT_TRUE(record.ok() && record->has_value());
  EXPECT_EQ(static_cast<int>((*record)->type), 6);
  record = parser.Next();
  ASSERT_TRUE(record.ok() && record->has_value());
  EXPECT_EQ((*record)->type, RecordType::kFrame);
  EXPECT_FALSE(parser.Next()->has_value());
}

TEST(Attack, IngestRequestsOfLaterTypesPass) {
  std::string request = ToIngestRequest(static_cast<RecordType>(40), "later");
  protozero::pbf_writer(request).add_bytes(100, "no record");
  const auto record = FromIngestRequest(request);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(static_cast<int>(record->type), 40);
  EXPECT_EQ(record->payload, "later");
}

TEST(Attack, RecordingsOfALaterVersionAreReadAsFarAsTheyGo) {
  std::string bytes;
  AppendRecord(RecordType::kHello, Encode(GoodHello()), &bytes);
  AppendRecord(static_cast<RecordType>(7), "later", &bytes);
  AppendRecord(RecordType::kGoodbye, Encode(Goodbye{}), &bytes);
  size_t items = 0;
  std::vector<std::string> warnings;
  EXPECT_TRUE(ReadFramedRecording(
                  bytes, [&](RecordingItem) { ++items; }, &warnings)
                  .ok());
  EXPECT_EQ(items, 2u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("type 7"), std::string::npos) << warnings[0];
}

TEST(Attack, EnumsOfALaterVersionAreUnspecified) {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  w.add_uint64(1, 3);
  w.add_enum(5, 99);
  w.add_enum(10, -1);
  const auto event = DecodeEvent(bytes);
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->kind, EventKind::kUnspecified);
  EXPECT_EQ(event->action_state, ActionState::kUnspecified);
}

// --- Torn ends

TEST(Attack, RecordingTornAtEveryByte) {
  std::string bytes;
  std::vector<size_t> ends;
  AppendRecord(RecordType::kHello, Encode(GoodHello()), &bytes);
  ends.push_back(bytes.size());
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    Frame frame;
    frame.seq = seq;
    frame.step = static_cast<int64_t>(seq);
    AppendRecord(RecordType::kFrame, Encode(frame), &bytes);
    ends.push_back(bytes.size());
  }
  for (size_t cut = ends.front(); cut <= bytes.size(); ++cut) {
    size_t items = 0;
    std::vector<std::string> warnings;
    const Status status = ReadFramedRecording(
        std::string_view(bytes).substr(0, cut), [&](RecordingItem) { ++items; }, &warnings);
    ASSERT_TRUE(status.ok()) << cut;
    const auto whole =
        static_cast<size_t>(std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= cut; }));
    EXPECT_EQ(items, whole) << cut;
    EXPECT_EQ(warnings.empty(), std::find(ends.begin(), ends.end(), cut) != ends.end()) << cut;
  }
}

// Every byte of a record is under the checksum or the magic: one flipped bit costs this record and no other.
TEST(Attack, AnyFlippedBitCostsOneRecord) {
  std::string bytes;
  AppendRecord(RecordType::kHello, Encode(GoodHello()), &bytes);
  const size_t begin = bytes.size();
  AppendRecord(RecordType::kGoodbye, Encode(Goodbye{.seq = 1, .detail = "one"}), &bytes);
  const size_t end = bytes.size();
  AppendRecord(RecordType::kGoodbye, Encode(Goodbye{.seq = 2, .detail = "two"}), &bytes);
  for (size_t bit = begin * 8; bit < end * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::vector<uint64_t> seqs;
    std::vector<std::string> warnings;
    const auto each = [&](RecordingItem item) {
      if (const auto* goodbye = std::get_if<Goodbye>(&item)) seqs.push_back(goodbye->seq);
    };
    ASSERT_TRUE(ReadFramedRecording(damaged, each, &warnings).ok());
    EXPECT_EQ(seqs, std::vector<uint64_t>{2}) << "bit " << bit;
    EXPECT_FALSE(warnings.empty());
  }
}

// A flag is a varint like any other: at the end of a message there is none to read, and 0 may take two bytes.
TEST(Attack, FlagsAreReadAsVarints) {
  const std::vector<char> ends_early = {0x28};  // of exactly this size, so that asan sees one byte too far
  EXPECT_EQ(DecodeFrame({ends_early.data(), ends_early.size()}).status().code(), Code::kInvalidArgument);
  const auto decoded = DecodeFrame(std::string_view("\x28\x80\x00", 3));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_FALSE(decoded->skipped);
  const auto set = DecodeFrame(std::string_view("\x28\x80\x01", 3));
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  EXPECT_TRUE(set->skipped);
}

}  // namespace
}  // namespace foreshock::wire
