#include "run_quota.h"

namespace foreshock::ingest {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr size_t kForgetAbove = 10'000;  // callers

}  // namespace

Status RunQuota::Take(const std::string& caller, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  if (hours_.size() > kForgetAbove) ForgetOld(now_ns);
  const auto [hour, fresh] = hours_.try_emplace(caller, Hour{now_ns, 0});
  if (now_ns - hour->second.begun_ns >= kHourNs) hour->second = {now_ns, 0};
  if (hour->second.runs >= most_) {
    return Status(Code::kResourceExhausted,
                  "run: " + caller + " has begun " + std::to_string(most_) +
                      " new runs within an hour, its limit (max_new_runs_per_hour)");
  }
  ++hour->second.runs;
  return OkStatus();
}

void RunQuota::ForgetOld(int64_t now_ns) {
  std::erase_if(hours_, [now_ns](const auto& entry) { return now_ns - entry.second.begun_ns >= kHourNs; });
}

}  // namespace foreshock::ingest
