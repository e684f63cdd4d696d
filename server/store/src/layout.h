// What is sealed and what is open of each source of frames, in memory. A "source" here is a rank of an
// attempt, or its merged frames.
//
// Filled from the database when a source is first asked for. Thread-safe. Writers of frames and the sealer
// call it under the store's write mutex; readers at any time. A look fits the layout it comes with: both are
// taken in one moment.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "database.h"
#include "foreshock/server/store/types.h"
#include "group_list.h"

namespace foreshock::store {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct FramesOf {
  uint32_t run = 0, attempt = 0, rank = 0;
  auto operator<=>(const FramesOf&) const = default;
};

// Value of a kGroup entry.
std::string EncodeGroup(const SealedGroup& group);
bool DecodeGroup(std::string_view value, SealedGroup* group);

class Layouts {
 public:
  explicit Layouts(const Database* db) : db_(db) {}

  struct Look {
    Database::View view;
    std::shared_ptr<const SealedGroups> groups;
    bool kept = false;           // there are frames that stay as they came
    int64_t open_from = kNever;  // no open frame has a lower step
    uint64_t open_frames = 0;    // about
  };
  Result<Look> See(const FramesOf& source);

  // A frame of the step is about to be written. The number of open frames of its source, about.
  uint64_t WillAppend(const FramesOf& source, int64_t step);
  // A frame that stays as it came is about to be written.
  void WillKeep(const FramesOf& source);

  // Sealing of one source, from StartSealing to Sealed or to the next StartSealing. In between WillAppend
  // takes down the least step that came.
  struct Sealing {
    Look look;
    uint32_t next_seal = 1;
  };
  Result<Sealing> StartSealing(const FramesOf& source);
  // What came meanwhile; kNever: nothing.
  int64_t LeastSinceStart(const FramesOf& source) const;
  struct Change {
    std::vector<SealedGroup> groups;  // new ones
    bool kept = false;
    uint64_t frames = 0;         // that are open no longer
    int64_t open_from = kNever;  // of those that were there at the start
  };
  // Writes the batch and enters the change as one. kFailedPrecondition when the database was opened anew
  // since the look.
  Status Sealed(const FramesOf& source, uint64_t generation, Database* db, Batch& batch,
                const Change& change);

  struct Open {
    FramesOf source;
    uint64_t frames = 0;
  };
  std::vector<Open> ListOpen() const;
  void Forget(uint32_t run);
  // Of sources with so many open frames that they were not all counted: after a long time behind, counting
  // them would take as long as reading them. Now and then this looks whether fewer are left.
  void CountAgain();

 private:
  static constexpr uint64_t kCountAtMost = 512;
  struct Entry {
    std::shared_ptr<SealedGroups> groups = std::make_shared<SealedGroups>();
    bool kept = false;
    int64_t open_from = kNever;
    int64_t least_since_start = kNever;
    uint64_t open_frames = 0;
    bool counted = true;  // false: there are open_frames or more
    uint32_t next_seal = 1;
  };
  Status CountOpen(const FramesOf& source, const Database::View& view, Entry* entry) const;
  Result<Entry> Load(const FramesOf& source, const Database::View& view) const;

  const Database* const db_;
  mutable std::shared_mutex mutex_;  // guards what follows
  uint64_t generation_ = 0;          // of the database that entries_ came from
  std::map<FramesOf, Entry> entries_;
};

}  // namespace foreshock::store
