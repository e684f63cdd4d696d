// Decoders of what counts in seq, and of replies. The first byte chooses the message. What a decoder takes
// can be written, read again and written to the same bytes; a frame can be split and printed.
#include <string>
#include <vector>

#include "foreshock/wire/codec.h"
#include "foreshock/wire/recording.h"
#include "fuzz.h"

namespace foreshock::fuzz {
namespace {

template <typename Message>
void RoundTrip(Result<Message> (*decode)(std::string_view), std::string_view bytes) {
  const auto first = decode(bytes);
  if (!first.ok()) return;
  const std::string written = wire::Encode(*first);
  const auto again = decode(written);
  Require(again.ok(), "what was decoded and written is decoded again");
  Require(wire::Encode(*again) == written, "written twice, the same bytes");
  // A message with a NaN is not equal to itself either.
  if constexpr (requires { *first == *again; }) Require(*first == *again || *first != *first, "nothing is lost in writing");
}

void SplitAndPrint(std::string_view bytes) {
  auto frame = wire::DecodeFrame(bytes);
  if (!frame.ok()) return;
#ifdef FORESHOCK_FUZZ_CANARY
  // The canary's planted defect: one past the end where an unusual flag is set. A fuzzer that does not find
  // it is blind.
  for (const wire::Series& series : frame->series) {
    if ((series.flags & wire::kNotCausal) == 0 || series.values.empty()) continue;
    const std::vector<float> exact(series.values.begin(), series.values.end());
    const volatile float* values = exact.data();
    Require(values[exact.size()] == values[exact.size()], "a value");
  }
#endif
  wire::Hello hello;
  hello.run = "run";
  for (const uint32_t index : {0u, 3u}) {
    wire::Layer layer;
    layer.layer = index;
    layer.query_heads = index == 0 ? 4 : 8;
    layer.kv_heads = index == 0 ? 2 : 8;
    hello.model.layers.push_back(layer);
  }
  (void)wire::JsonlLine(hello, *frame);
  const size_t series = frame->series.size();
  size_t split = 0;
  for (const wire::Frame& part : wire::SplitFrame(*std::move(frame), 256)) split += part.series.size();
  Require(split == series, "splitting keeps every series");
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::Text(data + 1, size - 1);
  (void)wire::PeekHead(bytes);
  switch (data[0] % 5) {
    case 0:
      fuzz::RoundTrip(wire::DecodeFrame, bytes);
      fuzz::SplitAndPrint(bytes);
      break;
    case 1:
      fuzz::RoundTrip(wire::DecodeEvent, bytes);
      break;
    case 2:
      fuzz::RoundTrip(wire::DecodeGoodbye, bytes);
      break;
    case 3:
      fuzz::RoundTrip(wire::DecodeReply, bytes);
      break;
    default:
      fuzz::RoundTrip(wire::DecodeAction, bytes);
      break;
  }
  return 0;
}
