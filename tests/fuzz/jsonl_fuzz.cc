// Text recordings from anyone: read or refused with a line number; what is delivered can be written.
#include <string>
#include <variant>
#include <vector>

#include "foreshock/jsonl/text_recording.h"
#include "foreshock/wire/codec.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  std::vector<std::string> warnings;
  size_t written = 0;
  const Status status = jsonl::ReadTextRecording(
      fuzz::Text(data, size),
      [&](wire::RecordingItem item) {
        written += std::visit([](const auto& message) { return wire::Encode(message).size(); }, item);
      },
      &warnings);
  fuzz::Require(status.ok() || !status.message().empty(), "a refusal says why");
  return 0;
}
