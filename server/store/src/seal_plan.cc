#include "seal_plan.h"

#include "foreshock/server/store/parts.h"
#include "foreshock/wire/codec.h"

namespace foreshock::store {
namespace {

// The frame of records [first, end), whose own frames begin with that of `begin`; nullopt when they must stay
// as they are.
std::optional<wire::Frame> Whole(const std::vector<OpenRecord>& records, std::vector<wire::Frame>* frames,
                                 size_t begin, size_t first, size_t end) {
  std::vector<wire::Frame> parts;
  for (size_t i = first; i < end; ++i) {
    const bool known = records[i].frame != nullptr;  // and encodes to what came
    if (!known && wire::Encode((*frames)[i - begin]) != records[i].payload) return std::nullopt;
    parts.push_back(std::move((*frames)[i - begin]));
  }
  wire::Frame whole = JoinParts(std::move(parts));
  if (whole.parts > 1) return std::nullopt;
  return whole;
}

bool LacksParts(const std::vector<wire::Frame>& frames) {
  return frames.back().parts > 1 && frames.back().part + 1 < frames.back().parts;
}

// Records [begin, end) of one step and incarnation.
void PlanStep(const std::vector<OpenRecord>& records, size_t begin, size_t end,
              const std::function<bool(const FrameKeyParts&)>& may_grow, size_t expected_rows,
              SealPlan* plan) {
  const FrameKeyParts& key = records[begin].key;
  GroupBuilder& group = plan->groups.try_emplace(key.source.incarnation, expected_rows).first->second;
  const wire::Frame* const alone = end - begin == 1 ? records[begin].frame.get() : nullptr;
  if (alone != nullptr && alone->parts <= 1) {
    if (!group.Add(*alone)) plan->kept.push_back(begin);
    plan->closed.push_back(begin);
    return;
  }
  std::vector<wire::Frame> frames;
  for (size_t i = begin; i < end; ++i) {
    if (records[i].frame != nullptr) {
      frames.push_back(*records[i].frame);
      continue;
    }
    Result<wire::Frame> frame = wire::DecodeFrame(records[i].payload);
    if (!frame.ok()) break;
    frames.push_back(std::move(frame).value());
  }
  size_t first = end;  // of the newest frame's parts
  if (frames.size() == end - begin) {
    if (LacksParts(frames) && may_grow(records[end - 1].key)) {
      plan->left.push_back(key.step);
      return;
    }
    const auto first_seq = [&](size_t i) { return frames[i - begin].seq - frames[i - begin].part; };
    first = end - 1;
    while (first > begin && frames[first - begin].parts > 1 && first_seq(first - 1) == first_seq(end - 1))
      --first;
    const auto whole = Whole(records, &frames, begin, first, end);
    if (!whole || !group.Add(*whole)) first = end;
  }
  for (size_t i = begin; i < end; ++i) {
    if (i < first) plan->kept.push_back(i);
    plan->closed.push_back(i);
  }
}

}  // namespace

std::string PayloadOf(const OpenRecord& record) {
  return record.frame != nullptr ? wire::Encode(*record.frame) : record.payload;
}

SealPlan PlanSealing(const std::vector<OpenRecord>& records,
                     const std::function<bool(const FrameKeyParts&)>& may_grow, size_t expected_rows) {
  SealPlan plan;
  for (size_t begin = 0; begin < records.size();) {
    const FrameKeyParts& key = records[begin].key;
    size_t end = begin + 1;
    while (end < records.size() && records[end].key.step == key.step &&
           records[end].key.source.incarnation == key.source.incarnation) {
      ++end;
    }
    PlanStep(records, begin, end, may_grow, expected_rows, &plan);
    begin = end;
  }
  std::erase_if(plan.groups, [](const auto& entry) { return entry.second.size() == 0; });
  return plan;
}

}  // namespace foreshock::store
