// The index file of a sealed segment: what is pending in it, so that a start need not read the segment
// itself. Written when a segment is sealed, without a sync: a missing, damaged or outdated one only means
// that the segment is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/agent/spool.h"
#include "index.h"

namespace foreshock::agent {

struct SegmentIndex {
  int64_t created_unix_ns = 0;
  uint64_t segment_bytes = 0;  // the file's size; another size makes the index outdated
  struct Entry {
    SourceKey key;
    std::string hello;
    Range range;
  };
  std::vector<Entry> entries;
};

std::string SegmentIndexName(uint64_t number);

// The pending ranges of a segment, as the index in memory has them.
SegmentIndex IndexOfSegment(const Index& index, uint64_t number);

Status WriteSegmentIndex(FileSystem& fs, const std::string& dir, uint64_t number, const SegmentIndex& index);

// kNotFound when there is none; kDataLoss when it is damaged or does not fit the segment.
Result<SegmentIndex> ReadSegmentIndex(FileSystem& fs, const std::string& dir, uint64_t number);

}  // namespace foreshock::agent
