// FrameSource: all frames of one source in one moment, open, kept and sealed, by step.
//
// Spans cut the sealed past where groups do not overlap, so that almost every span is one group, whose
// columns can be read alone. Frames that are not in order (late ones, a process that sent steps again) make a
// span in which whole frames are compared. Behind the last span come only open frames: the tail.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "foreshock/server/store/store.h"
#include "frame_groups.h"
#include "layout.h"
#include "payload_filter.h"
#include "recent_frames.h"

namespace foreshock::store {

struct Span {
  int64_t first = 0, last = 0;
  std::vector<SealedGroup> groups;
  bool raw = false;  // holds open or kept frames too
};

class FrameSource {
 public:
  // `recent` (not owned): where frames are that need not be decoded.
  FrameSource(Layouts::Look look, const FramesOf& source, const RecentFrames* recent)
      : look_(std::move(look)), source_(source), recent_(recent) {}

  const Database::View& view() const { return look_.view; }
  const FramesOf& source() const { return source_; }
  // The spans that touch [from, to], rising.
  Result<std::vector<Span>> Spans(int64_t from, int64_t to) const;
  // A step such that about `groups` sealed groups lie from it to `to`; kFirstStep: all before it do.
  int64_t StepBack(int64_t to, size_t groups) const;
  // Frames of a span within [from, to], by rising step, then incarnation; only the newest incarnation of a
  // step unless `every_incarnation`.
  Result<std::vector<StoredFrame>> Frames(const Span& span, int64_t from, int64_t to,
                                          const SeriesFilter& filter, bool every_incarnation) const;
  // Open frames behind all spans, in [from, to]. `each` returns false to stop; *stopped says that it did.
  using EachFrame = std::function<bool(StoredFrame)>;
  Status Tail(int64_t from, int64_t to, bool backward, const SeriesFilter& filter, bool every_incarnation,
              const EachFrame& each, bool* stopped) const;

 private:
  // The last step that is sealed or kept; nullopt: none is.
  Result<std::optional<int64_t>> LastClosed() const;
  void AddOpen(const FrameKeyParts& key, std::string_view value, const SeriesFilter& filter,
               FrameGroup* group) const;
  Status AddRaw(int64_t from, int64_t end, std::vector<Span>* spans) const;

  Layouts::Look look_;
  FramesOf source_;
  const RecentFrames* recent_;
};

}  // namespace foreshock::store
