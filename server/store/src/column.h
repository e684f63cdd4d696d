// Column: one signal of one layer over the steps of a sealed group, and its bytes (docs/formats/store.md).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"
#include "word_codec.h"

namespace foreshock::store {

// What is the same in all rows of a column. A series of another shape is another column.
struct Shape {
  uint16_t signal = 0;
  std::optional<uint32_t> layer;
  std::vector<uint32_t> heads;
  uint32_t values_per_head = 1;
  uint32_t weights = 0;  // of a row
  bool moments = false;
  bool hashes = false;
  uint32_t shard = 0, shards = 0;  // of partial values
  size_t count() const { return heads.empty() ? 1 : heads.size(); }
  size_t width() const { return count() * values_per_head; }
  bool operator==(const Shape&) const = default;
};

// Whether the arrays of a series fit each other (no decoder gives one whose do not).
bool IsSound(const wire::Series& series);
// Of a sound series.
Shape ShapeOf(const wire::Series& series);
bool HasShape(const wire::Series& series, const Shape& shape);

class Column {
 public:
  Column() = default;
  // Room for so many rows is made at once.
  explicit Column(Shape shape, size_t expected_rows = 0);

  const Shape& shape() const { return shape_; }
  size_t rows() const { return steps_.size(); }
  // Rising: which row of the group this is, and its step.
  const std::vector<int64_t>& group_rows() const { return group_rows_; }
  const std::vector<int64_t>& steps() const { return steps_; }
  // How many columns of this signal and layer the group has; their variants are 0, 1, ...
  uint32_t variants() const { return variants_; }

  // `series` has this shape; group_row and step are above those before.
  void Add(size_t group_row, int64_t step, const wire::Series& series);
  // The series as it was added, bit for bit.
  wire::Series Row(size_t row) const { return Row(row, nullptr); }
  // Only the heads at these places of shape().heads, in this order; nullptr: all.
  wire::Series Row(size_t row, const std::vector<size_t>* places) const;
  // The same into a series of any content, whose memory is used again.
  void ReadRow(size_t row, const std::vector<size_t>* places, wire::Series* into) const;

  // Takes the place of what is in *out.
  void EncodeInto(uint32_t variants, std::string* out) const;
  // kDataLoss when the bytes are not what Encode() wrote. Only the rows whose group_row is below `below_row`
  // are made: there may be none.
  static Result<Column> Decode(uint16_t signal, std::optional<uint32_t> layer, std::string_view bytes,
                               int64_t below_row = std::numeric_limits<int64_t>::max());

  // Whether a row says which heads it has.
  bool lacks_heads() const { return !present_.given.empty(); }
  // Row by row, width() words each: floats by their bits.
  const Words& values() const { return values_; }

 private:
  Shape shape_;
  uint32_t variants_ = 1;
  std::vector<int64_t> group_rows_, steps_;
  Words values_, weights_, moments_, hashes_;  // bits of floats; hashes as low and high words
  std::vector<int64_t> flags_;
  // A list of bits that a row may lack.
  struct RowBits {
    std::vector<uint8_t> given;  // a row each; empty: no row has one
    std::vector<uint8_t> bits;   // count() a row
    void Add(size_t row, size_t count, const std::vector<uint8_t>& list);
    void Fill(size_t rows, size_t count);
    bool Has(size_t row) const { return row < given.size() && given[row] != 0; }
  };
  RowBits present_, rotated_;
  std::vector<std::vector<uint32_t>> offsets_;  // a row each; empty: no row has one
};

}  // namespace foreshock::store
