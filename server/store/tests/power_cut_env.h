// A RocksDB environment over base's PowerCutFileSystem: what RocksDB did not sync is gone after a power cut.
#pragma once

#include <memory>

#include "foreshock/base/power_cut_file_system.h"

namespace rocksdb {
class Env;
}

namespace foreshock::store::test {

// One life of a process. Its power goes with Die(): a RocksDB that lives on in the test (it has threads) can
// neither open nor change anything any more, as a dead process cannot.
class PowerCutEnv {
 public:
  // `files` is not owned and must outlive this.
  explicit PowerCutEnv(PowerCutFileSystem& files);
  ~PowerCutEnv();
  rocksdb::Env* get() { return env_.get(); }
  void Die();

 private:
  struct Life;
  std::shared_ptr<Life> life_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace foreshock::store::test
