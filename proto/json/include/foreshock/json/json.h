// Protobuf messages as JSON: what the HTTP API answers and what the command line prints with --json.
//
// The rules are in writer.h; docs/api.md describes them to users. On top of them:
//   field names            as in proto/foreshock/v1; `X_unix_ns` is `X_at` (`time_unix_ns`: `time`), in RFC
//   3339, null for 0 absent fields          optional ones, messages and steps that are not there: null enums
//   lower case without prefix: "running", "no_effect" other fixed64          decimal strings, because they
//   use all 64 bits (incarnation, direction_hash) Series                 by signal name, with `values` along
//   `heads`; see SeriesToJson
// All functions are pure and thread-safe.
#pragma once

#include <string>

#include "foreshock/json/writer.h"

namespace google::protobuf {
class Message;
}

namespace foreshock::json {

// One JSON object, one line. Knows the messages of foreshock.v1; their Frames and Series, wherever they are
// nested, get their own forms:
//   Frame {"seq","step","time","skipped","window_from","scalars":{NAME:{"value","weight"}},"series":[Series]}
//   Series
//   {"signal","unit","layer","heads":[..],"values":[..],"weights":[..]?,"moments":[[4]..]?,"rotated":[..]?,
//             "direction_hash":[..]?,"step_offsets":[..]?,"flags":[..]}
// An entry of `values` is a number, null when it was not measured, or, for ratios,
// {"value","numerator","weight"} whose value is numerator / weight (null when the weight is 0 or does not
// travel); with several values a head an array of these. `weights` has one entry a head and is there when
// weights travel. Scalars inside a Frame give the same fields without arrays.
std::string ToJson(const google::protobuf::Message& message);

// The same into a larger text, as one value.
void Write(const google::protobuf::Message& message, Writer* out);

}  // namespace foreshock::json
