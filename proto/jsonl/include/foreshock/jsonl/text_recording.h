// Reads text recordings: JSON lines as a `file:PATH.jsonl` exporter writes them (docs/formats/recording.md),
// and the older form without "format". nlohmann stays behind text_recording.cc.
//
// The first line is a header, an object with "run", "layers" and "heads". Then a line is a frame (it has
// "step" and signals) or, where it has "event", an event or the goodbye. Another header may follow: a
// restarted process. Keys that the catalogue does not know are skipped.
//
// Format 2: NaN and Inf are the strings "NaN", "Infinity", "-Infinity"; null is missing. Older files (no
// "format"): null is a value that is not finite, read as NaN. A ratio comes back with its quotient as value
// and weight 1 where no NAME_weight stands beside it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/wire/recording.h"

namespace foreshock::jsonl {

// Calls `each` for every line, in order, from the calling thread. Outcomes:
// - ok. A last line that is not whole and has no newline is a torn tail: left out and described in
// `warnings`.
// - kDataLoss: a line cannot be read; the message is "line N: what is wrong". Earlier lines were delivered.
// - kInvalidArgument: the first line is no header.
Status ReadTextRecording(std::string_view text, const std::function<void(wire::RecordingItem)>& each,
                         std::vector<std::string>* warnings);

}  // namespace foreshock::jsonl
