// The spool fuzzer's input: records of four files, each u8 file, u8 type, u16 length (little endian),
// payload. They are framed with right checksums, so that what lies behind the checksums is reached. A file of
// 4 and more damages file % 4: the payload's bytes are laid over it by exclusive or, from the offset that its
// first two bytes name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "foreshock/base/append_log.h"

namespace foreshock::fuzz {

struct SpoolFile {
  const char* name;
  uint32_t kind;
};
inline constexpr std::array<SpoolFile, 4> kSpoolFiles = {{{"segment-0000000001", LogKind("SPOL")},
                                                          {"segment-0000000001.index", LogKind("SIDX")},
                                                          {"acks", LogKind("SACK")},
                                                          {"segment-0000000002", LogKind("SPOL")}}};

inline void AppendToScript(uint8_t file, uint8_t type, std::string_view payload, std::string* script) {
  script->push_back(static_cast<char>(file));
  script->push_back(static_cast<char>(type));
  script->push_back(static_cast<char>(payload.size() & 0xFF));
  script->push_back(static_cast<char>(payload.size() >> 8));
  script->append(payload);
}

}  // namespace foreshock::fuzz
