#include "attempts.h"

#include <algorithm>
#include <cstdio>

namespace foreshock::ingest {
namespace {

bool IsMinted(const store::AttemptInfo& attempt) {
  return attempt.source == wire::AttemptSource::kMinted || attempt.source == wire::AttemptSource::kUnknown;
}

bool Knows(const store::AttemptInfo& attempt, const wire::Hello& hello) {
  return std::any_of(attempt.sources.begin(), attempt.sources.end(), [&](const store::SourceInfo& source) {
    return source.id.rank == hello.rank && source.hello->incarnation == hello.incarnation;
  });
}

bool LacksRank(const store::AttemptInfo& attempt, uint32_t rank) {
  return std::none_of(attempt.sources.begin(), attempt.sources.end(),
                      [&](const store::SourceInfo& source) { return source.id.rank == rank; });
}

}  // namespace

void MintAttempt(const store::Store& store, int64_t now_unix_ns, wire::Hello* hello) {
  hello->attempt_source =
      hello->world_size > 1 ? wire::AttemptSource::kUnknown : wire::AttemptSource::kMinted;
  const Result<store::RunInfo> run = store.GetRun(hello->run);
  if (run.ok()) {
    for (const store::AttemptInfo& attempt : run->attempts) {
      if (!IsMinted(attempt) || !Knows(attempt, *hello)) continue;
      hello->attempt = attempt.attempt;
      return;
    }
    const store::AttemptInfo& newest = run->newest();
    if (hello->world_size > 1 && IsMinted(newest) && newest.world_size == hello->world_size &&
        LacksRank(newest, hello->rank) && now_unix_ns - newest.first_unix_ns < kMintWindowNs) {
      hello->attempt = newest.attempt;
      return;
    }
  }
  char name[32];
  std::snprintf(name, sizeof name, "minted-%016llx", static_cast<unsigned long long>(hello->incarnation));
  hello->attempt = name;
}

}  // namespace foreshock::ingest
