#include "keys.h"

#include "group.h"
#include "layout.h"

namespace foreshock::store {
namespace {

constexpr uint32_t kNoLayer = 0xFFFFFFFF;
constexpr uint64_t kSignBit = uint64_t{1} << 63;

void AppendU32(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

uint64_t BigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

class KeyWriter {
 public:
  explicit KeyWriter(Table table) { out_.push_back(static_cast<char>(table)); }
  KeyWriter& U32(uint32_t value) {
    AppendU32(value, &out_);
    return *this;
  }
  KeyWriter& U64(uint64_t value) {
    return U32(static_cast<uint32_t>(value >> 32)).U32(static_cast<uint32_t>(value));
  }
  KeyWriter& Step(int64_t step) { return U64(static_cast<uint64_t>(step) ^ kSignBit); }
  // Length first, so that no name is taken for the beginning of a longer one.
  KeyWriter& Name(std::string_view name) {
    out_.push_back(static_cast<char>(name.size() >> 8));
    out_.push_back(static_cast<char>(name.size()));
    return Bytes(name);
  }
  KeyWriter& Bytes(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what KeyWriter wrote; every read after the end makes ok() false.
class KeyReader {
 public:
  KeyReader(std::string_view key, Table table) : rest_(key) {
    ok_ = !rest_.empty() && rest_.front() == static_cast<char>(table);
    if (ok_) rest_.remove_prefix(1);
  }
  uint64_t Number(size_t bytes) {
    if (!ok_ || rest_.size() < bytes) {
      ok_ = false;
      return 0;
    }
    const uint64_t value = BigEndian(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return value;
  }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  int64_t Step() { return static_cast<int64_t>(U64() ^ kSignBit); }
  // Run, attempt and rank; the incarnation stands elsewhere.
  template <typename Id>
  void Source(Id* id) {
    id->run = U32();
    id->attempt = U32();
    id->rank = U32();
  }
  std::string_view Name() {
    const size_t length = Number(2);
    if (!ok_ || rest_.size() < length) {
      ok_ = false;
      return {};
    }
    const std::string_view name = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return name;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = false;
};

}  // namespace

std::string FormatKey() { return KeyWriter(Table::kFormat).Take(); }
std::string NextRunKey() { return KeyWriter(Table::kNextRun).Take(); }
std::string AliveKey() { return KeyWriter(Table::kAlive).Take(); }
std::string RunKey(uint32_t run) { return KeyWriter(Table::kRun).U32(run).Take(); }
std::string AttemptKey(uint32_t run, uint32_t attempt) {
  return KeyWriter(Table::kAttempt).U32(run).U32(attempt).Take();
}
std::string SourceKey(Table table, const SourceId& id) {
  return KeyWriter(table).U32(id.run).U32(id.attempt).U32(id.rank).U32(id.incarnation).Take();
}
std::string FrameKey(Table table, const SourceId& id, int64_t step, uint64_t seq) {
  return KeyWriter(table)
      .U32(id.run)
      .U32(id.attempt)
      .U32(id.rank)
      .Step(step)
      .U32(id.incarnation)
      .U64(seq)
      .Take();
}
std::string FrameKey(const SourceId& id, int64_t step, uint64_t seq) {
  return FrameKey(Table::kFrame, id, step, seq);
}
std::string SourcePrefix(Table table, uint32_t run, uint32_t attempt, uint32_t rank) {
  return KeyWriter(table).U32(run).U32(attempt).U32(rank).Take();
}
std::string FramePrefix(uint32_t run, uint32_t attempt, uint32_t rank) {
  return SourcePrefix(Table::kFrame, run, attempt, rank);
}
std::string FramePrefix(Table table, uint32_t run, uint32_t attempt, uint32_t rank, int64_t step) {
  return KeyWriter(table).U32(run).U32(attempt).U32(rank).Step(step).Take();
}
std::string FramePrefix(uint32_t run, uint32_t attempt, uint32_t rank, int64_t step) {
  return FramePrefix(Table::kFrame, run, attempt, rank, step);
}
std::string GroupKey(Table table, const SourceId& id, int64_t first_step, uint32_t seal) {
  return KeyWriter(table).U32(id.run).U32(id.attempt).U32(id.rank).Step(first_step).U32(seal).Take();
}
void AppendColumnPrefix(uint16_t signal, std::string* group_key) {
  group_key->push_back(static_cast<char>(signal >> 8));
  group_key->push_back(static_cast<char>(signal));
}
void AppendColumn(const ColumnName& name, std::string* group_key) {
  AppendRollupColumn(name.signal, name.layer, group_key);
  group_key->push_back(static_cast<char>(name.variant));
}
std::string RollupPrefix(Table table, const FramesOf& source, uint32_t level) {
  return KeyWriter(table).U32(source.run).U32(source.attempt).U32(source.rank).U32(level).Take();
}
std::string RollupKey(Table table, const FramesOf& source, uint32_t level, int64_t first_step) {
  return KeyWriter(table)
      .U32(source.run)
      .U32(source.attempt)
      .U32(source.rank)
      .U32(level)
      .Step(first_step)
      .Take();
}
void AppendRollupColumn(uint16_t signal, std::optional<uint32_t> layer, std::string* block_key) {
  AppendColumnPrefix(signal, block_key);
  AppendU32(layer.value_or(kNoLayer), block_key);
}
std::string EventKey(const SourceId& id, int64_t step, uint64_t seq) {
  return KeyWriter(Table::kEvent)
      .U32(id.run)
      .U32(id.attempt)
      .Step(step)
      .U32(id.rank)
      .U32(id.incarnation)
      .U64(seq)
      .Take();
}
std::string EventPrefix(uint32_t run, uint32_t attempt) {
  return KeyWriter(Table::kEvent).U32(run).U32(attempt).Take();
}
std::string EventPrefix(uint32_t run, uint32_t attempt, int64_t step) {
  return KeyWriter(Table::kEvent).U32(run).U32(attempt).Step(step).Take();
}
std::string QuarantineKey(const SourceId& id, uint64_t seq) {
  return SourceKey(Table::kQuarantine, id) + KeyWriter(Table::kFormat).U64(seq).Take().substr(1);
}
std::string UnmergedPrefix(uint32_t run, uint32_t attempt) {
  return KeyWriter(Table::kUnmerged).U32(run).U32(attempt).Take();
}
std::string UnmergedKey(uint32_t run, uint32_t attempt, int64_t step) {
  return KeyWriter(Table::kUnmerged).U32(run).U32(attempt).Step(step).Take();
}
std::string MetaKey(std::string_view kind, std::string_view run, std::string_view key) {
  return KeyWriter(Table::kMeta).Name(run).Name(kind).Bytes(key).Take();
}
std::string MetaRunPrefix(std::string_view run) { return KeyWriter(Table::kMeta).Name(run).Take(); }
std::string TableRunPrefix(Table table, uint32_t run) { return KeyWriter(table).U32(run).Take(); }
std::string TablePrefix(Table table) { return KeyWriter(table).Take(); }

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

namespace {

std::optional<FrameKeyParts> ParseFrame(std::string_view key, Table table) {
  KeyReader r(key, table);
  FrameKeyParts parts;
  r.Source(&parts.source);
  parts.step = r.Step();
  parts.source.incarnation = r.U32();
  parts.seq = r.U64();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

}  // namespace

std::optional<FrameKeyParts> ParseFrameKey(std::string_view key) { return ParseFrame(key, Table::kFrame); }
std::string KeptValue(uint32_t seal, std::string_view payload) {
  std::string value;
  AppendU32(seal, &value);
  return value.append(payload);
}

std::string QuarantineValue(wire::RecordType type, std::string_view reason, std::string_view payload) {
  std::string value;
  value.push_back(static_cast<char>(type));
  const size_t reason_bytes = std::min<size_t>(reason.size(), 0xFFFF);
  value.push_back(static_cast<char>(reason_bytes >> 8));
  value.push_back(static_cast<char>(reason_bytes));
  value.append(reason, 0, reason_bytes);
  return value.append(payload);
}

std::optional<QuarantineParts> ParseQuarantineValue(std::string_view value) {
  if (value.size() < 3) return std::nullopt;
  const size_t reason =
      static_cast<size_t>(static_cast<uint8_t>(value[1])) << 8 | static_cast<uint8_t>(value[2]);
  if (value.size() < 3 + reason) return std::nullopt;
  return QuarantineParts{static_cast<wire::RecordType>(value[0]), value.substr(3, reason),
                         value.substr(3 + reason)};
}

std::optional<KeptParts> ParseKeptValue(std::string_view value) {
  if (value.size() < kSealBytes) return std::nullopt;
  return KeptParts{static_cast<uint32_t>(BigEndian(value.substr(0, kSealBytes))), value.substr(kSealBytes)};
}

std::optional<FrameKeyParts> ParseKeptKey(std::string_view key) { return ParseFrame(key, Table::kKept); }

std::optional<GroupKeyParts> ParseGroupKey(std::string_view key) {
  KeyReader r(key, Table::kGroup);
  GroupKeyParts parts;
  r.Source(&parts.source);
  parts.first_step = r.Step();
  parts.seal = r.U32();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

std::optional<ColumnName> ParseColumn(std::string_view chunk_key) {
  KeyReader r(chunk_key, Table::kChunk);
  r.Number(4), r.Number(4), r.Number(4), r.Number(8), r.Number(4);
  ColumnName name;
  name.signal = static_cast<uint16_t>(r.Number(2));
  const uint32_t layer = r.U32();
  if (layer != kNoLayer) name.layer = layer;
  name.variant = static_cast<uint8_t>(r.Number(1));
  if (!r.at_end()) return std::nullopt;
  return name;
}

std::optional<RollupKeyParts> ParseRollupKeyParts(std::string_view key) {
  KeyReader r(key, Table::kRollup);
  RollupKeyParts parts;
  r.Source(&parts.source);
  parts.level = r.U32();
  parts.first_step = r.Step();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

std::optional<int64_t> ParseRollupKey(std::string_view key) {
  const auto parts = ParseRollupKeyParts(key);
  return parts ? std::optional(parts->first_step) : std::nullopt;
}

std::optional<std::pair<uint16_t, std::optional<uint32_t>>> ParseRollupColumn(std::string_view key) {
  KeyReader r(key, Table::kRollupColumn);
  r.Number(4), r.Number(4), r.Number(4), r.Number(4), r.Number(8);
  const auto signal = static_cast<uint16_t>(r.Number(2));
  const uint32_t layer = r.U32();
  if (!r.at_end()) return std::nullopt;
  return std::pair(signal, layer == kNoLayer ? std::nullopt : std::optional(layer));
}

std::optional<FrameKeyParts> ParseEventKey(std::string_view key) {
  KeyReader r(key, Table::kEvent);
  FrameKeyParts parts;
  parts.source.run = r.U32();
  parts.source.attempt = r.U32();
  parts.step = r.Step();
  parts.source.rank = r.U32();
  parts.source.incarnation = r.U32();
  parts.seq = r.U64();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

std::optional<FrameKeyParts> ParseSourceKey(std::string_view key) {
  const char first = key.empty() ? '\0' : key.front();
  if (first != 'S' && first != 'C' && first != 'Q') return std::nullopt;
  KeyReader r(key, static_cast<Table>(first));
  FrameKeyParts parts;
  r.Source(&parts.source);
  parts.source.incarnation = r.U32();
  if (first == 'Q') parts.seq = r.U64();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

std::optional<FrameKeyParts> ParseUnmergedKey(std::string_view key) {
  KeyReader r(key, Table::kUnmerged);
  FrameKeyParts parts;
  parts.source.run = r.U32();
  parts.source.attempt = r.U32();
  parts.step = r.Step();
  if (!r.at_end()) return std::nullopt;
  return parts;
}

std::optional<SourceId> ParseRunKey(std::string_view key) {
  KeyReader r(key, Table::kRun);
  SourceId id;
  id.run = r.U32();
  if (!r.at_end()) return std::nullopt;
  return id;
}

std::optional<SourceId> ParseAttemptKey(std::string_view key) {
  KeyReader r(key, Table::kAttempt);
  SourceId id;
  id.run = r.U32();
  id.attempt = r.U32();
  if (!r.at_end()) return std::nullopt;
  return id;
}

std::optional<MetaKeyParts> ParseMetaKey(std::string_view key) {
  KeyReader r(key, Table::kMeta);
  MetaKeyParts parts;
  parts.run = r.Name();
  parts.kind = r.Name();
  if (!r.ok()) return std::nullopt;
  parts.key = r.rest();
  return parts;
}

}  // namespace foreshock::store
