// Refusals that may come thousands of times a second, told at most once a minute by reason: how many, and of
// whom most. The first is told at once, what comes within the minute after it together at its end.
//
// For one thread, or under its owner's lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreshock {

class Refusals {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Report {
    std::string_view reason;
    uint64_t refused = 0;  // since the last report of this reason
    uint64_t in_all = 0;   // since the start, by this reason
    std::string most_of;   // whom most of `refused` were of
    uint64_t of_these = 0;
    size_t kinds = 0;  // of how many they were; counted up to kMostNames
  };

  static constexpr std::chrono::seconds kBetween{60};
  // The first ones of a minute and reason are remembered; others count without a name, and are not `most_of`.
  static constexpr size_t kMostNames = 1024;

  // `reason` is constant text.
  void Note(std::string_view reason, const std::string& whom);
  // What is to be told now.
  std::vector<Report> Due(SteadyTime now);
  // Until Due has something to tell if nothing more comes, as poll takes it; -1: nothing waits.
  int WaitMs(SteadyTime now) const;

 private:
  struct Reason {
    std::optional<SteadyTime> told_at;
    uint64_t refused = 0, in_all = 0;
    std::map<std::string, uint64_t> by_name;
  };
  std::map<std::string_view, Reason> reasons_;
};

}  // namespace foreshock
