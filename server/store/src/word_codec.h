// Tables of 32-bit words (floats by their bits), a row a step, and lists of bits, made small without loss.
//
// Each word is replaced by its difference to the word above, in the first row to the first word of all (as
// integers, sign in the lowest bit), the bytes
// of equal weight are put together in four planes, and each plane is stored as the cheapest of: one byte that
// all are, the bytes as they are, zstd's form of them. The low bytes of measured floats are noise and
// stay as they are, which costs nothing to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bytes.h"

namespace foreshock::store {

// Words of one table, at most; more is refused when reading.
inline constexpr size_t kMaxWords = size_t{1} << 26;

// Leaves what is about to be written over as it is, where a vector would write zeros first.
template <typename T>
struct Unwritten : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = Unwritten<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
using Words = std::vector<uint32_t, Unwritten<uint32_t>>;

// words.size() must be a multiple of `width`, the words of a row.
void PutWords(std::span<const uint32_t> words, size_t width, std::string* out);
// False: malformed. `rows * width` words are appended to *words.
bool ReadWords(ByteReader* reader, size_t rows, size_t width, Words* words);
// Appends only the first rows: those behind cost no work but that of their bytes.
bool ReadWords(ByteReader* reader, size_t rows, size_t width, size_t first_rows, Words* words);

// Entries 0 or 1.
void PutBits(std::span<const uint8_t> bits, std::string* out);
bool ReadBits(ByteReader* reader, size_t count, std::vector<uint8_t>* bits);

}  // namespace foreshock::store
