#include "foreshock/server/merge/merge_frames.h"

#include <algorithm>
#include <map>
#include <utility>

#include "head_merge.h"
#include "partial.h"
#include "row.h"

namespace foreshock::merge {
namespace {

struct HeadEntries {
  std::vector<Entry> present;
  size_t listed = 0;  // series that name the head, also as missing
};
using Heads = std::map<std::optional<uint32_t>, HeadEntries>;  // no number: a scalar
using RowKey = std::pair<std::optional<uint32_t>, uint16_t>;   // layer, signal

struct Sources {
  std::map<RowKey, std::vector<std::pair<uint32_t, const wire::Series*>>> series;  // by rank
};

Sources Collect(const std::vector<RankFrame>& frames) {
  Sources sources;
  for (const RankFrame& item : frames) {
    for (const wire::Series& series : item.frame.series) {
      sources.series[{series.layer, series.signal}].emplace_back(item.rank, &series);
    }
  }
  return sources;
}

// All heads that some rank lists, with the entries that are present.
Heads EntriesByHead(const std::vector<std::pair<uint32_t, const wire::Series*>>& sources) {
  Heads heads;
  for (const auto& [rank, series] : sources) {
    for (size_t i = 0; i < series->count(); ++i) {
      std::optional<uint32_t> head;
      if (!series->heads.empty()) head = series->heads[i];
      HeadEntries& entries = heads[head];
      ++entries.listed;
      if (series->has(i)) entries.present.push_back({rank, series, i});
    }
  }
  return heads;
}

bool AnyRotated(const std::vector<Entry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.rotated(); });
}

bool IsPartial(const std::vector<std::pair<uint32_t, const wire::Series*>>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const auto& source) { return (source.second->flags & wire::kPartial) != 0; });
}

// A single sender's series stays as it is.
void MergeRow(const RowKey& key, const std::vector<std::pair<uint32_t, const wire::Series*>>& sources,
              wire::Frame* out) {
  if (sources.size() == 1) {
    out->series.push_back(*sources.front().second);
    return;
  }
  const SignalInfo* known = FindSignal(key.second);
  const SignalInfo info =
      known != nullptr
          ? *known
          : SignalInfo{key.second, {}, {}, SignalScope::kQueryHead, SignalMerge::kReplicated, {}, {}};
  Row row(key.second, key.first);
  for (const auto& [rank, series] : sources) row.AddFlags(series->flags);
  for (const auto& [head, entries] : EntriesByHead(sources)) {
    std::optional<MergedHead> merged;
    if (!entries.present.empty()) merged = MergeHead(info, entries.present);
    row.Add(head, merged, AnyRotated(entries.present));
  }
  out->series.push_back(row.Take());
}

void MergePartialRow(const RowKey& key, const std::vector<std::pair<uint32_t, const wire::Series*>>& sources,
                     bool complete, wire::Frame* out) {
  Row projection(key.second, key.first), signs(SignMeanOf(key.second), key.first),
      drift(DriftRatioOf(key.second), key.first);
  for (const auto& [rank, series] : sources) {
    for (Row* row : {&projection, &signs, &drift}) row->AddFlags(series->flags);
  }
  for (const auto& [head, entries] : EntriesByHead(sources)) {
    std::optional<std::vector<double>> steps;
    // A shard that is missing leaves a hole in the sum.
    const bool all = complete && entries.present.size() == entries.listed;
    const std::vector<Entry> whole = WholeOf(entries.present, all);
    if (!whole.empty()) steps = SumShards(whole);
    const bool rotated = AnyRotated(entries.present);
    std::optional<Window> window;
    if (steps) window = Summarise(*steps);
    projection.Add(head, window ? std::optional(window->projection) : std::nullopt, rotated);
    signs.Add(head, window ? window->sign_mean : std::nullopt, rotated);
    drift.Add(head, window ? std::optional(window->drift_ratio) : std::nullopt, rotated);
  }
  out->series.push_back(projection.Take());
  if (SignMeanOf(key.second) == 0) return;
  out->series.push_back(signs.Take());
  out->series.push_back(drift.Take());
}

}  // namespace

wire::Frame MergeFrames(std::vector<RankFrame> frames, bool complete) {
  std::stable_sort(frames.begin(), frames.end(),
                   [](const RankFrame& a, const RankFrame& b) { return a.rank < b.rank; });
  wire::Frame out;
  out.step = frames.front().frame.step;
  out.window_from = frames.front().frame.window_from;
  for (const RankFrame& item : frames) {
    out.skipped = out.skipped || item.frame.skipped;
    out.time_unix_ns = std::max(out.time_unix_ns, item.frame.time_unix_ns);
  }
  for (const auto& [key, sources] : Collect(frames).series) {
    if (IsPartial(sources)) {
      MergePartialRow(key, sources, complete, &out);
    } else {
      MergeRow(key, sources, &out);
    }
  }
  return out;
}

std::optional<uint32_t> ExtremeRank(const std::vector<RankFrame>& frames, uint16_t signal,
                                    std::optional<uint32_t> layer, uint32_t head) {
  const SignalInfo* info = FindSignal(signal);
  if (info == nullptr || (info->merge != SignalMerge::kMax && info->merge != SignalMerge::kMin)) {
    return std::nullopt;
  }
  const Sources sources = Collect(frames);
  const auto row = sources.series.find({layer, signal});
  if (row == sources.series.end()) return std::nullopt;
  const Heads heads = EntriesByHead(row->second);
  auto entries = heads.find(head);
  if (info->scope == SignalScope::kScalar) entries = heads.find(std::nullopt);
  if (entries == heads.end() || entries->second.present.empty()) return std::nullopt;
  std::vector<Entry> by_rank = entries->second.present;
  std::stable_sort(by_rank.begin(), by_rank.end(),
                   [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
  return ExtremeEntry(by_rank, info->merge == SignalMerge::kMax).rank;
}

}  // namespace foreshock::merge
