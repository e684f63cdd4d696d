// A table for a person: aligned columns, a head line, no frame.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreshock/cli/style.h"

namespace foreshock::cli {

enum class Align : unsigned char { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Cells may hold this component's escapes; missing cells are empty, cells beyond the columns are dropped.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Lines ending in '\n', without trailing blanks; the head is bold where colour is allowed.
  std::string Render(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace foreshock::cli
