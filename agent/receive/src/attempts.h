// Mints attempts for trainers that bring none.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "foreshock/base/clock.h"
#include "foreshock/wire/types.h"

namespace foreshock::agent {

// Ranks of one run that start together must share an attempt without talking to each other; a restarted rank
// must not join the attempt it was in before. So: a process joins the newest minted attempt of its run that
// some live process of this node holds and that has never had its rank; else it gets a new one. A process
// that connects again (same incarnation) gets the attempt it had.
//
// Thread-safe.
class Attempts {
 public:
  Attempts(Clock& clock, uint64_t seed);

  // Fills in attempt and attempt_source where the Hello has no attempt, and notes the process as live. Every
  // Assign needs one Release.
  void Assign(wire::Hello* hello);
  void Release(const wire::Hello& hello);
  // Tells what is known from before a restart of the agent.
  void Remember(const std::string& run, uint32_t rank, uint64_t incarnation, const std::string& attempt);

 private:
  struct Minted {
    std::string attempt;
    std::set<uint32_t> ranks;  // that were ever in it
    int live = 0;
  };
  struct Process {
    std::string run;
    uint32_t rank;
    uint64_t incarnation;
    auto operator<=>(const Process&) const = default;
  };

  Minted* Find(const std::string& run, const std::string& attempt);
  std::string Mint();

  std::mutex mutex_;  // guards everything below
  Clock& clock_;
  std::mt19937_64 random_;
  std::map<std::string, std::deque<Minted>> minted_;  // by run, oldest first
  std::map<Process, std::string> known_;
  std::deque<Process> known_order_;
};

}  // namespace foreshock::agent
