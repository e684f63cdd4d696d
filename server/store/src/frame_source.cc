#include "frame_source.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "group_reader.h"
#include "keys.h"

namespace foreshock::store {
namespace {

// Frames of groups that overlap, and raw ones, by step and incarnation. Of two the later written holds: open
// ones over sealed ones, a later seal over an earlier one, a sealed frame over one that was set aside when it
// was sealed.
class Newest {
 public:
  static constexpr uint64_t kOpen = uint64_t{1} << 40;
  static uint64_t Sealed(uint32_t seal) { return uint64_t{seal} << 1 | 1; }
  static uint64_t Kept(uint32_t seal) { return uint64_t{seal} << 1; }

  void Add(uint64_t order, StoredFrame frame) {
    const std::pair key(frame.frame.step, frame.incarnation);
    const auto it = frames_.find(key);
    if (it == frames_.end()) {
      frames_.emplace(key, std::pair(order, std::move(frame)));
    } else if (order > it->second.first) {
      it->second = {order, std::move(frame)};
    }
  }
  std::vector<StoredFrame> Take(bool every_incarnation) {
    std::vector<StoredFrame> out;
    for (auto it = frames_.begin(); it != frames_.end(); ++it) {
      const auto next = std::next(it);
      const bool newest = next == frames_.end() || next->first.first != it->first.first;
      if (newest || every_incarnation) out.push_back(std::move(it->second.second));
    }
    return out;
  }

 private:
  std::map<std::pair<int64_t, uint32_t>, std::pair<uint64_t, StoredFrame>> frames_;
};

}  // namespace

Result<std::vector<Span>> FrameSource::Spans(int64_t from, int64_t to) const {
  std::vector<Span> spans;
  const SealedGroups& groups = *look_.groups;
  auto it = std::lower_bound(groups.begin(), groups.end(), from,
                             [](const SealedGroup& g, int64_t step) { return g.last_so_far < step; });
  // Groups that overlap stand side by side. The first one of a span begins above all before it.
  while (it != groups.begin() && it != groups.end() && std::prev(it)->last_so_far >= it->first) --it;
  for (; it != groups.end() && it->first <= to; ++it) {
    if (spans.empty() || it->first > spans.back().last) spans.push_back({it->first, it->last, {}, false});
    spans.back().last = std::max(spans.back().last, it->last);
    spans.back().groups.push_back(*it);
  }
  while (it != groups.end() && !spans.empty() && it->first <= spans.back().last) {
    spans.back().last = std::max(spans.back().last, it->last);
    spans.back().groups.push_back(*it++);
  }
  std::erase_if(spans, [&](const Span& span) { return span.last < from; });
  FS_ASSIGN_OR_RETURN(const std::optional<int64_t> last, LastClosed());
  if (last) FS_RETURN_IF_ERROR(AddRaw(from, std::min(to, *last), &spans));
  return spans;
}

int64_t FrameSource::StepBack(int64_t to, size_t groups) const {
  const SealedGroups& list = *look_.groups;
  const auto end = std::upper_bound(list.begin(), list.end(), to,
                                    [](int64_t step, const SealedGroup& g) { return step < g.first; });
  const auto before = static_cast<size_t>(end - list.begin());
  return before <= groups ? kFirstStep : list[before - groups].first;
}

// Frames may be kept behind the last one that was sealed.
Result<std::optional<int64_t>> FrameSource::LastClosed() const {
  std::optional<int64_t> last;
  if (!look_.groups->empty()) last = look_.groups->back().last_so_far;
  if (!look_.kept) return last;
  FS_RETURN_IF_ERROR(
      view().ScanBackward(SourcePrefix(Table::kKept, source_.run, source_.attempt, source_.rank), {},
                          [&](std::string_view key, std::string_view) {
                            if (const auto parts = ParseKeptKey(key))
                              last = std::max(last.value_or(parts->step), parts->step);
                            return false;
                          }));
  return last;
}

// Steps of open and kept frames up to `end`.
Status FrameSource::AddRaw(int64_t from, int64_t end, std::vector<Span>* spans) const {
  std::vector<int64_t> steps;
  const auto collect = [&](Table table, int64_t begin, auto parse) {
    return view().Scan(SourcePrefix(table, source_.run, source_.attempt, source_.rank),
                       FramePrefix(table, source_.run, source_.attempt, source_.rank, begin),
                       [&](std::string_view key, std::string_view) {
                         const auto parts = parse(key);
                         if (!parts || parts->step > end) return false;
                         steps.push_back(parts->step);
                         return true;
                       });
  };
  if (look_.open_from <= end) {
    FS_RETURN_IF_ERROR(collect(Table::kFrame, std::max(from, look_.open_from), ParseFrameKey));
  }
  if (look_.kept) FS_RETURN_IF_ERROR(collect(Table::kKept, from, ParseKeptKey));
  if (steps.empty()) return OkStatus();
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::vector<Span> merged;
  size_t next = 0;
  const auto alone = [&](int64_t below) {
    for (; next < steps.size() && steps[next] < below; ++next) {
      merged.push_back({steps[next], steps[next], {}, true});
    }
  };
  for (Span& span : *spans) {
    alone(span.first);
    for (; next < steps.size() && steps[next] <= span.last; ++next) span.raw = true;
    merged.push_back(std::move(span));
  }
  alone(kNever);
  *spans = std::move(merged);
  return OkStatus();
}

Result<std::vector<StoredFrame>> FrameSource::Frames(const Span& span, int64_t from, int64_t to,
                                                     const SeriesFilter& filter,
                                                     bool every_incarnation) const {
  from = std::max(from, span.first);
  to = std::min(to, span.last);
  Newest newest;
  for (const SealedGroup& group : span.groups) {
    FS_ASSIGN_OR_RETURN(const GroupReader reader, GroupReader::Open(view(), source_, group));
    FS_ASSIGN_OR_RETURN(std::vector<wire::Frame> frames, reader.Frames(from, to, filter.signals));
    const bool alone = span.groups.size() == 1 && !span.raw;
    std::vector<StoredFrame> whole;
    for (wire::Frame& frame : frames) {
      FilterSeries(filter, &frame);
      StoredFrame stored{source_.rank, group.incarnation, std::move(frame)};
      if (alone) {
        whole.push_back(std::move(stored));
      } else {
        newest.Add(Newest::Sealed(group.seal), std::move(stored));
      }
    }
    if (alone) return whole;
  }
  // Records of one step, and of kept ones of one seal: what was together when they were set aside.
  std::map<std::tuple<int64_t, uint64_t>, FrameGroup> raw;
  const auto scan = [&](Table table, auto parse) {
    return view().Scan(SourcePrefix(table, source_.run, source_.attempt, source_.rank),
                       FramePrefix(table, source_.run, source_.attempt, source_.rank, from),
                       [&](std::string_view key, std::string_view value) {
                         const auto parts = parse(key);
                         if (!parts || parts->step > to) return false;
                         uint64_t order = Newest::kOpen;
                         if (table == Table::kKept) {
                           const auto kept = ParseKeptValue(value);
                           if (!kept) return true;
                           order = Newest::Kept(kept->seal);
                           value = kept->payload;
                         }
                         raw[{parts->step, order}].Add(*parts, FilterPayload(value, filter));
                         return true;
                       });
  };
  if (look_.open_from <= to) FS_RETURN_IF_ERROR(scan(Table::kFrame, ParseFrameKey));
  if (look_.kept) FS_RETURN_IF_ERROR(scan(Table::kKept, ParseKeptKey));
  for (auto& [key, group] : raw) {
    FS_ASSIGN_OR_RETURN(std::vector<StoredFrame> frames, group.Take(true));
    for (StoredFrame& frame : frames) newest.Add(std::get<1>(key), std::move(frame));
  }
  return newest.Take(every_incarnation);
}

// A rank's record never changes; a merged frame may, and what is known of it may be newer than this view.
void FrameSource::AddOpen(const FrameKeyParts& key, std::string_view value, const SeriesFilter& filter,
                          FrameGroup* group) const {
  const auto frame = source_.rank == kMerged ? nullptr : recent_->Find(key);
  if (frame == nullptr) return group->Add(key, FilterPayload(value, filter));
  wire::Frame wanted = FilteredCopy(*frame, filter);
  if (LacksHeads(wanted)) return group->Add(key, FilterPayload(value, filter));
  group->Add(key, std::move(wanted));
}

Status FrameSource::Tail(int64_t from, int64_t to, bool backward, const SeriesFilter& filter,
                         bool every_incarnation, const EachFrame& each, bool* stopped) const {
  *stopped = false;
  FS_ASSIGN_OR_RETURN(const std::optional<int64_t> last, LastClosed());
  if (last) {
    if (to <= *last) return OkStatus();
    from = std::max(from, *last + 1);
  }
  from = std::max(from, look_.open_from);
  if (from > to || look_.open_from == kNever) return OkStatus();
  FrameGroup group;
  Status trouble;
  // Hands on a finished step; false when reading is over.
  const auto flush = [&] {
    if (group.empty()) return true;
    Result<std::vector<StoredFrame>> frames = group.Take(every_incarnation);
    trouble = frames.status();
    if (!frames.ok()) return false;
    for (StoredFrame& frame : *frames) {
      if (each(std::move(frame))) continue;
      *stopped = true;
      return false;
    }
    return true;
  };
  const auto take = [&](std::string_view key, std::string_view value) {
    const auto parts = ParseFrameKey(key);
    if (!parts) {
      trouble = Status(Code::kDataLoss, "frame: malformed key");
      return false;
    }
    if (!group.empty() && group.step() != parts->step && !flush()) return false;
    if (parts->step > to || parts->step < from) return false;
    AddOpen(*parts, value, filter, &group);
    return true;
  };
  const std::string prefix = FramePrefix(source_.run, source_.attempt, source_.rank);
  const auto at = [&](int64_t step) { return FramePrefix(source_.run, source_.attempt, source_.rank, step); };
  if (backward) {
    FS_RETURN_IF_ERROR(view().ScanBackward(prefix, to == kLastStep ? PrefixEnd(prefix) : at(to + 1), take));
  } else {
    FS_RETURN_IF_ERROR(view().Scan(prefix, at(from), take));
  }
  if (trouble.ok() && !*stopped) flush();
  return trouble;
}

}  // namespace foreshock::store
