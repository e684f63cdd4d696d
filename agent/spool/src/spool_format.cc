#include "spool_format.h"

#include <charconv>
#include <cstdio>

namespace foreshock::agent {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";

template <typename T>
void Put(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

template <typename T>
bool Take(std::string_view* bytes, T* value) {
  if (bytes->size() < sizeof(T)) return false;
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    bits |= static_cast<uint64_t>(static_cast<unsigned char>((*bytes)[i])) << (8 * i);
  *value = static_cast<T>(bits);
  bytes->remove_prefix(sizeof(T));
  return true;
}

void PutText(std::string_view text, std::string* out) {
  Put(static_cast<uint32_t>(text.size()), out);
  out->append(text);
}

bool TakeText(std::string_view* bytes, std::string* text) {
  uint32_t length = 0;
  if (!Take(bytes, &length) || bytes->size() < length) return false;
  text->assign(bytes->substr(0, length));
  bytes->remove_prefix(length);
  return true;
}

void PutKey(const SourceKey& key, std::string* out) {
  PutText(key.run, out);
  PutText(key.attempt, out);
  Put(key.rank, out);
  Put(key.incarnation, out);
}

bool TakeKey(std::string_view* bytes, SourceKey* key) {
  return TakeText(bytes, &key->run) && TakeText(bytes, &key->attempt) && Take(bytes, &key->rank) &&
         Take(bytes, &key->incarnation);
}

}  // namespace

std::string SourceKey::ToString() const {
  char text[48];
  std::snprintf(text, sizeof text, " rank %u incarnation %016llx", rank,
                static_cast<unsigned long long>(incarnation));
  return run + "/" + attempt + text;
}

std::string SegmentName(uint64_t number) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%010llu", kSegmentPrefix.data(),
                static_cast<unsigned long long>(number));
  return text;
}

std::optional<uint64_t> ParseSegmentName(std::string_view name) {
  if (!name.starts_with(kSegmentPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kSegmentPrefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number == 0 || number == UINT64_MAX) return std::nullopt;
  // Only as SegmentName writes it: the file is found again by its number.
  return SegmentName(number) == name ? std::optional(number) : std::nullopt;
}

std::string EncodeSegment(int64_t created_unix_ns) {
  std::string bytes;
  Put(created_unix_ns, &bytes);
  return bytes;
}

bool DecodeSegment(std::string_view bytes, int64_t* created_unix_ns) { return Take(&bytes, created_unix_ns); }

std::string EncodeSource(uint32_t id, const SourceKey& key, std::string_view hello) {
  std::string bytes;
  Put(id, &bytes);
  PutKey(key, &bytes);
  PutText(hello, &bytes);
  return bytes;
}

bool DecodeSource(std::string_view bytes, uint32_t* id, SourceKey* key, std::string* hello) {
  return Take(&bytes, id) && TakeKey(&bytes, key) && TakeText(&bytes, hello);
}

void EncodeData(uint32_t id, uint64_t seq, std::string_view payload, std::string* out) {
  out->clear();
  Put(id, out);
  Put(seq, out);
  out->append(payload);
}

std::optional<DataView> DecodeData(std::string_view bytes) {
  DataView view{};
  if (!Take(&bytes, &view.id) || !Take(&bytes, &view.seq)) return std::nullopt;
  view.payload = bytes;
  return view;
}

std::string EncodeIndexHead(int64_t created_unix_ns, uint64_t segment_bytes) {
  std::string bytes;
  Put(created_unix_ns, &bytes);
  Put(segment_bytes, &bytes);
  return bytes;
}

bool DecodeIndexHead(std::string_view bytes, int64_t* created_unix_ns, uint64_t* segment_bytes) {
  return Take(&bytes, created_unix_ns) && Take(&bytes, segment_bytes);
}

std::string EncodeRange(const Range& range, const SourceKey& key, std::string_view hello) {
  std::string bytes = EncodeSource(range.id, key, hello);
  for (uint64_t value : {range.first_seq, range.last_seq, range.offset, range.records}) Put(value, &bytes);
  return bytes;
}

bool DecodeRange(std::string_view bytes, Range* range, SourceKey* key, std::string* hello) {
  return Take(&bytes, &range->id) && TakeKey(&bytes, key) && TakeText(&bytes, hello) &&
         Take(&bytes, &range->first_seq) && Take(&bytes, &range->last_seq) && Take(&bytes, &range->offset) &&
         Take(&bytes, &range->records);
}

std::string EncodeAck(const SourceKey& key, uint64_t seq) {
  std::string bytes;
  PutKey(key, &bytes);
  Put(seq, &bytes);
  return bytes;
}

bool DecodeAck(std::string_view bytes, SourceKey* key, uint64_t* seq) {
  return TakeKey(&bytes, key) && Take(&bytes, seq);
}

}  // namespace foreshock::agent
