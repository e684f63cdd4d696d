#include "foreshock/archive/writer.h"

#include "entry_codec.h"
#include "foreshock/base/append_log.h"
#include "foreshock/base/append_log_format.h"

namespace foreshock::archive {

Writer::Writer(Sink sink, uint32_t tag) : sink_(std::move(sink)), tag_(tag) {
  append_log::AppendFileHeader(kArchiveKind, tag, &piece_);
  offset_ = piece_.size();
}

Status Writer::Add(const Entry& entry) {
  FS_RETURN_IF_ERROR(bounds_.Take(entry).Annotate("archive"));
  FS_RETURN_IF_ERROR(Put(static_cast<uint8_t>(TypeOf(entry)), Encode(entry)));
  Count(entry, &counts_);
  return OkStatus();
}

Status Writer::Finish() {
  const Counts& c = counts_;
  const uint64_t entries = 1 + c.attempts + c.processes + c.frames + c.merged_frames + c.events +
                           c.quarantined + c.unmerged + c.notes + c.counters;
  FS_RETURN_IF_ERROR(Put(static_cast<uint8_t>(EntryType::kEnd), Encode(End{c, entries})));
  return Flush();
}

Status Writer::Put(uint8_t type, std::string_view payload) {
  if (payload.size() > kMaxLogPayloadBytes) {
    return Status(Code::kInvalidArgument, "entry: " + std::to_string(payload.size()) + " bytes, at most " +
                                              std::to_string(kMaxLogPayloadBytes));
  }
  const size_t before = piece_.size();
  append_log::AppendRecord(type, payload, tag_, offset_, &piece_);
  offset_ += piece_.size() - before;
  return piece_.size() < kPieceBytes ? OkStatus() : Flush();
}

Status Writer::Flush() {
  const Status status = sink_(piece_);
  piece_.clear();
  return status;
}

}  // namespace foreshock::archive
