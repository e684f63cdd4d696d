// Looks through a store's folder, entry by entry: for `foreshock-store`, and for tests after a crash.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"

namespace foreshock::store {

struct CheckReport {
  uint64_t runs = 0;
  uint64_t open_frames = 0;  // parts count one each, as in the next
  uint64_t kept_frames = 0;
  uint64_t groups = 0;         // sealed
  uint64_t sealed_frames = 0;  // in them
  uint64_t columns = 0;
  uint64_t rollups = 0;  // blocks
  uint64_t faults = 0;
  std::vector<std::string> first_faults;  // at most 100, a line each
};

// Opens the folder as a server would (its log is replayed) and reads everything: every frame can be decoded,
// every sealed group is whole and says what its columns say, and nothing is left of groups or runs that are
// gone. Faults are in the report. An error: it could not be opened or read (kFailedPrecondition: a server has
// it). A folder that does not exist is kNotFound. Only folder and env of the options are used.
Result<CheckReport> CheckStore(const StoreOptions& options);

// One line for each entry, in the order of keys: what it is and how many bytes. Errors as above.
Status DumpStore(const StoreOptions& options, const std::function<void(const std::string& line)>& each);

}  // namespace foreshock::store
