// The checksum that RocksDB computes is the one that its files have, whoever computes it.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "foreshock/base/crc32c.h"
#include "rocksdb_crc32c.h"

namespace rocksdb::crc32c {
uint32_t Extend(uint32_t crc, const char* data, size_t bytes);  // in no public header
}

namespace foreshock::store {
namespace {

TEST(RocksdbCrc32c, IsThatOfTheFormat) {
  LinkChecksum();
  EXPECT_EQ(rocksdb::crc32c::Extend(0, "123456789", 9), 0xE3069283u);
  std::mt19937_64 random(3);
  std::string data(5'000, '\0');
  for (char& c : data) c = static_cast<char>(random());
  for (const size_t cut : {0, 1, 7, 8, 9, 100, 4'999, 5'000}) {
    const uint32_t begun = rocksdb::crc32c::Extend(0, data.data(), cut);
    EXPECT_EQ(rocksdb::crc32c::Extend(begun, data.data() + cut, data.size() - cut),
              Crc32cExtendPortable(0, data.data(), data.size()))
        << cut;
  }
}

}  // namespace
}  // namespace foreshock::store
