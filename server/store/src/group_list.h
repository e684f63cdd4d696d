// The sealed groups of a source: a list that is cheap to copy, for runs of a hundred thousand groups.
//
// Its parts are shared between copies and never changed: adding behind the last group copies one part.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace foreshock::store {

struct SealedGroup {
  int64_t first = 0, last = 0;  // steps
  int64_t last_so_far = 0;      // the largest `last` of this group and all before it
  uint32_t seal = 0;            // rises with every group of a source; of two with one step the later holds
  uint32_t incarnation = 0;
  uint32_t rows = 0;
};

// By first step, then seal.
class SealedGroups {
 public:
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = SealedGroup;
    using difference_type = ptrdiff_t;
    using pointer = const SealedGroup*;
    using reference = const SealedGroup&;
    Iterator() = default;
    Iterator(const SealedGroups* list, size_t index) : list_(list), index_(index) {}
    reference operator*() const { return (*list_)[index_]; }
    pointer operator->() const { return &(*list_)[index_]; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this + -1); }
    Iterator& operator+=(difference_type n) {
      index_ = static_cast<size_t>(static_cast<difference_type>(index_) + n);
      return *this;
    }
    Iterator operator+(difference_type n) const { return Iterator(*this) += n; }
    Iterator operator-(difference_type n) const { return Iterator(*this) += -n; }
    difference_type operator-(const Iterator& other) const {
      return static_cast<difference_type>(index_) - static_cast<difference_type>(other.index_);
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }
    auto operator<=>(const Iterator& other) const { return index_ <=> other.index_; }

   private:
    const SealedGroups* list_ = nullptr;
    size_t index_ = 0;
  };

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint64_t rows() const { return rows_; }  // of all groups
  const SealedGroup& operator[](size_t index) const { return (*parts_[index / kPart])[index % kPart]; }
  const SealedGroup& back() const { return (*this)[size_ - 1]; }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

  // Puts it where it belongs; last_so_far is filled in.
  void Insert(SealedGroup group);

 private:
  static constexpr size_t kPart = 512;
  using Part = std::vector<SealedGroup>;
  void Append(SealedGroup group);

  std::vector<std::shared_ptr<const Part>> parts_;  // all but the last hold kPart groups
  size_t size_ = 0;
  uint64_t rows_ = 0;
};

}  // namespace foreshock::store
