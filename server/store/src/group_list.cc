#include "group_list.h"

#include <algorithm>

namespace foreshock::store {

void SealedGroups::Append(SealedGroup group) {
  group.last_so_far = empty() ? group.last : std::max(group.last, back().last_so_far);
  auto part = size_ % kPart == 0 ? std::make_shared<Part>() : std::make_shared<Part>(*parts_.back());
  if (size_ % kPart == 0) parts_.emplace_back();
  part->push_back(group);
  parts_.back() = std::move(part);
  rows_ += group.rows;
  ++size_;
}

void SealedGroups::Insert(SealedGroup group) {
  const auto at = std::upper_bound(begin(), end(), group, [](const auto& a, const auto& b) {
    return std::pair(a.first, a.seal) < std::pair(b.first, b.seal);
  });
  if (at == end()) return Append(group);
  // Late steps are rare: all behind them are put there anew.
  const std::vector<SealedGroup> behind(at, end());
  const auto keep = static_cast<size_t>(at - begin());
  SealedGroups list;
  for (size_t i = keep / kPart * kPart; i < size_; ++i) list.rows_ += (*this)[i].rows;
  list.parts_.assign(parts_.begin(), parts_.begin() + static_cast<ptrdiff_t>(keep / kPart));
  list.size_ = keep / kPart * kPart;
  list.rows_ = rows_ - list.rows_;
  for (size_t i = list.size_; i < keep; ++i) list.Append((*this)[i]);
  list.Append(group);
  for (const SealedGroup& later : behind) list.Append(later);
  *this = std::move(list);
}

}  // namespace foreshock::store
