#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "fields.h"
#include "foreshock/wire/codec.h"
#include "series_codec.h"
#include "utf8.h"

namespace foreshock::wire {
namespace {

using Reader = protozero::pbf_reader;
using field::Bytes, field::Fixed32, field::Fixed64, field::Varint;

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

// A packed field may come in pieces.
void AppendTo(std::vector<uint32_t>* list, Reader& r) {
  const auto range = r.get_packed_uint32();
  list->insert(list->end(), range.begin(), range.end());
}

// Text that people read. Invalid UTF-8 is mended here, because no protobuf reader and no JSON reader would
// take it from us again. Names that identify (run, attempt) stay as they came and are judged by CheckName.
std::string Text(Reader& r) {
  const auto view = r.get_view();
  return MendUtf8({view.data(), view.size()});
}

// A varint: anything but 0 is true. protozero's get_bool() looks at one byte alone, even at one behind the
// message's end.
bool Flag(Reader& r) { return r.get_uint64() != 0; }

Layer ReadLayer(Reader r) {
  using namespace field::layer;
  Layer layer;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case Varint(kLayer):
        layer.layer = r.get_uint32();
        break;
      case Bytes(kName):
        layer.name = Text(r);
        break;
      case Varint(kQueryHeads):
        layer.query_heads = r.get_uint32();
        break;
      case Varint(kKvHeads):
        layer.kv_heads = r.get_uint32();
        break;
      case Varint(kHeadDim):
        layer.head_dim = r.get_uint32();
        break;
      case Fixed32(kScale):
        layer.scale = r.get_float();
        break;
      case Fixed32(kSoftcap):
        layer.softcap = r.get_float();
        break;
      case Varint(kQkNorm):
        layer.qk_norm = Flag(r);
        break;
      case Varint(kIsLowResolution):
        layer.low_resolution = Flag(r);
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
    switch (r.tag_and_type()) {
      case Bytes(kName):
        model.name = Text(r);
        break;
      case Varint(kModelDim):
        model.model_dim = r.get_uint32();
        break;
      case Bytes(kLayers):
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
    switch (r.tag_and_type()) {
      case Bytes(field::unmonitored::kName):
        item.name = Text(r);
        break;
      case Bytes(field::unmonitored::kReason):
        item.reason = Text(r);
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
  switch (r.tag_and_type()) {
    case Varint(kSeq):
      record->seq = r.get_uint64();
      return true;
    case Varint(kStep):
      record->step = r.get_int64();
      return true;
    case Fixed64(kTime):
      record->time_unix_ns = r.get_fixed64();
      return true;
    case Varint(kDroppedBefore):
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
    switch (r.tag_and_type()) {
      case Bytes(kAttempt):
        ack.attempt = Text(r);
        break;
      case Varint(kAttemptSource):
        ack.attempt_source = ReadEnum(r, AttemptSource::kUnknown);
        break;
      case Varint(kDurableSeq):
        ack.durable_seq = r.get_uint64();
        break;
      case Varint(kMessageLimit):
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
    switch (r.tag_and_type()) {
      case Bytes(kId):
        action.id = Text(r);
        break;
      case Bytes(kKind):
        action.kind = Text(r);
        break;
      case Bytes(kAttempt):
        action.attempt = Text(r);
        break;
      case Bytes(kIssuer):
        action.issuer = Text(r);
        break;
      case Varint(kEffectiveStep):
        action.effective_step = r.get_int64();
        break;
      case Varint(kExpiryStep):
        action.expiry_step = r.get_int64();
        break;
      case Bytes(kLayers):
        AppendTo(&action.layers, r);
        break;
      case Fixed64(kValue):
        action.value = r.get_double();
        break;
      case Bytes(kReason):
        action.reason = Text(r);
        break;
      case Varint(kCommitted):
        action.committed = Flag(r);
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
    switch (r.tag_and_type()) {
      case Varint(kAttention):
        sampling.attention_every_steps = r.get_uint32();
        break;
      case Varint(kSpectra):
        sampling.spectra_every_steps = r.get_uint32();
        break;
      case Varint(kProjections):
        sampling.projections_every_steps = r.get_uint32();
        break;
      case Varint(kRowStride):
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
    switch (r.tag_and_type()) {
      case Varint(kCode):
        error.code = r.get_uint32();
        break;
      case Bytes(kField):
        error.field = Text(r);
        break;
      case Bytes(kValue):
        error.value = Text(r);
        break;
      case Bytes(kLimit):
        error.limit = Text(r);
        break;
      case Bytes(kMessage):
        error.message = Text(r);
        break;
      case Varint(kSeq):
        error.seq = r.get_uint64();
        break;
      case Varint(kFinal):
        error.final = Flag(r);
        break;
      default:
        r.skip();
    }
  }
  return error;
}

// As in protobuf's maps, a key that comes again replaces.
void PutLabel(Reader r, std::map<std::string, std::string>* labels) {
  std::pair<std::string, std::string> label;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case Bytes(1):
        label.first = Text(r);
        break;
      case Bytes(2):
        label.second = Text(r);
        break;
      default:
        r.skip();
    }
  }
  labels->insert_or_assign(std::move(label.first), std::move(label.second));
}

Result<Hello> ReadHello(Reader r) {
  using namespace field::hello;
  Hello hello;
  hello.wire_version = 0;
  hello.world_size = 0;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case Varint(kWireVersion):
        hello.wire_version = r.get_uint32();
        break;
      case Bytes(kRun):
        hello.run = r.get_string();
        break;
      case Bytes(kAttempt):
        hello.attempt = r.get_string();
        break;
      case Varint(kAttemptSource):
        hello.attempt_source = ReadEnum(r, AttemptSource::kUnknown);
        break;
      case Varint(kRank):
        hello.rank = r.get_uint32();
        break;
      case Varint(kWorldSize):
        hello.world_size = r.get_uint32();
        break;
      case Fixed64(kIncarnation):
        hello.incarnation = r.get_fixed64();
        break;
      case Fixed64(kStarted):
        hello.started_unix_ns = r.get_fixed64();
        break;
      case Bytes(kHost):
        hello.host = Text(r);
        break;
      case Varint(kPid):
        hello.pid = r.get_uint32();
        break;
      case Bytes(kSdkVersion):
        hello.sdk_version = Text(r);
        break;
      case Bytes(kFramework):
        hello.framework = Text(r);
        break;
      case Bytes(kModel): {
        FS_ASSIGN_OR_RETURN(hello.model, ReadModel(r.get_message()));
        break;
      }
      case Bytes(kUnmonitored):
        hello.unmonitored.push_back(ReadUnmonitored(r.get_message()));
        break;
      case Bytes(kAllowedActions):
        hello.allowed_actions.push_back(Text(r));
        break;
      case Varint(kSampleEverySteps):
        hello.sample_every_steps = r.get_uint32();
        break;
      case Bytes(kLabels):
        PutLabel(r.get_message(), &hello.labels);
        break;
      case Varint(kLocalWorldSize):
        hello.local_world_size = r.get_uint32();
        break;
      case Varint(kActionProtocol):
        hello.action_protocol = r.get_uint32();
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

// Counting first saves moving the series while their list grows.
size_t CountSeries(Reader r) {
  size_t count = 0;
  while (r.next()) {
    if (r.tag_and_type() == Bytes(field::frame::kSeries)) ++count;
    r.skip();
  }
  return std::min(count, kMaxSeriesOfFrame);
}

Result<Frame> ReadFrame(Reader r) {
  using namespace field::frame;
  Frame frame;
  frame.series.reserve(CountSeries(r));
  size_t room = kMaxFrameFloats;
  while (r.next()) {
    if (ReadHeadField(r, &frame)) continue;
    switch (r.tag_and_type()) {
      case Varint(kSkipped):
        frame.skipped = Flag(r);
        break;
      case Varint(kPart):
        frame.part = r.get_uint32();
        break;
      case Varint(kParts):
        frame.parts = std::max(1u, r.get_uint32());
        break;
      case Varint(kWindowFrom):
        frame.window_from = r.get_int64();
        break;
      case Bytes(kSeries): {
        if (frame.series.size() == kMaxSeriesOfFrame) {
          return Status(Code::kInvalidArgument,
                        "frame.series: more than " + std::to_string(kMaxSeriesOfFrame));
        }
        FS_RETURN_IF_ERROR(ReadSeries(r.get_message(), &room, &frame.series.emplace_back()));
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
    switch (r.tag_and_type()) {
      case Varint(kKind):
        event.kind = ReadEnum(r, EventKind::kUnmonitored);
        break;
      case Bytes(kDetail):
        event.detail = Text(r);
        break;
      case Bytes(kLayers):
        AppendTo(&event.layers, r);
        break;
      case Bytes(kActionId):
        event.action_id = Text(r);
        break;
      case Bytes(kAction):
        event.action = Text(r);
        break;
      case Varint(kActionState):
        event.action_state = ReadEnum(r, ActionState::kWithdrawn);
        break;
      case Fixed32(kLogitBefore):
        event.logit_before = r.get_float();
        break;
      case Fixed32(kLogitAfter):
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
    switch (r.tag_and_type()) {
      case Varint(field::goodbye::kStatus):
        goodbye.status = ReadEnum(r, GoodbyeStatus::kStopped);
        break;
      case Bytes(field::goodbye::kDetail):
        goodbye.detail = Text(r);
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
    switch (r.tag_and_type()) {
      case Varint(kDurableSeq):
        reply.durable_seq = r.get_uint64();
        break;
      case Bytes(kHello):
        reply.hello = ReadHelloAck(r.get_message());
        break;
      case Bytes(kActions):
        reply.actions.push_back(ReadAction(r.get_message()));
        break;
      case Bytes(kSampling):
        reply.sampling = ReadSampling(r.get_message());
        break;
      case Bytes(kError):
        reply.error = ReadError(r.get_message());
        break;
      case Fixed64(kTime):
        reply.time_unix_ns = r.get_fixed64();
        break;
      case Bytes(kProposals):
        reply.proposals.push_back(ReadAction(r.get_message()));
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
