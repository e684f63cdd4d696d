// A run as the entries of an archive.
//
// Works beside readers, writers and the sealer. It gives the records that were durable in one moment near its
// beginning, and none that came later: whoever imports tells a process that goes on which of its records the
// archive has, before it has read them. Each rank is read in short looks, so that a slow taker holds nothing
// back, no look is open while he takes: its sealed groups and kept frames one after the other, as often as
// new ones have come meanwhile; then some of its open frames, and again. A frame may come twice, open and
// sealed meanwhile: whoever imports knows it by its number.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/archive/entry.h"
#include "layout.h"
#include "registry.h"

namespace foreshock::store {

class RunExport {
 public:
  using Each = std::function<Status(archive::Entry entry)>;
  // All must outlive the export.
  RunExport(const Database* db, Layouts* layouts, int64_t now_unix_ns, const Each& each)
      : db_(*db), layouts_(*layouts), now_unix_ns_(now_unix_ns), each_(each) {}

  // First, before it is known which records are given: what was judged of them is not ahead of the archive.
  Status Notes(const std::string& run);
  // `run` in the moment of `view`.
  Status Go(RunEntry run, Database::View view);

 private:
  // What was given of a rank's frames already.
  struct Given {
    // As they were when last looked at: new ones come with every seal, and so do kept frames.
    std::shared_ptr<const SealedGroups> groups;
    uint32_t last_seal = 0;
    std::set<std::string> kept;  // keys
    std::string open;            // up to this key
  };
  // Entries of a table, in memory.
  struct Page {
    std::vector<std::pair<std::string, std::string>> entries;
    bool more = false;
  };
  // Those behind `after`, some MiB of them. Parts of a frame go together: sealed before the next look, they
  // would be one, by the number of its first part, which was given then.
  static Result<Page> Read(const Database::View& view, const std::string& prefix, const std::string& after);
  // All, a page at a time. What comes meanwhile may be among them.
  Status EachEntry(const std::string& prefix,
                   const std::function<Status(std::string_view key, std::string value)>& each) const;
  Status SetApartUnfinished(const Database::View& view, AttemptEntry* attempt, uint32_t rank);
  Status FindMarks(const Database::View& view, uint32_t attempt);
  Status Frames(const FramesOf& source);
  Result<bool> SomeFrames(const FramesOf& source, Given* given);
  Status Group(const FramesOf& source, const SealedGroup& group);
  Status Open(Page page, Given* given);
  Status Counters(const AttemptEntry& attempt, uint32_t rank);
  Status Events(const AttemptEntry& attempt);
  Status Quarantine(const AttemptEntry& attempt, uint32_t rank);
  Status Marks(const AttemptEntry& attempt);
  Status GiveFrame(const archive::Place& place, std::string payload);
  // Whether the record was durable in the moment that the archive is of.
  bool Has(const SourceId& source, uint64_t seq) const;

  RunEntry run_;
  const Database& db_;
  Layouts& layouts_;
  const int64_t now_unix_ns_;
  const Each& each_;
  std::map<uint32_t, std::vector<int64_t>> marks_;  // by attempt: steps that waited to be merged
  std::map<SourceId, uint64_t> given_up_;           // first numbers of frames whose last parts will not come
};

}  // namespace foreshock::store
