// Encodes and decodes the messages of ingest.proto with protozero: the one codec of the data path.
// proto/messages holds the generated twin; golden files and tests prove that the two agree byte for byte.
//
// Decoders check what they read: sizes that do not fit, unknown record kinds and limits passed give
// kInvalidArgument naming the field, the value and the limit. Unknown fields are skipped (newer senders).
// All functions are pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

// Limits of what a decoder takes.
inline constexpr size_t kMaxNameBytes = 200;   // run, attempt
inline constexpr size_t kMaxTextBytes = 4096;  // details, reasons
inline constexpr uint32_t kMaxLayers = 4096;
inline constexpr uint32_t kMaxHeads = 65536;  // of a layer; a head's index is below it
// Of a frame, as servers take them: at 4 MiB each, far above what any sender has. A store looks at all of a
// frame's while its writers wait.
inline constexpr uint32_t kMaxParts = 4096;
inline constexpr size_t kMaxSeriesOfFrame = 1 << 20;
inline constexpr uint32_t kMaxValuesPerHead = 65536;
inline constexpr size_t kMaxMessageBytes = 64u << 20;
// Of a decoded frame, in floats: 64 a series and heads * (values_per_head + 8), missing heads included.
inline constexpr size_t kMaxFrameFloats = 1u << 25;

// Every receiver takes messages of 4 MiB (gRPC's own default), so a sender that splits its frames here never
// meets one that refuses them, whatever relays lie between. A receiver may offer more in HelloAck.
inline constexpr size_t kSafeMessageBytes = (4u << 20) - 4096;

std::string Encode(const Hello& hello);
std::string Encode(const Frame& frame);
// Encode(frame) == bytes, without writing anything.
bool EncodesTo(const Frame& frame, std::string_view bytes);
std::string Encode(const Event& event);
std::string Encode(const Goodbye& goodbye);
std::string Encode(const Reply& reply);
std::string Encode(const Action& action);

Result<Hello> DecodeHello(std::string_view bytes);
Result<Frame> DecodeFrame(std::string_view bytes);
Result<Event> DecodeEvent(std::string_view bytes);
Result<Goodbye> DecodeGoodbye(std::string_view bytes);
Result<Reply> DecodeReply(std::string_view bytes);
Result<Action> DecodeAction(std::string_view bytes);

// What every record that counts in `seq` begins with, without decoding the rest.
struct RecordHead {
  uint64_t seq = 0;
  int64_t step = 0;
  uint64_t dropped_before = 0;
};
Result<RecordHead> PeekHead(std::string_view bytes);

// `bytes` of a Frame, Event or Goodbye with dropped_before set anew: appends the field, and the last one
// wins.
std::string WithDroppedBefore(std::string bytes, uint64_t dropped_before);

// All of a frame but its series, which are not copied either.
Frame WithoutSeries(const Frame& frame);

// Parts of one step, each encoding to at most max_bytes where a single series allows it. A frame that fits
// comes back alone. seq of the parts rises by one from frame.seq; only the first carries dropped_before.
std::vector<Frame> SplitFrame(Frame frame, size_t max_bytes);

}  // namespace foreshock::wire
