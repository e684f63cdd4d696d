// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, RFC 3720), the checksum of every byte format of
// Foreshock.
//
// Pure, thread-safe, noexcept, no allocation. Uses the processor's crc32 instruction where it has one
// (SSE4.2, asked at run time) and tables elsewhere; the results are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foreshock {

// The checksum of a followed by b, given crc = checksum of a. Start with 0 for nothing.
uint32_t Crc32cExtend(uint32_t crc, const void* data, size_t bytes) noexcept;

inline uint32_t Crc32cExtend(uint32_t crc, std::string_view data) noexcept {
  return Crc32cExtend(crc, data.data(), data.size());
}
inline uint32_t Crc32c(const void* data, size_t bytes) noexcept { return Crc32cExtend(0, data, bytes); }
inline uint32_t Crc32c(std::string_view data) noexcept { return Crc32cExtend(0, data.data(), data.size()); }

// The table version, whatever the processor: for tests, which compare the two.
uint32_t Crc32cExtendPortable(uint32_t crc, const void* data, size_t bytes) noexcept;

}  // namespace foreshock
