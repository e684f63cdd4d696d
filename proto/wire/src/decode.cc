#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "fields.h"
#include "foreshock/wire/codec.h"
#include "series_codec.h"

namespace foreshock::wire {
namespace {

using Reader = protozero::pbf_reader;

// Runs a decoder; protozero reports malformed bytes by throwing, which must not leave this library.
template <typename Decode>
auto Guarded(const char* what, Decode decode) -> decltype(decode()) {
  try {
    return decode();
  } catch (const protozero::exception& e) {
    return Status(Code::kInvalidArgument, std::string(what) + ": malformed protobuf: " + e.what());
  }
}

Status CheckText(const char* field, const std::string& value, size_t limit) {
  if (value.size() <= limit) return OkStatus();
  return Status(Code::kInvalidArgument, std::string(field) + ": " + std::to_string(value.size()) +
                                            " bytes, at most " + std::to_string(limit));
}

// An enum from a newer sender reads as kUnspecified.
template <typename Enum>
Enum ReadEnum(Reader& r, Enum last) {
  const int32_t value = r.get_enum();
  return value >= 0 && value <= static_cast<int32_t>(last) ? static_cast<Enum>(value) : Enum{};
}

template <typename Range>
std::vector<uint32_t> ToVector(const Range& range) {
  return std::vector<uint32_t>(range.begin(), range.end());
}

Layer ReadLayer(Reader r) {
  using namespace field::layer;
  Layer layer;
  while (r.next()) {
    switch (r.tag()) {
      case kLayer:
        layer.layer = r.get_uint32();
        break;
      case kName:
        layer.name = r.get_string();
        break;
      case kQueryHeads:
        layer.query_heads = r.get_uint32();
        break;
      case kKvHeads:
        layer.kv_heads = r.get_uint32();
        break;
      case kHeadDim:
        layer.head_dim = r.get_uint32();
        break;
      case kScale:
        layer.scale = r.get_float();
        break;
      case kSoftcap:
        layer.softcap = r.get_float();
        break;
      case kQkNorm:
        layer.qk_norm = r.get_bool();
        break;
      case kIsLowResolution:
        layer.low_resolution = r.get_bool();
        break;
      default:
        r.skip();
    }
  }
  return layer;
}

Result<Model> ReadModel(Reader r) {
  using namespace field::model;
  Model model;
  while (r.next()) {
    switch (r.tag()) {
      case kName:
        model.name = r.get_string();
        break;
      case kModelDim:
        model.model_dim = r.get_uint32();
        break;
      case kLayers:
        if (model.layers.size() == kMaxLayers) {
          return Status(Code::kInvalidArgument, "model.layers: more than " + std::to_string(kMaxLayers));
        }
        model.layers.push_back(ReadLayer(r.get_message()));
        break;
      default:
        r.skip();
    }
  }
  return model;
}

Unmonitored ReadUnmonitored(Reader r) {
  Unmonitored item;
  while (r.next()) {
    switch (r.tag()) {
      case field::unmonitored::kName:
        item.name = r.get_string();
        break;
      case field::unmonitored::kReason:
        item.reason = r.get_string();
        break;
      default:
        r.skip();
    }
  }
  return item;
}

// Reads a field that Frame, Event and Goodbye share; false when it is another one.
template <typename Counted>
bool ReadHeadField(Reader& r, Counted* record) {
  using namespace field::head;
  switch (r.tag()) {
    case kSeq:
      record->seq = r.get_uint64();
      return true;
    case kStep:
      record->step = r.get_int64();
      return true;
    case kTime:
      record->time_unix_ns = r.get_fixed64();
      return true;
    case kDroppedBefore:
      record->dropped_before = r.get_uint64();
      return true;
    default:
      return false;
  }
}

HelloAck ReadHelloAck(Reader r) {
  using namespace field::hello_ack;
  HelloAck ack;
  while (r.next()) {
    switch (r.tag()) {
      case kAttempt:
        ack.attempt = r.get_string();
        break;
      case kAttemptSource:
        ack.attempt_source = ReadEnum(r, AttemptSource::kUnknown);
        break;
      case kDurableSeq:
        ack.durable_seq = r.get_uint64();
        break;
      case kMessageLimit:
        ack.max_message_bytes = r.get_uint64();
        break;
      default:
        r.skip();
    }
  }
  return ack;
}

Action ReadAction(Reader r) {
  using namespace field::action;
  Action action;
  while (r.next()) {
    switch (r.tag()) {
      case kId:
        action.id = r.get_string();
        break;
      case kKind:
        action.kind = r.get_string();
        break;
      case kAttempt:
        action.attempt = r.get_string();
        break;
      case kIssuer:
        action.issuer = r.get_string();
        break;
      case kEffectiveStep:
        action.effective_step = r.get_int64();
        break;
      case kExpiryStep:
        action.expiry_step = r.get_int64();
        break;
      case kLayers:
        action.layers = ToVector(r.get_packed_uint32());
        break;
      case kValue:
        action.value = r.get_double();
        break;
      case kReason:
        action.reason = r.get_string();
        break;
      default:
        r.skip();
    }
  }
  return action;
}

Sampling ReadSampling(Reader r) {
  using namespace field::sampling;
  Sampling sampling;
  while (r.next()) {
    switch (r.tag()) {
      case kAttention:
        sampling.attention_every_steps = r.get_uint32();
        break;
      case kSpectra:
        sampling.spectra_every_steps = r.get_uint32();
        break;
      case kProjections:
        sampling.projections_every_steps = r.get_uint32();
        break;
      case kRowStride:
        sampling.row_stride = r.get_uint32();
        break;
      default:
        r.skip();
    }
  }
  return sampling;
}

IngestError ReadError(Reader r) {
  using namespace field::error;
  IngestError error;
  while (r.next()) {
    switch (r.tag()) {
      case kCode:
        error.code = r.get_uint32();
        break;
      case kField:
        error.field = r.get_string();
        break;
      case kValue:
        error.value = r.get_string();
        break;
      case kLimit:
        error.limit = r.get_string();
        break;
      case kMessage:
        error.message = r.get_string();
        break;
      case kSeq:
        error.seq = r.get_uint64();
        break;
      case kFinal:
        error.final = r.get_bool();
        break;
      default:
        r.skip();
    }
  }
  return error;
}

std::pair<std::string, std::string> ReadLabel(Reader r) {
  std::pair<std::string, std::string> label;
  while (r.next()) {
    switch (r.tag()) {
      case 1:
        label.first = r.get_string();
        break;
      case 2:
        label.second = r.get_string();
        break;
      default:
        r.skip();
    }
  }
  return label;
}

Result<Hello> ReadHello(Reader r) {
  using namespace field::hello;
  Hello hello;
  hello.wire_version = 0;
  hello.world_size = 0;
  while (r.next()) {
    switch (r.tag()) {
      case kWireVersion:
        hello.wire_version = r.get_uint32();
        break;
      case kRun:
        hello.run = r.get_string();
        break;
      case kAttempt:
        hello.attempt = r.get_string();
        break;
      case kAttemptSource:
        hello.attempt_source = ReadEnum(r, AttemptSource::kUnknown);
        break;
      case kRank:
        hello.rank = r.get_uint32();
        break;
      case kWorldSize:
        hello.world_size = r.get_uint32();
        break;
      case kIncarnation:
        hello.incarnation = r.get_fixed64();
        break;
      case kStarted:
        hello.started_unix_ns = r.get_fixed64();
        break;
      case kHost:
        hello.host = r.get_string();
        break;
      case kPid:
        hello.pid = r.get_uint32();
        break;
      case kSdkVersion:
        hello.sdk_version = r.get_string();
        break;
      case kFramework:
        hello.framework = r.get_string();
        break;
      case kModel: {
        FS_ASSIGN_OR_RETURN(hello.model, ReadModel(r.get_message()));
        break;
      }
      case kUnmonitored:
        hello.unmonitored.push_back(ReadUnmonitored(r.get_message()));
        break;
      case kAllowedActions:
        hello.allowed_actions.push_back(r.get_string());
        break;
      case kSampleEverySteps:
        hello.sample_every_steps = r.get_uint32();
        break;
      case kLabels:
        hello.labels.insert(ReadLabel(r.get_message()));
        break;
      case kLocalWorldSize:
        hello.local_world_size = r.get_uint32();
        break;
      default:
        r.skip();
    }
  }
  if (hello.world_size == 0) hello.world_size = 1;
  FS_RETURN_IF_ERROR(CheckText("run", hello.run, kMaxNameBytes));
  FS_RETURN_IF_ERROR(CheckText("attempt", hello.attempt, kMaxNameBytes));
  FS_RETURN_IF_ERROR(CheckText("host", hello.host, kMaxTextBytes));
  return hello;
}

Result<Frame> ReadFrame(Reader r) {
  using namespace field::frame;
  Frame frame;
  while (r.next()) {
    if (ReadHeadField(r, &frame)) continue;
    switch (r.tag()) {
      case kSkipped:
        frame.skipped = r.get_bool();
        break;
      case kPart:
        frame.part = r.get_uint32();
        break;
      case kParts:
        frame.parts = std::max(1u, r.get_uint32());
        break;
      case kWindowFrom:
        frame.window_from = r.get_int64();
        break;
      case kSeries: {
        if (frame.series.size() == kMaxSeriesOfFrame) {
          return Status(Code::kInvalidArgument,
                        "frame.series: more than " + std::to_string(kMaxSeriesOfFrame));
        }
        FS_ASSIGN_OR_RETURN(Series series, ReadSeries(r.get_message()));
        frame.series.push_back(std::move(series));
        break;
      }
      default:
        r.skip();
    }
  }
  if (frame.part >= frame.parts) {
    return Status(Code::kInvalidArgument, "frame.part: " + std::to_string(frame.part) + " of " +
                                              std::to_string(frame.parts) + " parts");
  }
  return frame;
}

Result<Event> ReadEvent(Reader r) {
  using namespace field::event;
  Event event;
  while (r.next()) {
    if (ReadHeadField(r, &event)) continue;
    switch (r.tag()) {
      case kKind:
        event.kind = ReadEnum(r, EventKind::kUnmonitored);
        break;
      case kDetail:
        event.detail = r.get_string();
        break;
      case kLayers:
        event.layers = ToVector(r.get_packed_uint32());
        break;
      case kActionId:
        event.action_id = r.get_string();
        break;
      case kAction:
        event.action = r.get_string();
        break;
      case kActionState:
        event.action_state = ReadEnum(r, ActionState::kNoEffect);
        break;
      case kLogitBefore:
        event.logit_before = r.get_float();
        break;
      case kLogitAfter:
        event.logit_after = r.get_float();
        break;
      default:
        r.skip();
    }
  }
  FS_RETURN_IF_ERROR(CheckText("event.detail", event.detail, kMaxTextBytes));
  return event;
}

Result<Goodbye> ReadGoodbye(Reader r) {
  Goodbye goodbye;
  while (r.next()) {
    if (ReadHeadField(r, &goodbye)) continue;
    switch (r.tag()) {
      case field::goodbye::kStatus:
        goodbye.status = ReadEnum(r, GoodbyeStatus::kStopped);
        break;
      case field::goodbye::kDetail:
        goodbye.detail = r.get_string();
        break;
      default:
        r.skip();
    }
  }
  FS_RETURN_IF_ERROR(CheckText("goodbye.detail", goodbye.detail, kMaxTextBytes));
  return goodbye;
}

Result<Reply> ReadReply(Reader r) {
  using namespace field::reply;
  Reply reply;
  while (r.next()) {
    switch (r.tag()) {
      case kDurableSeq:
        reply.durable_seq = r.get_uint64();
        break;
      case kHello:
        reply.hello = ReadHelloAck(r.get_message());
        break;
      case kActions:
        reply.actions.push_back(ReadAction(r.get_message()));
        break;
      case kSampling:
        reply.sampling = ReadSampling(r.get_message());
        break;
      case kError:
        reply.error = ReadError(r.get_message());
        break;
      case kTime:
        reply.time_unix_ns = r.get_fixed64();
        break;
      default:
        r.skip();
    }
  }
  return reply;
}

Result<RecordHead> ReadRecordHead(Reader r) {
  struct Counted {
    uint64_t seq = 0;
    int64_t step = 0;
    uint64_t time_unix_ns = 0;
    uint64_t dropped_before = 0;
  } counted;
  while (r.next()) {
    if (!ReadHeadField(r, &counted)) r.skip();
  }
  return RecordHead{counted.seq, counted.step, counted.dropped_before};
}

Reader ReaderOf(std::string_view bytes) { return Reader{bytes.data(), bytes.size()}; }

}  // namespace

Result<Hello> DecodeHello(std::string_view b) {
  return Guarded("hello", [&] { return ReadHello(ReaderOf(b)); });
}
Result<Frame> DecodeFrame(std::string_view b) {
  return Guarded("frame", [&] { return ReadFrame(ReaderOf(b)); });
}
Result<Event> DecodeEvent(std::string_view b) {
  return Guarded("event", [&] { return ReadEvent(ReaderOf(b)); });
}
Result<Goodbye> DecodeGoodbye(std::string_view b) {
  return Guarded("goodbye", [&] { return ReadGoodbye(ReaderOf(b)); });
}
Result<Reply> DecodeReply(std::string_view b) {
  return Guarded("reply", [&] { return ReadReply(ReaderOf(b)); });
}
Result<Action> DecodeAction(std::string_view b) {
  return Guarded("action", [&]() -> Result<Action> { return ReadAction(ReaderOf(b)); });
}
Result<RecordHead> PeekHead(std::string_view b) {
  return Guarded("record", [&] { return ReadRecordHead(ReaderOf(b)); });
}

}  // namespace foreshock::wire
