#include "foreshock/archive/reader.h"

#include <algorithm>

#include "entry_codec.h"
#include "foreshock/base/append_log.h"
#include "foreshock/base/append_log_format.h"
#include "foreshock/base/crc32c.h"

namespace foreshock::archive {
namespace {

constexpr size_t kPlaceOfKind = 8;
// Who may bring an archive at all is known behind its first entry: until then little is held.
constexpr size_t kMostBeginBytes = 65'536;

Status Disorder(const std::string& what) { return Status(Code::kDataLoss, what); }

std::string Name(const Place& place) {
  return "attempt " + std::to_string(place.attempt) + " rank " + std::to_string(place.rank) + " process " +
         std::to_string(place.process);
}

}  // namespace

bool LooksLikeArchive(std::string_view bytes) {
  return bytes.size() >= kPlaceOfKind + 4 && bytes.starts_with(append_log::kMagic) &&
         append_log::GetU32(bytes.data() + kPlaceOfKind) == kArchiveKind;
}

Status Reader::Damaged(const std::string& what) const {
  return Status(Code::kDataLoss, "archive: byte " + std::to_string(offset_) + ": " + what);
}

Status Reader::Feed(std::string_view bytes, const Each& each) {
  if (!status_.ok()) return status_;
  if (position_ > 0) {
    buffer_.erase(0, position_);
    position_ = 0;
  }
  buffer_.append(bytes);
  status_ = Parse(each);
  return status_;
}

Status Reader::TakeHeader() {
  const std::string_view header = std::string_view(buffer_).substr(0, kLogHeaderBytes);
  uint32_t tag = 0;
  switch (append_log::CheckFileHeader(header, kArchiveKind, &tag)) {
    case append_log::HeaderState::kGood:
      break;
    case append_log::HeaderState::kLaterVersion:
      return Status(Code::kUnimplemented, "archive: of a later version of the append log");
    case append_log::HeaderState::kDamaged:
      if (LooksLikeArchive(header)) return Damaged("the header's checksum does not match");
      [[fallthrough]];
    case append_log::HeaderState::kOtherKind:
      return Status(Code::kInvalidArgument, "archive: does not begin as an archive of a run does");
  }
  tag_ = tag;
  position_ = offset_ = kLogHeaderBytes;
  return OkStatus();
}

Status Reader::Parse(const Each& each) {
  if (!tag_) {
    // What is too short for the header may be seen to be no archive.
    const size_t seen = std::min(buffer_.size(), append_log::kMagic.size());
    if (std::string_view(buffer_).substr(0, seen) != append_log::kMagic.substr(0, seen))
      return Status(Code::kInvalidArgument, "archive: does not begin as an archive of a run does");
    if (buffer_.size() < kLogHeaderBytes) return OkStatus();
    FS_RETURN_IF_ERROR(TakeHeader());
  }
  for (;;) {
    const std::string_view rest = std::string_view(buffer_).substr(position_);
    if (ended_ && !rest.empty()) return Damaged("something follows the closing entry");
    if (rest.size() < kLogRecordOverhead) return OkStatus();
    append_log::RecordHeader header{};
    if (!append_log::ParseRecordHeader(rest, offset_, &header) || header.tag != *tag_)
      return Damaged("no entry begins here, or its length is wrong");
    if (!begun_ && header.length > kMostBeginBytes) return Damaged("the first entry is too long");
    if (rest.size() < kLogRecordOverhead + header.length) return OkStatus();
    const std::string_view payload = rest.substr(kLogRecordOverhead, header.length);
    if (Crc32cExtend(header.seed, payload) != header.payload_crc)
      return Damaged("the entry's checksum does not match");
    FS_RETURN_IF_ERROR(Take(header.type, payload, each));
    position_ += kLogRecordOverhead + header.length;
    offset_ += kLogRecordOverhead + header.length;
  }
}

Status Reader::Take(uint8_t type, std::string_view payload, const Each& each) {
  const auto at = [this](const Status& status) {
    return status.Annotate("archive: byte " + std::to_string(offset_));
  };
  if (!begun_ && type != static_cast<uint8_t>(EntryType::kBegin))
    return Damaged("does not begin with what the archive is of");
  if (type == static_cast<uint8_t>(EntryType::kEnd)) return CheckEnd(payload);
  ++entries_;
  if (type >= kFirstOptional) {
    ++skipped_;
    return OkStatus();
  }
  Result<Entry> entry = Decode(type, payload);
  if (!entry.ok()) {
    if (entry.status().code() == Code::kInvalidArgument) return Damaged(entry.status().message());
    return at(entry.status());
  }
  const Status order = CheckOrder(*entry);
  if (!order.ok()) return at(order);
  Count(*entry, &counts_);
  return each(std::move(entry).value());
}

// Begin first and once; nothing names what was not declared, and nothing is declared twice.
Status Reader::CheckOrder(const Entry& entry) {
  if (begun_ && std::holds_alternative<Begin>(entry)) return Disorder("a second beginning");
  begun_ = true;
  FS_RETURN_IF_ERROR(bounds_.Take(entry));
  const auto known = [this](const Place& place) {
    const bool merged = place.rank == kMergedRank && place.process == 0 && attempts_.contains(place.attempt);
    return merged || processes_.contains(place) ? OkStatus()
                                                : Disorder("of a process not declared: " + Name(place));
  };
  if (const auto* attempt = std::get_if<Attempt>(&entry)) {
    return attempts_.insert(attempt->number).second ? OkStatus() : Disorder("an attempt declared twice");
  }
  if (const auto* process = std::get_if<Process>(&entry)) {
    if (!attempts_.contains(process->place.attempt)) return Disorder("of an attempt not declared");
    if (process->place.rank == kMergedRank) return Disorder("a process without a rank");
    return processes_.insert(process->place).second ? OkStatus() : Disorder("a process declared twice");
  }
  if (const auto* record = std::get_if<Record>(&entry)) return known(record->place);
  if (const auto* counters = std::get_if<Counters>(&entry)) return known(counters->place);
  if (const auto* unmerged = std::get_if<Unmerged>(&entry)) {
    return attempts_.contains(unmerged->attempt) ? OkStatus() : Disorder("of an attempt not declared");
  }
  return OkStatus();
}

Status Reader::CheckEnd(std::string_view payload) {
  const Result<End> end = DecodeEnd(payload);
  if (!end.ok()) return Damaged(end.status().message());
  if (!(end->counts == counts_) || end->entries != entries_)
    return Damaged("the closing entry counts other entries than there are");
  ended_ = true;
  return OkStatus();
}

Status Reader::Finish() {
  if (!status_.ok()) return status_;
  if (ended_) return OkStatus();
  if (!tag_ && buffer_.empty()) return status_ = Status(Code::kInvalidArgument, "archive: empty");
  return status_ = Status(Code::kDataLoss, "archive: torn: ends at byte " +
                                               std::to_string(offset_ + (buffer_.size() - position_)) +
                                               " without its closing entry");
}

}  // namespace foreshock::archive
