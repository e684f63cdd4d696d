#include "foreshock/archive/bounds.h"

#include <string>
#include <variant>

namespace foreshock::archive {
namespace {

Status CountUp(const std::string& what, size_t most, size_t* count) {
  if (++*count <= most) return OkStatus();
  return Status(Code::kResourceExhausted,
                what + ": more than " + std::to_string(most) + ", which an archive may name");
}

}  // namespace

Status Bounds::Take(const Entry& entry) {
  if (std::holds_alternative<Attempt>(entry)) return CountUp("attempts", kMostAttempts, &attempts_);
  if (std::holds_alternative<Unmerged>(entry))
    return CountUp("steps to be merged", kMostUnmerged, &unmerged_);
  const auto* process = std::get_if<Process>(&entry);
  if (process == nullptr) return OkStatus();
  FS_RETURN_IF_ERROR(CountUp("processes", kMostProcesses, &processes_));
  const Place& place = process->place;
  return CountUp(
      "processes of attempt " + std::to_string(place.attempt) + " rank " + std::to_string(place.rank),
      kMostProcessesOfRank, &of_rank_[{place.attempt, place.rank}]);
}

}  // namespace foreshock::archive
