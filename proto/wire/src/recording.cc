#include "foreshock/wire/recording.h"

#include "foreshock/wire/record.h"

namespace foreshock::wire {
namespace {

template <typename T>
Result<RecordingItem> AsItem(Result<T> decoded) {
  if (!decoded.ok()) return decoded.status();
  return RecordingItem(std::move(decoded).value());
}

Result<RecordingItem> DecodeItem(const Record& record) {
  switch (record.type) {
    case RecordType::kHello:
      return AsItem(DecodeHello(record.payload));
    case RecordType::kFrame:
      return AsItem(DecodeFrame(record.payload));
    case RecordType::kEvent:
      return AsItem(DecodeEvent(record.payload));
    case RecordType::kGoodbye:
      return AsItem(DecodeGoodbye(record.payload));
    case RecordType::kReply:
      return Status(Code::kInvalidArgument, "a reply does not belong in a recording");
  }
  return Status(Code::kUnimplemented, "type " + std::to_string(static_cast<int>(record.type)) +
                                          " comes from a later version, left out");
}

}  // namespace

Status ReadFramedRecording(std::string_view bytes, const std::function<void(RecordingItem)>& each,
                           std::vector<std::string>* warnings) {
  if (bytes.substr(0, 4) != "FSK1") {
    return Status(Code::kInvalidArgument, "recording: begins with neither 'FSK1' nor '{'");
  }
  RecordParser parser;
  parser.Feed(bytes);
  size_t items = 0;
  while (parser.pending_bytes() > 0) {
    auto next = parser.Next();
    if (!next.ok()) {
      warnings->push_back(next.status().message());
      continue;
    }
    if (!next->has_value()) {
      if (parser.pending_bytes() == 0) break;
      warnings->push_back("record at byte " + std::to_string(parser.offset()) + ": unfinished, " +
                          std::to_string(parser.pending_bytes()) + " bytes left");
      parser.SkipPending();
      continue;
    }
    auto item = DecodeItem(**next);
    if (item.ok()) {
      each(std::move(item).value());
      ++items;
    } else {
      warnings->push_back("record before byte " + std::to_string(parser.offset()) + ": " +
                          item.status().message());
    }
  }
  if (items == 0) return Status(Code::kInvalidArgument, "recording: holds no record that can be read");
  return OkStatus();
}

std::string_view Name(EventKind kind) {
  switch (kind) {
    case EventKind::kUnspecified:
      return "unspecified";
    case EventKind::kCheckpoint:
      return "checkpoint";
    case EventKind::kResume:
      return "resume";
    case EventKind::kPhase:
      return "phase";
    case EventKind::kEval:
      return "eval";
    case EventKind::kGuard:
      return "guard";
    case EventKind::kNote:
      return "note";
    case EventKind::kAction:
      return "action";
    case EventKind::kUnmonitored:
      return "unmonitored";
  }
  return "unspecified";
}

std::string_view Name(ActionState state) {
  switch (state) {
    case ActionState::kUnspecified:
      return "unspecified";
    case ActionState::kProposed:
      return "proposed";
    case ActionState::kDelivered:
      return "delivered";
    case ActionState::kTaken:
      return "taken";
    case ActionState::kRefused:
      return "refused";
    case ActionState::kExpired:
      return "expired";
    case ActionState::kEffective:
      return "effective";
    case ActionState::kNoEffect:
      return "no_effect";
    case ActionState::kAcknowledged:
      return "acknowledged";
    case ActionState::kCommitted:
      return "committed";
    case ActionState::kWithdrawn:
      return "withdrawn";
  }
  return "unspecified";
}

std::string_view Name(GoodbyeStatus status) {
  switch (status) {
    case GoodbyeStatus::kUnspecified:
      return "unspecified";
    case GoodbyeStatus::kFinished:
      return "finished";
    case GoodbyeStatus::kFailed:
      return "failed";
    case GoodbyeStatus::kStopped:
      return "stopped";
  }
  return "unspecified";
}

std::string_view Name(AttemptSource source) {
  switch (source) {
    case AttemptSource::kUnspecified:
      return "unspecified";
    case AttemptSource::kExplicit:
      return "explicit";
    case AttemptSource::kTorchelastic:
      return "torchelastic";
    case AttemptSource::kSlurm:
      return "slurm";
    case AttemptSource::kMinted:
      return "minted";
    case AttemptSource::kUnknown:
      return "unknown";
  }
  return "unspecified";
}

}  // namespace foreshock::wire
