#include "foreshock/jsonl/text_recording.h"

#include <optional>

#include "foreshock/jsonl/lines.h"
#include "line_parser.h"

namespace foreshock::jsonl {
namespace {

using nlohmann::json;

Status AtLine(Code code, size_t line, const std::string& what) {
  return Status(code, "line " + std::to_string(line) + ": " + what);
}

// Delivers one parsed line. `shape` is replaced by a header.
Status Deliver(const json& line, std::optional<Shape>* shape,
               const std::function<void(wire::RecordingItem)>& each) {
  if (!line.is_object()) return Status(Code::kDataLoss, "not a JSON object");
  if (IsHeader(line)) {
    FS_ASSIGN_OR_RETURN(*shape, ParseHeader(line));
    each((*shape)->hello);
    return OkStatus();
  }
  if (line.contains("event")) {
    FS_ASSIGN_OR_RETURN(wire::RecordingItem item, ParseEvent(line));
    each(std::move(item));
    return OkStatus();
  }
  FS_ASSIGN_OR_RETURN(wire::Frame frame, ParseFrame(line, **shape));
  each(std::move(frame));
  return OkStatus();
}

}  // namespace

Status ReadTextRecording(std::string_view text, const std::function<void(wire::RecordingItem)>& each,
                         std::vector<std::string>* warnings) {
  std::optional<Shape> shape;
  for (Lines lines(text); lines.Next();) {
    const size_t number = lines.number();
    const json parsed = json::parse(lines.line(), nullptr, /*allow_exceptions=*/false);
    if (parsed.is_discarded()) {
      if (!lines.whole() && shape) {
        warnings->push_back("line " + std::to_string(number) + ": torn, left out (" +
                            std::to_string(lines.line().size()) + " bytes)");
        return OkStatus();
      }
      return AtLine(shape ? Code::kDataLoss : Code::kInvalidArgument, number,
                    shape ? "not valid JSON" : "not a recording: the first line is no JSON header");
    }
    if (!shape && !(parsed.is_object() && IsHeader(parsed))) {
      return AtLine(Code::kInvalidArgument, number,
                    "not a recording: the first line has no \"run\", \"layers\" and \"heads\"");
    }
    const Status status = Deliver(parsed, &shape, each);
    if (!status.ok()) return AtLine(status.code(), number, status.message());
  }
  if (!shape) return Status(Code::kInvalidArgument, "empty: a recording begins with a header line");
  return OkStatus();
}

}  // namespace foreshock::jsonl
