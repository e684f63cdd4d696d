#include "foreshock/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace foreshock {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;
constexpr size_t kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b] is the remainder of byte b followed by k zero bytes, so that eight bytes are folded at once.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFFu];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t ExtendByte(uint32_t state, uint8_t byte) noexcept {
  return (state >> 8) ^ kTables[0][(state ^ byte) & 0xFFu];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendSse42(uint32_t crc, const void* data,
                                                       size_t bytes) noexcept {
  const auto* p = static_cast<const uint8_t*>(data);
  uint64_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    state = __builtin_ia32_crc32di(state, word);
  }
  auto state32 = static_cast<uint32_t>(state);
  for (; bytes > 0; --bytes, ++p) state32 = __builtin_ia32_crc32qi(state32, *p);
  return ~state32;
}
#endif

using Extend = uint32_t (*)(uint32_t, const void*, size_t) noexcept;

Extend ChooseExtend() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2")) return &ExtendSse42;
#endif
  return &Crc32cExtendPortable;
}

}  // namespace

uint32_t Crc32cExtendPortable(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* p = static_cast<const uint8_t*>(data);
  uint32_t state = ~crc;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes >= 8; bytes -= 8, p += 8) {
      uint32_t low;
      uint32_t high;
      std::memcpy(&low, p, sizeof low);
      std::memcpy(&high, p + 4, sizeof high);
      low ^= state;
      state = kTables[7][low & 0xFFu] ^ kTables[6][(low >> 8) & 0xFFu] ^ kTables[5][(low >> 16) & 0xFFu] ^
              kTables[4][low >> 24] ^ kTables[3][high & 0xFFu] ^ kTables[2][(high >> 8) & 0xFFu] ^
              kTables[1][(high >> 16) & 0xFFu] ^ kTables[0][high >> 24];
    }
  }
  for (; bytes > 0; --bytes, ++p) state = ExtendByte(state, *p);
  return ~state;
}

uint32_t Crc32cExtend(uint32_t crc, const void* data, size_t bytes) noexcept {
  static const Extend extend = ChooseExtend();
  return extend(crc, data, bytes);
}

}  // namespace foreshock
