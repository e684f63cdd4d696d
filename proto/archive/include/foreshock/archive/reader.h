// Reads the bytes of an archive back, strictly: an archive is whole or it is refused.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "foreshock/archive/bounds.h"
#include "foreshock/archive/entry.h"
#include "foreshock/base/result.h"

namespace foreshock::archive {

// Whether bytes begin as an archive does; 12 of them are enough.
bool LooksLikeArchive(std::string_view bytes);

// Feed pieces of any size, then Finish. Holds at most one entry (64 MiB) and the names of processes. Not
// thread-safe. The first error is final.
//   kInvalidArgument    no archive at all
//   kUnimplemented      of a later version, or with an entry that it must not skip
//   kDataLoss           damaged, torn or in disorder; the message names the byte
//   kResourceExhausted  names more than an archive may (Bounds), likewise
class Reader {
 public:
  using Each = std::function<Status(Entry entry)>;

  // Gives every entry to `each`, in order, as soon as it is whole; its error is this call's and final.
  Status Feed(std::string_view bytes, const Each& each);
  // At the end of the bytes: ok only when the closing entry was there, counts what came, and nothing
  // followed.
  Status Finish();

  const Counts& counts() const { return counts_; }
  uint64_t bytes() const { return offset_; }
  // Entries of later versions that may be skipped and were.
  uint64_t skipped() const { return skipped_; }

 private:
  Status Parse(const Each& each);
  Status TakeHeader();
  Status Take(uint8_t type, std::string_view payload, const Each& each);
  Status CheckOrder(const Entry& entry);
  Status CheckEnd(std::string_view payload);
  Status Damaged(const std::string& what) const;

  std::string buffer_;
  size_t position_ = 0;  // in buffer_
  uint64_t offset_ = 0;  // of position_ in the archive
  std::optional<uint32_t> tag_;
  bool begun_ = false, ended_ = false;
  Status status_;
  Counts counts_;
  Bounds bounds_;
  uint64_t entries_ = 0, skipped_ = 0;
  std::set<uint32_t> attempts_;
  std::set<Place> processes_;
};

}  // namespace foreshock::archive
