// Registry: what runs, attempts and sources there are, in memory, and how each is written down.
//
// Not thread-safe: StoreImpl guards it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/store/types.h"

namespace foreshock::store {

struct AttemptEntry {
  std::string name;
  uint32_t number = 0;
  wire::AttemptSource source = wire::AttemptSource::kUnspecified;
  int64_t first_unix_ns = 0;
  // By rank and incarnation. Its members may be changed but for their Hello: entered by Enter.
  std::map<std::pair<uint32_t, uint32_t>, SourceInfo> sources;

  // A new process, or one with a new Hello of the same world.
  void Enter(SourceInfo process);
  // The largest of its processes'; asked for every frame.
  uint32_t world_size() const { return world_size_; }
  uint32_t next_incarnation() const;
  const SourceInfo* FindIncarnation(uint32_t rank, uint64_t incarnation) const;

 private:
  uint32_t world_size_ = 1;
};

struct RunEntry {
  uint32_t number = 0;
  std::string name;
  int64_t first_unix_ns = 0;
  std::map<uint32_t, AttemptEntry> attempts;  // by number

  const AttemptEntry* FindAttempt(std::string_view name) const;  // empty name: the newest
};

class Registry {
 public:
  std::map<uint32_t, RunEntry> runs;  // by number
  uint32_t next_run = 1;

  RunEntry* FindRun(std::string_view name);
  const RunEntry* FindRun(std::string_view name) const;
  SourceInfo* FindSource(const SourceId& id);
  const SourceInfo* FindSource(const SourceId& id) const;
  AttemptEntry* FindAttempt(uint32_t run, uint32_t attempt);
  const AttemptEntry* FindAttempt(uint32_t run, uint32_t attempt) const;
  // Errors name what was asked for: kNotFound.
  Result<const RunEntry*> Run(const std::string& run) const;
  Result<std::pair<const RunEntry*, const AttemptEntry*>> Attempt(const std::string& run,
                                                                  const std::string& attempt) const;
};

AttemptInfo ToInfo(const RunEntry& run, const AttemptEntry& attempt);
RunInfo ToInfo(const RunEntry& run);

// Values of the tables R, A, S and C (docs/formats/store.md): protobuf fields, so that more can be added.
std::string EncodeRun(const RunEntry& run);
std::string EncodeAttempt(const AttemptEntry& attempt);
std::string EncodeSource(const SourceInfo& source);
std::string EncodeCounters(const SourceInfo& source);
Status DecodeRun(std::string_view bytes, RunEntry* run);
Status DecodeAttempt(std::string_view bytes, AttemptEntry* attempt);
Status DecodeSource(std::string_view bytes, SourceInfo* source);
Status DecodeCounters(std::string_view bytes, SourceInfo* source);

}  // namespace foreshock::store
