#include "step_queue.h"

#include <algorithm>

#include "foreshock/server/store/parts.h"

namespace foreshock::merge {

bool StepQueue::AddSource(uint32_t rank, uint32_t world_size, uint32_t incarnation) {
  const bool grows = world_size_ == 1 && world_size > 1 && !incarnations_.empty();
  world_size_ = std::max(world_size_, world_size);
  uint32_t& newest = incarnations_[rank];
  if (incarnation > newest) {
    newest = incarnation;
    gone_.erase(rank);
    last_done_.reset();
  }
  return grows;
}

void StepQueue::AddFrame(uint32_t rank, uint32_t incarnation, const std::shared_ptr<const wire::Frame>& frame,
                         int64_t now_ns) {
  const auto [it, fresh] = steps_.try_emplace(frame->step);
  Step& step = it->second;
  if (fresh) step.first_seen_ns = now_ns;
  step.held = step.held && world_size_ == 1 && steps_.size() <= kHeldSteps;
  Parts& parts = step.parts[rank];
  const std::pair<uint32_t, uint64_t> first{incarnation, frame->seq - frame->part};
  if (first < parts.frame) return;
  if (first > parts.frame) {
    parts = {first, {}};
    step.ranks.erase(rank);
    step.only.clear();  // in a world of one rank all were its own
  }
  if (!parts.seen.insert(frame->part).second) return;
  if (step.held) step.only.push_back(frame);
  if (parts.seen.size() < std::max(frame->parts, 1u)) return;
  step.ranks.insert(rank);
  // A rank that missed a step is waited for again once it is back in time.
  if (!last_done_ || frame->step > *last_done_) gone_.erase(rank);
}

void StepQueue::AddLeftOver(int64_t step, int64_t now_ns) {
  Step& entry = steps_[step];
  entry.first_seen_ns = now_ns;
  entry.unknown = entry.left_over = true;
  entry.held = false;
}

std::vector<int64_t> StepQueue::Unknown(size_t most) const {
  std::vector<int64_t> unknown;
  for (auto it = steps_.begin(); it != steps_.end() && it->second.unknown && unknown.size() < most; ++it)
    unknown.push_back(it->first);
  return unknown;
}

void StepQueue::Known(int64_t step, const std::set<uint32_t>& ranks) {
  const auto it = steps_.find(step);
  if (it == steps_.end()) return;
  it->second.unknown = false;
  // Of a rank that sends the step again just now the newer frame is waited for.
  for (const uint32_t rank : ranks) {
    if (!it->second.parts.contains(rank)) it->second.ranks.insert(rank);
  }
}

bool StepQueue::IsWaitedFor(const Step& step, bool amended) const {
  // A frame that has begun to come is worth the wait, whoever sends it.
  for (const auto& [rank, parts] : step.parts) {
    if (!step.ranks.contains(rank)) return true;
  }
  for (uint32_t rank = 0; rank < world_size_ && !amended; ++rank) {
    if (!step.ranks.contains(rank) && !gone_.contains(rank)) return true;
  }
  return false;
}

std::optional<StepQueue::Due> StepQueue::Take(int64_t now_ns) {
  if (steps_.empty()) return std::nullopt;
  const auto first = steps_.begin();
  Step& step = first->second;
  if (step.unknown) return std::nullopt;
  Due due;
  due.as_known = step.left_over && step.parts.empty();
  due.step = first->first;
  due.amended = !step.first_time && last_done_ && due.step <= *last_done_;
  const bool in_time = now_ns - step.first_seen_ns < wait_ns_;
  if (!step.due_now && in_time && IsWaitedFor(step, due.amended)) return std::nullopt;
  // What amends may be older than what was merged (two processes): the store knows which one counts.
  const bool held = world_size_ == 1 && step.held && !due.amended;
  if (held && step.only.size() == 1) due.only = step.only.front();
  if (held && step.only.size() > 1) {
    std::vector<wire::Frame> parts;
    for (const auto& part : step.only) parts.push_back(*part);
    due.only = std::make_shared<const wire::Frame>(store::JoinParts(std::move(parts)));
  }
  for (uint32_t rank = 0; rank < world_size_ && !due.amended; ++rank) {
    if (!step.ranks.contains(rank)) gone_.insert(rank);
  }
  steps_.erase(first);
  last_done_ = std::max(last_done_.value_or(due.step), due.step);
  return due;
}

void StepQueue::GiveBack(const Due& due) {
  Step& step = steps_[due.step];
  step.due_now = true;
  step.first_time = !due.amended;
  // With what came meanwhile it is no longer the whole story: the store has it.
  if (due.only != nullptr && step.parts.empty() && step.only.empty()) {
    step.only.push_back(due.only);
  } else {
    step.held = false;
  }
}

}  // namespace foreshock::merge
