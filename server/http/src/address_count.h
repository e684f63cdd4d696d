// How many connections of one address are served at a time. Private.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace foreshock::http {

// Thread-safe.
class AddressCount {
 public:
  explicit AddressCount(size_t most) : most_(most) {}  // 0: any number

  // False when the address has its most; else Leave must follow.
  bool Enter(const std::string& address);
  void Leave(const std::string& address);

 private:
  const size_t most_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, size_t> open_;
};

}  // namespace foreshock::http
