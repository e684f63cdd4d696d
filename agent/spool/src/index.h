// What the spool knows about its segments and sources. Memory per source and segment, not per record.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/agent/spool.h"

namespace foreshock::agent {

// The records of one source in one segment.
struct Range {
  uint32_t id = 0;  // the source's id in that segment
  uint64_t first_seq = 0;
  uint64_t last_seq = 0;
  uint64_t offset = 0;  // of the first one
  uint64_t records = 0;
};

struct Source {
  SourceKey key;
  std::string hello;
  uint64_t hello_version = 0;  // rises with every new hello
  uint64_t durable_seq = 0;
  uint64_t acked_seq = 0;
  uint64_t bytes = 0;  // of what is pending, about: acknowledged records are taken to be of middling size
  int attached = 0;
  std::map<uint64_t, Range> ranges;  // by segment number; only those with pending records

  uint64_t pending() const { return durable_seq - acked_seq; }
  bool idle() const { return attached == 0 && ranges.empty(); }
};

struct Segment {
  uint64_t number = 0;
  uint64_t bytes = 0;  // durable ones
  int64_t created_unix_ns = 0;
  bool sealed = false;
  uint64_t live = 0;  // sources with pending records in it
};

struct Index {
  std::map<SourceKey, std::shared_ptr<Source>> sources;
  std::map<uint64_t, Segment> segments;
  uint64_t bytes = 0;  // of all segments

  std::shared_ptr<Source> FindSource(const SourceKey& key) const {
    const auto found = sources.find(key);
    return found == sources.end() ? nullptr : found->second;
  }
};

// Notes a durable record. The segment exists in the index.
inline void AddRecord(Source& source, Segment& segment, uint32_t id, uint64_t seq, uint64_t offset) {
  source.durable_seq = std::max(source.durable_seq, seq);
  if (seq <= source.acked_seq) return;
  const auto [range, is_new] = source.ranges.try_emplace(segment.number, Range{id, seq, seq, offset, 0});
  range->second.last_seq = seq;
  ++range->second.records;
  if (is_new) ++segment.live;
}

// What a directory's segments hold, oldest first: from their index files where there is a good one, else by
// reading them. `acked` are the positions known before.
struct SegmentsFound {
  Index index;
  std::map<uint64_t, uint64_t> records;  // of every segment, as far as known
  std::vector<uint64_t> scanned;         // segments without a good index file
};
Status FindSegments(FileSystem& fs, const std::string& dir, const std::map<SourceKey, uint64_t>& acked,
                    SegmentsFound* found, SpoolRecovery* recovery);

}  // namespace foreshock::agent
