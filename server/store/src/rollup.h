// Rollups: min, mean and max of every series over many steps, so that a chart of a long run reads little.
//
// A bucket is the least number of sealed groups that hold kRollupRows frames (level 1), or 16 buckets of the
// level below. 16 buckets make a block, which is written once. Bytes: docs/formats/store.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "column.h"
#include "foreshock/base/catalogue.h"
#include "foreshock/base/result.h"
#include "foreshock/server/store/types.h"
#include "foreshock/wire/types.h"

namespace foreshock::store {

inline constexpr uint32_t kRollupLevels = 3;  // of 256, 4,096 and 65,536 frames a bucket
inline constexpr uint64_t kRollupRows = 256;  // of a bucket of level 1, at least
inline constexpr size_t kBucketsOfBlock = 16;

// What a block's buckets cover: one entry a bucket, steps rising.
struct RollupSpans {
  std::vector<int64_t> first, last, rows;
  size_t size() const { return first.size(); }
  std::string Encode() const;
  static Result<RollupSpans> Decode(std::string_view bytes);
};

// One series' buckets. NaN and missing heads count as nothing: `counts` says how many values there were, and
// where there were none min, mean and max are NaN.
struct RollupColumn {
  std::vector<uint32_t> heads;  // empty: a scalar, counts as one head
  size_t buckets = 0;
  std::vector<int64_t> counts;            // buckets x heads
  std::vector<float> mins, means, maxes;  // likewise
  size_t width() const { return heads.empty() ? 1 : heads.size(); }
  std::string Encode() const;
  static Result<RollupColumn> Decode(std::string_view bytes);
};

struct RollupSum {
  float min = 0, max = 0;
  double sum = 0;
  int64_t count = 0;
  void Add(float value);
  // One of a column's buckets x heads.
  void Add(const RollupColumn& column, size_t entry);
  float mean() const;

 private:
  void Add(float other_min, double other_sum, float other_max, int64_t other_count);
};

// The value that counts of a series' head (or of a scalar, 0): as people read it; nullopt where it is
// missing.
std::optional<float> CountedValue(const SignalInfo* info, const wire::Series& series, size_t head);

// Gathers one block.
class RollupBuilder {
 public:
  using Name = std::pair<uint16_t, std::optional<uint32_t>>;  // signal, layer

  // What follows goes into a bucket of its own.
  void StartBucket() { spans_.first.push_back(0), spans_.last.push_back(0), spans_.rows.push_back(0); }
  // Frames of the current bucket, later than those before.
  void AddSteps(int64_t first, int64_t last, int64_t rows);
  void Add(const Column& column);
  void Add(const wire::Series& series);
  // A whole column of a lower level's block.
  void Add(const Name& name, const RollupColumn& column);

  size_t buckets() const { return spans_.size(); }
  const RollupSpans& spans() const { return spans_; }
  std::map<Name, RollupColumn> Take();

 private:
  struct Sums {
    std::vector<uint32_t> heads;
    std::vector<std::vector<RollupSum>> buckets;  // x heads
  };
  // The current bucket's sums, and where each of `heads` stands among them.
  std::vector<RollupSum>& Place(const Name& name, const std::vector<uint32_t>& heads,
                                std::vector<size_t>* places);

  RollupSpans spans_;
  std::map<Name, Sums> sums_;
};

}  // namespace foreshock::store
