// A run as the entries of an archive.
//
// Works beside readers, writers and the sealer. Each rank is read in short looks, so that a slow taker holds
// nothing back: its sealed groups and kept frames one after the other, as often as new ones have come
// meanwhile; then, in one look, the open frames and what has been counted of the rank's processes. So every
// frame up to the counted durable number is in the archive. A frame may come twice, open and sealed
// meanwhile: whoever imports knows it by its number.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "foreshock/archive/entry.h"
#include "layout.h"
#include "registry.h"

namespace foreshock::store {

class RunExport {
 public:
  using Each = std::function<Status(archive::Entry entry)>;
  // `run` as it was when the export began. All must outlive the export.
  RunExport(const RunEntry& run, const Database* db, Layouts* layouts, const Each& each)
      : run_(run), db_(*db), layouts_(*layouts), each_(each) {}

  Status Go();

 private:
  // What was given of a rank's closed frames already.
  struct Given {
    uint32_t last_seal = 0;
    std::set<std::string> kept;  // keys
  };
  Status Notes();
  Status Frames(const FramesOf& source);
  Result<bool> Closed(const FramesOf& source, Given* given);
  Status Group(const FramesOf& source, const SealedGroup& group);
  Status Open(const FramesOf& source, const Database::View& view);
  Status Counters(const FramesOf& source, const Database::View& view);
  Status Events(const AttemptEntry& attempt);
  Status Quarantine(const AttemptEntry& attempt, uint32_t rank);
  Status Marks(const AttemptEntry& attempt);
  Status GiveFrame(const archive::Place& place, std::string payload);
  bool Knows(const SourceId& source) const;
  // Whether a record came before its process was counted.
  bool Counted(const SourceId& source, uint64_t seq) const;

  const RunEntry& run_;
  const Database& db_;
  Layouts& layouts_;
  const Each& each_;
  std::map<SourceId, uint64_t> durable_;  // as counted in the archive
};

}  // namespace foreshock::store
