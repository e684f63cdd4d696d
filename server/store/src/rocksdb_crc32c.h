// Makes the linker take the checksum that RocksDB is to use (rocksdb_crc32c.cc).
#pragma once

namespace foreshock::store {

// Does nothing, but must be called: an archive's member that nobody names is left out, and it would be looked
// for too late.
void LinkChecksum();

}  // namespace foreshock::store
