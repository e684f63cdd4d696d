#include "foreshock/base/refusals.h"

#include <algorithm>

namespace foreshock {

void Refusals::Note(std::string_view reason, const std::string& whom) {
  Reason& noted = reasons_[reason];
  ++noted.refused;
  ++noted.in_all;
  const auto known = noted.by_name.find(whom);
  if (known != noted.by_name.end()) {
    ++known->second;
  } else if (noted.by_name.size() < kMostNames) {
    noted.by_name.emplace(whom, 1);
  }
}

std::vector<Refusals::Report> Refusals::Due(SteadyTime now) {
  std::vector<Report> due;
  for (auto& [text, reason] : reasons_) {
    const bool early = reason.told_at && now - *reason.told_at < kBetween;
    if (reason.refused == 0 || early) continue;
    const auto most = std::max_element(reason.by_name.begin(), reason.by_name.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    Report report;
    report.reason = text;
    report.refused = reason.refused;
    report.in_all = reason.in_all;
    report.most_of = most->first;
    report.of_these = most->second;
    report.kinds = reason.by_name.size();
    due.push_back(std::move(report));
    reason.told_at = now;
    reason.refused = 0;
    reason.by_name.clear();
  }
  return due;
}

int Refusals::WaitMs(SteadyTime now) const {
  int wait_ms = -1;
  for (const auto& [text, reason] : reasons_) {
    if (reason.refused == 0) continue;
    const auto left = reason.told_at ? *reason.told_at + kBetween - now : SteadyTime::duration(0);
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(left, SteadyTime::duration(0)));
    if (wait_ms < 0 || ms.count() < wait_ms) wait_ms = static_cast<int>(ms.count());
  }
  return wait_ms;
}

}  // namespace foreshock
