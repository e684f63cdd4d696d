#include "attempts.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace foreshock::agent {
namespace {

constexpr size_t kMaxKnown = 65536;
constexpr size_t kMaxMintedPerRun = 64;

}  // namespace

Attempts::Attempts(Clock& clock, uint64_t seed)
    : clock_(clock), random_(seed != 0 ? seed : std::random_device{}()) {}

void Attempts::Assign(wire::Hello* hello) {
  std::lock_guard lock(mutex_);
  const Process process{hello->run, hello->rank, hello->incarnation};
  if (hello->attempt.empty()) {
    // Without a common id from a launcher, processes on other nodes cannot be told to belong to the same
    // attempt.
    const bool several_nodes = hello->local_world_size != 0 && hello->world_size > hello->local_world_size;
    hello->attempt_source = several_nodes ? wire::AttemptSource::kUnknown : wire::AttemptSource::kMinted;
    if (const auto known = known_.find(process); known != known_.end()) {
      hello->attempt = known->second;
    } else {
      std::deque<Minted>& minted = minted_[hello->run];
      const auto joinable = std::find_if(minted.rbegin(), minted.rend(), [&](const Minted& candidate) {
        return candidate.live > 0 && !candidate.ranks.contains(hello->rank);
      });
      if (joinable != minted.rend()) {
        hello->attempt = joinable->attempt;
      } else {
        minted.push_back({Mint(), {}, 0});
        hello->attempt = minted.back().attempt;
      }
    }
  }
  // Minted before this agent was restarted: others may still join it.
  if (hello->attempt_source == wire::AttemptSource::kMinted && Find(hello->run, hello->attempt) == nullptr) {
    minted_[hello->run].push_back({hello->attempt, {}, 0});
  }
  if (known_.try_emplace(process, hello->attempt).second) {
    known_order_.push_back(process);
    if (known_order_.size() > kMaxKnown) {
      known_.erase(known_order_.front());
      known_order_.pop_front();
    }
  }
  if (Minted* minted = Find(hello->run, hello->attempt)) {
    minted->ranks.insert(hello->rank);
    ++minted->live;
  }
}

void Attempts::Release(const wire::Hello& hello) {
  std::lock_guard lock(mutex_);
  Minted* minted = Find(hello.run, hello.attempt);
  if (minted == nullptr) return;
  --minted->live;
  std::deque<Minted>& of_run = minted_[hello.run];
  while (of_run.size() > kMaxMintedPerRun && of_run.front().live == 0) of_run.pop_front();
  if (std::all_of(of_run.begin(), of_run.end(), [](const Minted& m) { return m.live == 0; })) {
    minted_.erase(hello.run);
  }
}

void Attempts::Remember(const std::string& run, uint32_t rank, uint64_t incarnation,
                        const std::string& attempt) {
  std::lock_guard lock(mutex_);
  const Process process{run, rank, incarnation};
  if (known_.try_emplace(process, attempt).second) known_order_.push_back(process);
}

Attempts::Minted* Attempts::Find(const std::string& run, const std::string& attempt) {
  const auto of_run = minted_.find(run);
  if (of_run == minted_.end()) return nullptr;
  for (Minted& minted : of_run->second) {
    if (minted.attempt == attempt) return &minted;
  }
  return nullptr;
}

// "20261129T145800Z-1a2b3c4d": readable, sorts by time, unique enough for one run.
std::string Attempts::Mint() {
  const std::time_t seconds = clock_.WallNanos() / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  std::snprintf(text + length, sizeof text - length, "-%08x", static_cast<uint32_t>(random_()));
  return text;
}

}  // namespace foreshock::agent
