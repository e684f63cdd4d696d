#include <algorithm>
#include <utility>

#include "foreshock/sdk/weight_tracker.h"

namespace foreshock::sdk {

using kernels::kPairs;

namespace {

void AddSums(const kernels::UpdateSums& from, kernels::UpdateSums* into) noexcept {
  for (int i = 0; i < kPairs; ++i) {
    into->sum_c[i] += from.sum_c[i];
    into->sum_abs_c[i] += from.sum_abs_c[i];
    into->sum_sign[i] += from.sum_sign[i];
    into->nonzero[i] += from.nonzero[i];
    into->rotated[i] = into->rotated[i] || from.rotated[i];
  }
  into->n += from.n;
  into->skipped += from.skipped;
}

}  // namespace

ProjectionTracker::ProjectionTracker(std::vector<uint32_t> heads, int64_t d_model, int64_t d_head,
                                     uint32_t partial_room)
    : heads_(std::move(heads)), d_model_(d_model), d_head_(d_head), partial_room_(partial_room) {
  const size_t pairs = heads_.size() * kPairs;
  views_.resize(heads_.size());
  for (auto* u : {&u_, &next_u_}) u->assign(pairs * static_cast<size_t>(d_model), 0.0f);
  for (auto* v : {&v_, &next_v_}) v->assign(pairs * static_cast<size_t>(d_head), 0.0f);
  r_.assign(pairs, 0);
  r_next_.assign(pairs, 0);
  accumulators_.resize(heads_.size());
  window_.resize(heads_.size());
  if (partial_room == 0) return;
  parts_.resize(heads_.size());
  partial_c_.assign(pairs * partial_room, 0);
  partial_steps_.assign(partial_room, 0);
  hash_.assign(heads_.size(), 0);
  window_hash_.assign(heads_.size(), 0);
}

void ProjectionTracker::SetViews(const LayerSpec& spec, const ProjectionSpec& projection) {
  for (size_t i = 0; i < heads_.size(); ++i) views_[i] = spec.View(projection, heads_[i]);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i] = spec.Part(projection, heads_[i]);
  projection_ = &projection;
}

void ProjectionTracker::PointAt(const LayerSpec& spec, const void* data) noexcept {
  if (projection_ == nullptr || data == nullptr) return;
  for (size_t i = 0; i < heads_.size(); ++i) views_[i] = spec.View(*projection_, heads_[i], data);
}

void ProjectionTracker::Project(double* r) noexcept {
  // Shapes were checked when the layer was added, so this cannot fail.
  for (size_t i = 0; i < parts_.size(); ++i) {
    const HeadPart& part = parts_[i];
    const size_t pairs = i * kPairs;
    std::fill_n(r + pairs, kPairs, 0.0);  // what this rank does not hold adds nothing
    if (part.view.d_model == 0 || part.view.d_head == 0) continue;
    (void)kernels::ProjectPairs(
        &part.view, 1, u_.data() + pairs * static_cast<size_t>(d_model_) + part.first_row, d_model_,
        v_.data() + pairs * static_cast<size_t>(d_head_) + part.first_col, d_head_, r + pairs);
  }
  if (!parts_.empty()) return;
  (void)kernels::ProjectPairs(views_.data(), static_cast<int32_t>(heads_.size()), u_.data(), d_model_,
                              v_.data(), d_head_, r);
}

void ProjectionTracker::AdoptNext() noexcept {
  u_.swap(next_u_);
  v_.swap(next_v_);
  has_pairs_ = true;
  next_waiting_ = false;
  for (size_t i = 0; i < parts_.size(); ++i) {
    hash_[i] = kernels::HashPairs(u(i), d_model_, v(i), d_head_);
  }
}

void ProjectionTracker::KeepPartial(int64_t step) noexcept {
  if (parts_.empty()) return;
  if (partial_count_ == partial_room_) {
    partial_lost_ = true;
    return;
  }
  for (size_t i = 0; i < heads_.size(); ++i) {
    for (size_t p = 0; p < kPairs; ++p) {
      partial_c_[(i * kPairs + p) * partial_room_ + partial_count_] = accumulators_[i].last_c()[p];
    }
  }
  partial_steps_[partial_count_++] = step;
}

void ProjectionTracker::PairsTaken() noexcept {
  next_waiting_ = true;
  if (has_pairs_) return;
  AdoptNext();
  open_ = false;
}

void ProjectionTracker::OpenStep() noexcept {
  if (!has_pairs_ || open_ || heads_.empty()) return;
  Project(r_.data());
  for (size_t i = 0; i < heads_.size(); ++i) {
    AddSums(accumulators_[i].Take(), &window_[i]);
    accumulators_[i].Start(r_.data() + i * kPairs);
  }
  open_ = true;
}

void ProjectionTracker::CloseStep(int64_t step, bool counted, bool skipped, double decay) noexcept {
  if (!has_pairs_ || heads_.empty()) return;
  window_hash_ = hash_;  // of the same size
  if (skipped) {
    // The weights are the same, so r stays; new pairs wait for the end of the window, which is this step, and
    // are adopted without a difference.
    if (counted) {
      for (auto& accumulator : accumulators_) accumulator.Skip();
    }
  } else if (counted && open_) {
    Project(r_.data());
  } else {
    open_ = false;
  }
  if (!next_waiting_) {
    if (!skipped && counted && open_) {
      for (size_t i = 0; i < heads_.size(); ++i) accumulators_[i].Step(r_.data() + i * kPairs, decay);
      KeepPartial(step);
    }
    return;
  }
  AdoptNext();  // next_u_, next_v_ now hold the old pairs
  if (skipped || !counted || !open_) {
    open_ = false;
    return;
  }
  Project(r_next_.data());
  for (size_t i = 0; i < heads_.size(); ++i) {
    double match[kPairs];
    const size_t u_at = i * kPairs * static_cast<size_t>(d_model_),
                 v_at = i * kPairs * static_cast<size_t>(d_head_);
    kernels::MatchPairs(next_u_.data() + u_at, u_.data() + u_at, d_model_, next_v_.data() + v_at,
                        v_.data() + v_at, d_head_, match);
    accumulators_[i].Refresh(r_.data() + i * kPairs, decay, r_next_.data() + i * kPairs, match);
  }
  KeepPartial(step);
}

void ProjectionTracker::Invalidate() noexcept {
  for (size_t i = 0; i < heads_.size(); ++i) {
    accumulators_[i].Invalidate();
    window_[i] = kernels::UpdateSums();
  }
  EndPartialWindow();
  has_pairs_ = next_waiting_ = open_ = false;
}

kernels::UpdateSums ProjectionTracker::Peek(size_t i) const noexcept {
  kernels::UpdateSums sums = window_[i];
  AddSums(accumulators_[i].sums(), &sums);
  return sums;
}

kernels::UpdateSums ProjectionTracker::Take(size_t i) noexcept {
  kernels::UpdateSums sums = window_[i];
  AddSums(accumulators_[i].Take(), &sums);
  window_[i] = kernels::UpdateSums();
  return sums;
}

}  // namespace foreshock::sdk
