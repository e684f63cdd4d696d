// RocksDB's log has a checksum over every byte. Debian builds RocksDB for processors without the instruction
// for it; where the linker can (--wrap, see CMakeLists.txt), calls go to base/crc32c, which asks the
// processor at run time. The sums are the same. Where RocksDB is a shared library nothing changes.
#include "rocksdb_crc32c.h"

#include "foreshock/base/crc32c.h"

extern "C" uint32_t __wrap__ZN7rocksdb6crc32c6ExtendEjPKcm(uint32_t crc, const char* data, size_t bytes) {
  return foreshock::Crc32cExtend(crc, data, bytes);
}

namespace foreshock::store {

void LinkChecksum() {}

}  // namespace foreshock::store
