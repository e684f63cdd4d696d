// Recordings: what a `file:` exporter wrote. Framed ones hold link records (record.h); text ones (JSON lines,
// docs/formats/recording.md) are written here and read by proto/jsonl.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

using RecordingItem = std::variant<Hello, Frame, Event, Goodbye>;

// Calls `each` for every record, in order. Damage is skipped and described in `warnings`, a torn tail too.
// kInvalidArgument when the bytes do not begin with a record or hold none that can be read.
Status ReadFramedRecording(std::string_view bytes, const std::function<void(RecordingItem)>& each,
                           std::vector<std::string>* warnings);

// Lines of a text recording, each ending in '\n'. Ratios are written as what users see (the quotient), with
// the denominator beside them under NAME_weight; missing is null; NaN and Inf are the strings "NaN",
// "Infinity",
// "-Infinity". `hello` gives the shape of the [layer][head] arrays.
std::string JsonlHeader(const Hello& hello);
std::string JsonlLine(const Hello& hello, const Frame& frame);
std::string JsonlLine(const Event& event);
std::string JsonlLine(const Goodbye& goodbye);

// Names used in text recordings and in JSON answers: "checkpoint", "no_effect", "finished", "torchelastic".
std::string_view Name(EventKind kind);
std::string_view Name(ActionState state);
std::string_view Name(GoodbyeStatus status);
std::string_view Name(AttemptSource source);

}  // namespace foreshock::wire
