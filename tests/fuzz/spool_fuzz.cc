// A spool's folder from anyone, with right checksums or damaged ones: it opens, every source is read to its
// end with rising seqs, and what is appended then is there.
#include <chrono>

#include "foreshock/agent/spool.h"
#include "foreshock/base/power_cut_file_system.h"
#include "fuzz.h"
#include "spool_script.h"

namespace foreshock::fuzz {
namespace {

const std::string kDir = "spool";

void Damage(PowerCutFileSystem& fs, const std::string& path, std::string_view bytes) {
  const auto size = fs.Size(path);
  if (!size.ok() || bytes.size() < 2) return;
  const uint64_t first =
      static_cast<uint8_t>(bytes[0]) | static_cast<uint64_t>(static_cast<uint8_t>(bytes[1])) << 8;
  for (size_t i = 2; i < bytes.size() && first + i - 2 < *size; ++i) {
    (void)fs.CorruptByte(path, first + i - 2, static_cast<uint8_t>(bytes[i]));
  }
}

void Play(PowerCutFileSystem& fs, std::string_view script) {
  std::array<std::unique_ptr<AppendLogWriter>, kSpoolFiles.size()> writers;
  while (script.size() >= 4) {
    const auto file = static_cast<uint8_t>(script[0]);
    const auto type = static_cast<uint8_t>(script[1]);
    const size_t told = static_cast<uint8_t>(script[2]) | static_cast<size_t>(static_cast<uint8_t>(script[3]))
                                                              << 8;
    const std::string_view payload = script.substr(4, told);
    script.remove_prefix(4 + payload.size());
    const SpoolFile& which = kSpoolFiles[file % kSpoolFiles.size()];
    const std::string path = JoinPath(kDir, which.name);
    auto& writer = writers[file % kSpoolFiles.size()];
    if (file >= kSpoolFiles.size()) {
      if (writer) (void)writer->Flush();
      Damage(fs, path, payload);
      continue;
    }
    if (!writer) {
      LogRecovery recovery;
      auto opened = AppendLogWriter::Open(
          fs, path, which.kind, [](const LogRecord&) {}, &recovery, 7);
      if (!opened.ok()) continue;  // damaged before it was begun
      writer = std::move(opened).value();
    }
    (void)writer->Append(type, payload);
  }
  for (const auto& writer : writers) {
    if (writer) (void)writer->Flush();
  }
}

void ReadToItsEnd(agent::Spool& spool, const agent::SourceInfo& source) {
  auto reader = spool.Read(source.key, source.acked_seq);
  agent::SpoolRecord record;
  uint64_t last = source.acked_seq;
  for (;;) {
    const auto next = reader->Next(&record, std::chrono::nanoseconds(0));
    if (!next.ok() || !*next) return;
    Require(record.seq > last, "seqs rise");
    Require(record.lost_before <= record.seq - last - 1, "no more is missing than there is room for");
    last = record.seq;
  }
}

void GoesOn(agent::Spool& spool) {
  const agent::SourceKey key{"a new run", "1", 0, 99};
  const auto durable = spool.OpenSource(key, "hello");
  Require(durable.ok(), "a new source is taken");
  const agent::SpoolItem item{*durable + 1, 2, "payload"};
  if (*durable == UINT64_MAX) return;
  Require(spool.Append(key, {&item, 1}).ok(), "a new record is taken");
  auto reader = spool.Read(key, *durable);
  agent::SpoolRecord record;
  const auto next = reader->Next(&record, std::chrono::nanoseconds(0));
  Require(next.ok() && *next && record.payload == "payload", "a new record is there");
  spool.CloseSource(key);
}

}  // namespace
}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock;
  PowerCutFileSystem fs;
  (void)fs.CreateDir(fuzz::kDir);
  fuzz::Play(fs, fuzz::Text(data, size));
  agent::SpoolRecovery recovery;
  auto spool = agent::Spool::Open(fs, fuzz::kDir, {}, &recovery);
  fuzz::Require(spool.ok(), "damage is no failure");
  for (const agent::SourceInfo& source : (*spool)->Sources()) fuzz::ReadToItsEnd(**spool, source);
  fuzz::GoesOn(**spool);
  (void)agent::InspectSpool(fs, fuzz::kDir);
  return 0;
}
