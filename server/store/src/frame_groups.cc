#include "frame_groups.h"

#include <algorithm>

#include "foreshock/server/store/parts.h"

namespace foreshock::store {
namespace {

// Frames of one incarnation by seq -> the last whole one, or the last parts.
wire::Frame NewestOf(std::vector<wire::Frame> frames) {
  // The parts of one frame have rising seqs without a hole, so seq - part tells them from those of the same
  // step sent before.
  const auto first_seq = [](const wire::Frame& frame) { return frame.seq - frame.part; };
  size_t start = frames.size() - 1;
  while (start > 0 && frames[start].parts > 1 && first_seq(frames[start - 1]) == first_seq(frames.back()))
    --start;
  frames.erase(frames.begin(), frames.begin() + static_cast<ptrdiff_t>(start));
  return JoinParts(std::move(frames));
}

}  // namespace

Result<std::vector<StoredFrame>> FrameGroup::Take(bool every_incarnation) {
  std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) {
    return std::pair(a.key.source.incarnation, a.key.seq) < std::pair(b.key.source.incarnation, b.key.seq);
  });
  std::vector<StoredFrame> out;
  std::vector<wire::Frame> frames;
  size_t first = 0;
  if (!every_incarnation) {
    const uint32_t newest = records_.back().key.source.incarnation;
    while (records_[first].key.source.incarnation != newest) ++first;
  }
  for (size_t i = first; i < records_.size(); ++i) {
    if (records_[i].frame) {
      frames.push_back(*std::move(records_[i].frame));
    } else {
      Result<wire::Frame> frame = wire::DecodeFrame(records_[i].payload);
      if (!frame.ok()) {
        return Status(Code::kDataLoss,
                      "frame of step " + std::to_string(step()) + ": " + frame.status().message());
      }
      frames.push_back(std::move(frame).value());
    }
    const SourceId source = records_[i].key.source;
    if (i + 1 == records_.size() || records_[i + 1].key.source.incarnation != source.incarnation) {
      out.push_back({source.rank, source.incarnation, NewestOf(std::move(frames))});
      frames.clear();
    }
  }
  records_.clear();
  return out;
}

}  // namespace foreshock::store
