#include "registry.h"

#include <algorithm>

namespace foreshock::store {

void AttemptEntry::Enter(SourceInfo process) {
  world_size_ = std::max(world_size_, process.hello->world_size);
  sources[{process.id.rank, process.id.incarnation}] = std::move(process);
}

uint32_t AttemptEntry::next_incarnation() const {
  uint32_t next = 1;
  for (const auto& [key, info] : sources) next = std::max(next, key.second + 1);
  return next;
}

const SourceInfo* AttemptEntry::FindIncarnation(uint32_t rank, uint64_t incarnation) const {
  for (auto it = sources.lower_bound({rank, 0}); it != sources.end() && it->first.first == rank; ++it) {
    if (it->second.hello->incarnation == incarnation) return &it->second;
  }
  return nullptr;
}

const AttemptEntry* RunEntry::FindAttempt(std::string_view attempt) const {
  if (attempts.empty()) return nullptr;
  if (attempt.empty()) return &attempts.rbegin()->second;
  for (const auto& [key, entry] : attempts) {
    if (entry.name == attempt) return &entry;
  }
  return nullptr;
}

const RunEntry* Registry::FindRun(std::string_view name) const {
  for (const auto& [number, run] : runs) {
    if (run.name == name) return &run;
  }
  return nullptr;
}

RunEntry* Registry::FindRun(std::string_view name) {
  return const_cast<RunEntry*>(std::as_const(*this).FindRun(name));
}

const AttemptEntry* Registry::FindAttempt(uint32_t run, uint32_t attempt) const {
  const auto r = runs.find(run);
  if (r == runs.end()) return nullptr;
  const auto a = r->second.attempts.find(attempt);
  return a == r->second.attempts.end() ? nullptr : &a->second;
}

AttemptEntry* Registry::FindAttempt(uint32_t run, uint32_t attempt) {
  return const_cast<AttemptEntry*>(std::as_const(*this).FindAttempt(run, attempt));
}

const SourceInfo* Registry::FindSource(const SourceId& id) const {
  const AttemptEntry* attempt = FindAttempt(id.run, id.attempt);
  if (attempt == nullptr) return nullptr;
  const auto it = attempt->sources.find({id.rank, id.incarnation});
  return it == attempt->sources.end() ? nullptr : &it->second;
}

SourceInfo* Registry::FindSource(const SourceId& id) {
  return const_cast<SourceInfo*>(std::as_const(*this).FindSource(id));
}

Result<const RunEntry*> Registry::Run(const std::string& run) const {
  const RunEntry* entry = FindRun(run);
  if (entry == nullptr) return Status(Code::kNotFound, "run: no run named '" + run + "'");
  return entry;
}

Result<std::pair<const RunEntry*, const AttemptEntry*>> Registry::Attempt(const std::string& run,
                                                                          const std::string& attempt) const {
  FS_ASSIGN_OR_RETURN(const RunEntry* entry, Run(run));
  const AttemptEntry* found = entry->FindAttempt(attempt);
  if (found == nullptr) {
    return Status(Code::kNotFound, "attempt: run '" + run + "' has no attempt '" + attempt + "'");
  }
  return std::make_pair(entry, found);
}

AttemptInfo ToInfo(const RunEntry& run, const AttemptEntry& attempt) {
  AttemptInfo info;
  info.run = run.name;
  info.attempt = attempt.name;
  info.number = attempt.number;
  info.source = attempt.source;
  info.world_size = attempt.world_size();
  info.first_unix_ns = info.last_unix_ns = attempt.first_unix_ns;
  for (const auto& [key, source] : attempt.sources) {
    info.sources.push_back(source);
    info.last_unix_ns = std::max(info.last_unix_ns, source.last_unix_ns);
    if (!source.first_step) continue;
    info.first_step = std::min(info.first_step.value_or(*source.first_step), *source.first_step);
    info.last_step = std::max(info.last_step.value_or(*source.last_step), *source.last_step);
  }
  return info;
}

RunInfo ToInfo(const RunEntry& run) {
  RunInfo info;
  info.run = run.name;
  info.first_unix_ns = info.last_unix_ns = run.first_unix_ns;
  for (const auto& [number, attempt] : run.attempts) {
    info.attempts.push_back(ToInfo(run, attempt));
    info.last_unix_ns = std::max(info.last_unix_ns, info.attempts.back().last_unix_ns);
  }
  return info;
}

}  // namespace foreshock::store
