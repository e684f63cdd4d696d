// An archive from anyone. As it is, and as a script of entries with right checksums, which gets behind them:
// what is read is written again to the same bytes, and nothing but a whole archive is taken for one.
#include <algorithm>
#include <string>
#include <vector>

#include "foreshock/archive/reader.h"
#include "foreshock/archive/writer.h"
#include "foreshock/base/append_log.h"
#include "foreshock/base/append_log_format.h"
#include "fuzz.h"

namespace foreshock::fuzz {
namespace {

constexpr uint32_t kArchive = 'A' | 'R' << 8 | 'C' << 16 | uint32_t{'V'} << 24;
constexpr uint32_t kTag = 7;

void ReadIt(std::string_view bytes, size_t piece) {
  archive::Reader reader;
  std::vector<archive::Entry> entries;
  Status status;
  const std::string_view whole = bytes;
  while (status.ok() && !bytes.empty()) {
    status = reader.Feed(bytes.substr(0, piece), [&](archive::Entry entry) {
      entries.push_back(std::move(entry));
      return OkStatus();
    });
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  Require(reader.bytes() <= whole.size(), "it reads no more than there is");
  if (status.ok()) status = reader.Finish();
  if (!status.ok()) return;
  // What was taken is written again and read again as the same.
  std::string again;
  archive::Writer writer(
      [&](std::string_view written) {
        again += written;
        return OkStatus();
      },
      kTag);
  for (const archive::Entry& entry : entries) Require(writer.Add(entry).ok(), "what was read can be written");
  Require(writer.Finish().ok() && writer.counts() == reader.counts(), "and counts the same");
  archive::Reader second;
  Require(second.Feed(again, [](archive::Entry) { return OkStatus(); }).ok() && second.Finish().ok(),
          "and is read");
}

// Type, length (two bytes), payload, again and again.
std::string Play(std::string_view script) {
  std::string bytes;
  append_log::AppendFileHeader(kArchive, kTag, &bytes);
  while (script.size() >= 3) {
    const auto type = static_cast<uint8_t>(script[0]);
    const size_t told = static_cast<uint8_t>(script[1]) | static_cast<size_t>(static_cast<uint8_t>(script[2]))
                                                              << 8;
    const std::string_view payload = script.substr(3, told);
    script.remove_prefix(3 + payload.size());
    append_log::AppendRecord(type, payload, kTag, bytes.size(), &bytes);
  }
  return bytes;
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  const std::string_view text = fuzz::Text(data, size);
  if (text.empty()) return 0;
  const size_t piece = 1 + static_cast<uint8_t>(text[0]);
  fuzz::ReadIt(text.substr(1), piece);
  fuzz::ReadIt(fuzz::Play(text.substr(1)), piece);
  return 0;
}
