#include "rank_apart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <vector>

#include "foreshock/base/catalogue.h"

namespace foreshock::alert {
namespace {

constexpr double kTimesFarther = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Own {
  uint32_t rank = 0;
  double value = 0;
  double away = 0;  // from the usual; infinite when the value is not finite
};

// The signal that an evidence speaks of: "logit_max", "wq_sigma1 growth".
const SignalInfo* SignalOf(const detect::Evidence& evidence) {
  return FindSignal(std::string_view(evidence.name).substr(0, evidence.name.find(' ')));
}

const detect::Evidence* FirstSignal(const Alert& alert) {
  for (const detect::Evidence& evidence : alert.evidence) {
    if (SignalOf(evidence) != nullptr) return &evidence;
  }
  return nullptr;
}

bool IsAttention(const SignalInfo& info) { return info.id >= kLogitMax; }

// The rank's display value; nullopt when it has none of this head. `measures`: it has the signal of the
// layer.
std::optional<double> ValueOf(const wire::Frame& frame, const SignalInfo& info, const Alert& alert,
                              bool* measures) {
  const bool scalar = info.scope == SignalScope::kScalar;
  const auto layer = scalar ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(alert.layer));
  const wire::Series* series = frame.Find(info.id, layer);
  if (series == nullptr || series->values_per_head != 1 || series->values.size() != series->count())
    return std::nullopt;
  *measures = true;
  for (size_t i = 0; i < series->count(); ++i) {
    const bool here = scalar || series->heads[i] == static_cast<uint32_t>(alert.head);
    if (here && series->has(i)) return DisplayValue(info, series->values[i], series->weight(i));
  }
  return std::nullopt;
}

// Nearest to the usual first.
std::vector<Own> ValuesOfRanks(const store::Store& store, const Alert& alert, const SignalInfo& info,
                               double usual, size_t* measuring) {
  std::vector<Own> found;
  const auto attempt = store.GetAttempt(alert.run, alert.attempt);
  if (!attempt.ok() || attempt->world_size < 2) return found;
  std::set<uint32_t> ranks;
  for (const store::SourceInfo& source : attempt->sources) ranks.insert(source.id.rank);
  if (ranks.size() > kMostRanks) return found;
  for (const uint32_t rank : ranks) {
    store::StepQuery query{
        .run = alert.run, .attempt = alert.attempt, .step = alert.fired_step, .rank = rank};
    query.signals = {info.id};
    const auto stored = store.ReadStep(query);
    if (!stored.ok() || stored->frame.step < alert.first_evidence_step) continue;
    bool measures = false;
    const auto value = ValueOf(stored->frame, info, alert, &measures);
    *measuring += measures ? 1 : 0;
    if (!value) continue;
    found.push_back({rank, *value, std::isfinite(*value) ? std::abs(*value - usual) : kInfinity});
  }
  std::sort(found.begin(), found.end(), [](const Own& a, const Own& b) { return a.away < b.away; });
  return found;
}

}  // namespace

std::optional<RankApart> FindRankApart(const store::Store& store, const Alert& alert) {
  const detect::Evidence* evidence = FirstSignal(alert);
  if (evidence == nullptr || alert.fired_step < 0) return std::nullopt;
  const SignalInfo& info = *SignalOf(*evidence);
  const bool of_head = info.scope == SignalScope::kQueryHead && alert.layer >= 0 && alert.head >= 0;
  if (!of_head && info.scope != SignalScope::kScalar) return std::nullopt;
  const double usual = std::isfinite(evidence->baseline) ? evidence->baseline : 0;
  size_t measuring = 0;
  const std::vector<Own> ranks = ValuesOfRanks(store, alert, info, usual, &measuring);
  if (ranks.empty()) return std::nullopt;
  const Own& first = ranks.back();
  if (ranks.size() == 1) {
    if (!of_head || !IsAttention(info) || measuring < 2) return std::nullopt;
    return RankApart{first.rank, std::string(info.name), first.value, std::nan("")};
  }
  const Own& second = ranks[ranks.size() - 2];
  const bool apart = first.away > kTimesFarther * second.away && std::isfinite(second.away);
  if (!apart) return std::nullopt;
  return RankApart{first.rank, std::string(info.name), first.value, second.value};
}

void TellRank(const RankApart& apart, Alert* alert) {
  char text[160];
  if (std::isnan(apart.elsewhere)) {
    std::snprintf(text, sizeof(text), " (rank %u has this head)", apart.rank);
  } else {
    std::snprintf(text, sizeof(text), " (rank %u alone: %s %.4g, elsewhere %.4g at most)", apart.rank,
                  apart.signal.c_str(), apart.value, apart.elsewhere);
  }
  alert->summary += text;
  alert->evidence.push_back(
      {apart.signal + " of rank " + std::to_string(apart.rank), apart.value, apart.elsewhere});
}

}  // namespace foreshock::alert
