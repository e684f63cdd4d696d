// Makes frames out of the stored records of one step of one rank: joins parts, and of what came twice (a
// restarted process, a repeated step) gives the newest.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/store/types.h"
#include "keys.h"

namespace foreshock::store {

class FrameGroup {
 public:
  bool empty() const { return records_.empty(); }
  int64_t step() const { return records_.front().key.step; }
  void Add(const FrameKeyParts& key, std::string payload) {
    records_.push_back({key, std::move(payload), {}});
  }
  // One that need not be decoded.
  void Add(const FrameKeyParts& key, wire::Frame frame) { records_.push_back({key, {}, std::move(frame)}); }
  // The frames of the group, oldest incarnation first; just the newest unless `every_incarnation`. Empties
  // the group. kDataLoss when a record cannot be read.
  Result<std::vector<StoredFrame>> Take(bool every_incarnation);

 private:
  struct Record {
    FrameKeyParts key;
    std::string payload;
    std::optional<wire::Frame> frame;
  };
  std::vector<Record> records_;
};

}  // namespace foreshock::store
