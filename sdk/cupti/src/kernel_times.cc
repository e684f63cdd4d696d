#include "kernel_times.h"

#include <cstdio>

#include "kernel_names.h"

namespace foreshock::sdk {
namespace {

constexpr std::string_view kOwnFamily = "foreshock";
constexpr size_t kMaxKinds = 65536;  // names that are remembered; a compiler makes new ones all the time

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string Seconds(uint64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9f", static_cast<double>(nanos) * 1e-9);
  return text;
}

}  // namespace

const KernelTimes::Kind& KernelTimes::KindOf(const char* name) {
  if (const auto known = kinds_.find(name); known != kinds_.end()) return known->second;
  if (kinds_.size() >= kMaxKinds) kinds_.clear();
  Kind kind;
  kind.family = KernelFamily(name);
  kind.sum = &families_[kind.family];
  kind.own = kind.family == kOwnFamily;
  if (kind.family.starts_with("attention")) kind.attention = &attention_[name];
  return kinds_[name] = kind;
}

void KernelTimes::Add(const char* name, uint64_t nanos) {
  std::lock_guard lock(mutex_);
  const Kind& kind = KindOf(name != nullptr ? name : "");
  for (Sum* sum : {&all_, kind.sum, kind.attention}) {
    if (sum == nullptr) continue;
    ++sum->calls;
    sum->nanos += nanos;
  }
  if (kind.own) own_nanos_.fetch_add(nanos, std::memory_order_relaxed);
  all_nanos_.fetch_add(nanos, std::memory_order_relaxed);
}

void KernelTimes::AddLost(uint64_t records) {
  std::lock_guard lock(mutex_);
  lost_ += records;
}

double KernelTimes::OwnShare() const {
  const uint64_t all = all_nanos();
  return all == 0 ? 0 : static_cast<double>(own_nanos()) / static_cast<double>(all);
}

std::string KernelTimes::Json(const std::string& reason) const {
  const double share = OwnShare();
  std::lock_guard lock(mutex_);
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", share);
  std::string out = "{\"reason\":" + Quoted(reason) + ",\"kernels\":" + std::to_string(all_.calls) +
                    ",\"lost_records\":" + std::to_string(lost_) +
                    ",\"device_seconds\":" + Seconds(all_.nanos) + ",\"own_share\":" + text +
                    ",\"families\":{";
  bool first = true;
  for (const auto& [name, sum] : families_) {
    out += (first ? "" : ",") + Quoted(name) + ":{\"calls\":" + std::to_string(sum.calls) +
           ",\"seconds\":" + Seconds(sum.nanos) + "}";
    first = false;
  }
  out += "},\"attention\":[";
  first = true;
  for (const auto& [name, sum] : attention_) {
    out += std::string(first ? "" : ",") + "{\"kernel\":" + Quoted(name) +
           ",\"type\":" + Quoted(KernelType(name)) + ",\"calls\":" + std::to_string(sum.calls) +
           ",\"seconds\":" + Seconds(sum.nanos) + "}";
    first = false;
  }
  return out + "]}\n";
}

}  // namespace foreshock::sdk
