// How many new runs one caller may begin an hour: run names cost the server memory and disk for good.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::ingest {

// Thread-safe.
class RunQuota {
 public:
  explicit RunQuota(size_t most_per_hour) : most_(most_per_hour) {}

  // Counts one, in fixed hours that begin with a caller's first. kResourceExhausted when the hour's are used
  // up.
  Status Take(const std::string& caller, int64_t now_ns);

 private:
  struct Hour {
    int64_t begun_ns = 0;
    size_t runs = 0;
  };
  void ForgetOld(int64_t now_ns);

  const size_t most_;
  std::mutex mutex_;  // guards hours_
  std::map<std::string, Hour> hours_;
};

}  // namespace foreshock::ingest
