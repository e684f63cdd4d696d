// Turns entries into the bytes of an archive.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "foreshock/archive/bounds.h"
#include "foreshock/archive/entry.h"
#include "foreshock/base/result.h"

namespace foreshock::archive {

// Bytes go to the sink in pieces of about `kPieceBytes`, larger only where one entry is. Not thread-safe.
class Writer {
 public:
  using Sink = std::function<Status(std::string_view bytes)>;
  static constexpr size_t kPieceBytes = 1u << 20;

  // `tag` is any number: a random one tells this archive's records from those of another in the same blocks
  // of a disk.
  Writer(Sink sink, uint32_t tag);
  // kInvalidArgument for an entry above 64 MiB, kResourceExhausted above what an archive may name; else the
  // sink's error, after which nothing more is written.
  Status Add(const Entry& entry);
  // The closing entry, without which an archive counts as torn.
  Status Finish();

  const Counts& counts() const { return counts_; }
  uint64_t bytes() const { return offset_; }

 private:
  Status Put(uint8_t type, std::string_view payload);
  Status Flush();

  const Sink sink_;
  const uint32_t tag_;
  std::string piece_;
  uint64_t offset_ = 0;  // of what comes next in the archive
  Bounds bounds_;
  Counts counts_;
};

}  // namespace foreshock::archive
