// The framing of the unix link and of framed recordings. Once the bytes as they are, in pieces; once cut into
// payloads that are framed rightly (random bytes hardly ever have the right checksum), which come out as they
// went in, however the stream is cut, and behind any damage no record comes out that did not go in.
#include <algorithm>
#include <string>
#include <vector>

#include "foreshock/wire/record.h"
#include "foreshock/wire/recording.h"
#include "fuzz.h"

namespace foreshock::fuzz {
namespace {

// Records of a stream fed in pieces of `piece` bytes; *damaged counts reports.
std::vector<wire::Record> Parse(std::string_view bytes, size_t piece, size_t* damaged) {
  wire::RecordParser parser(1u << 20);
  std::vector<wire::Record> records;
  size_t calls = 0;
  const auto drain = [&] {
    for (;;) {
      Require(++calls <= 4 * bytes.size() + 64, "the parser gets on");
      auto next = parser.Next();
      if (!next.ok()) {
        ++*damaged;
        continue;
      }
      auto record = std::move(next).value();
      if (!record) return;
      records.push_back(std::move(*record));
    }
  };
  for (size_t at = 0; at < bytes.size(); at += piece) {
    parser.Feed(bytes.substr(at, piece));
    drain();
  }
  while (parser.pending_bytes() > 0) {
    const size_t before = parser.pending_bytes();
    parser.SkipPending();
    drain();
    Require(parser.pending_bytes() < before, "giving up an unfinished record gets on");
  }
  return records;
}

bool Same(const wire::Record& a, const wire::Record& b) { return a.type == b.type && a.payload == b.payload; }

void FramedRightly(std::string_view script, size_t piece) {
  std::vector<wire::Record> sent;
  std::string stream;
  while (script.size() >= 2) {
    const auto type =
        static_cast<wire::RecordType>(1 + static_cast<uint8_t>(script[0]) % wire::kLastRecordType);
    const size_t length = std::min<size_t>(static_cast<uint8_t>(script[1]), script.size() - 2);
    sent.push_back({type, std::string(script.substr(2, length))});
    wire::AppendRecord(type, sent.back().payload, &stream);
    if (type != wire::RecordType::kReply) {  // replies go the other way
      const auto back = wire::FromIngestRequest(wire::ToIngestRequest(type, sent.back().payload));
      Require(back.ok() && Same(*back, sent.back()), "a record survives gRPC's form");
    }
    script.remove_prefix(2 + length);
  }
  size_t damaged = 0;
  const auto got = Parse(stream, piece, &damaged);
  Require(damaged == 0, "whole records are not damage");
  Require(std::equal(got.begin(), got.end(), sent.begin(), sent.end(), Same),
          "records come out as they went in");
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  if (size < 2) return 0;
  const size_t piece = 1 + data[0];
  const std::string_view bytes = fuzz::Text(data + 1, size - 1);
  size_t damaged = 0;
  (void)fuzz::Parse(bytes, piece, &damaged);
  (void)wire::FromIngestRequest(bytes);
  std::vector<std::string> warnings;
  (void)wire::ReadFramedRecording(
      bytes, [](wire::RecordingItem) {}, &warnings);
  fuzz::FramedRightly(bytes, piece);
  return 0;
}
