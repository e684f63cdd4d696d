// Hello: decoded, judged, written again. What is well-formed enough to be taken stays so over a relay.
#include <string>

#include "foreshock/wire/check.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/recording.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  const auto hello = wire::DecodeHello(fuzz::Text(data, size));
  if (!hello.ok()) return 0;
  const bool taken = wire::CheckHello(*hello).ok();
  const std::string written = wire::Encode(*hello);
  const auto again = wire::DecodeHello(written);
  fuzz::Require(again.ok(), "what was decoded and written is decoded again");
  fuzz::Require(wire::Encode(*again) == written, "written twice, the same bytes");
  fuzz::Require(*again == *hello || *hello != *hello, "nothing is lost in writing");  // one with a NaN is not equal to itself
  fuzz::Require(wire::CheckHello(*again).ok() == taken, "everyone judges a Hello alike");
  if (taken) (void)wire::JsonlHeader(*hello);
  return 0;
}
