#include "foreshock/base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace foreshock {
namespace {

// RFC 3720, appendix B.4, and the customary check value of the nine digits.
TEST(Crc32c, KnownVectors) {
  std::string ascending(32, '\0');
  std::string descending(32, '\0');
  for (int i = 0; i < 32; ++i) {
    ascending[i] = static_cast<char>(i);
    descending[i] = static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);

  const unsigned char scsi_read[48] = {0x01, 0xC0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0,    0, 0, 0, 0,
                                       0x14, 0,    0, 0, 0, 0, 4, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                                       0x28, 0,    0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  EXPECT_EQ(Crc32c(scsi_read, sizeof scsi_read), 0xD9963A56u);
}

TEST(Crc32c, PiecesAndVersionsAgree) {
  std::mt19937_64 random(7);
  std::string data(1000, '\0');
  for (char& c : data) c = static_cast<char>(random());
  for (size_t start = 0; start < 9; ++start) {
    for (size_t length : {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 500}) {
      const std::string_view piece = std::string_view(data).substr(start, length);
      const uint32_t whole = Crc32c(piece);
      EXPECT_EQ(whole, Crc32cExtendPortable(0, piece.data(), piece.size())) << start << " " << length;
      const size_t cut = length / 3;
      EXPECT_EQ(whole, Crc32cExtend(Crc32c(piece.substr(0, cut)), piece.substr(cut)))
          << start << " " << length;
    }
  }
}

TEST(Crc32c, EveryBitCounts) {
  std::string data(64, 'x');
  const uint32_t before = Crc32c(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(data), before) << bit;
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace foreshock
