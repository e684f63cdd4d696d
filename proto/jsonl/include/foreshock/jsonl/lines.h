// The lines of a text that may be torn at its end.
#pragma once

#include <cstddef>
#include <string_view>

namespace foreshock::jsonl {

// Walks over `text`, which must outlive it; lines of blanks alone are counted and passed over.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Goes to the next line; false at the end.
  bool Next() {
    while (!rest_.empty()) {
      const size_t end = rest_.find('\n');
      whole_ = end != std::string_view::npos;
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(whole_ ? end + 1 : rest_.size());
      ++number_;
      if (line_.find_first_not_of(" \t\r") != std::string_view::npos) return true;
    }
    return false;
  }
  std::string_view line() const { return line_; }  // without its newline
  size_t number() const { return number_; }        // 1-based
  bool whole() const { return whole_; }            // it ends with a newline

 private:
  std::string_view rest_, line_;
  size_t number_ = 0;
  bool whole_ = false;
};

}  // namespace foreshock::jsonl
