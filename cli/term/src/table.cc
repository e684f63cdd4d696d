#include "foreshock/cli/table.h"

#include <algorithm>

namespace foreshock::cli {
namespace {

void Append(std::string* line, const std::string& cell, size_t width, Align align) {
  const size_t have = DisplayWidth(cell);
  const std::string blanks(width > have ? width - have : 0, ' ');
  *line += align == Align::kRight ? blanks + cell : cell + blanks;
}

void EndLine(std::string* out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  *out += line + "\n";
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const Style& style) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  std::string out;
  std::string line;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) line += "  ";
    Append(&line, columns_[c].title, widths[c], columns_[c].align);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  EndLine(&out, style(Paint::kBold, line));
  for (const auto& row : rows_) {
    line.clear();
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += "  ";
      Append(&line, row[c], widths[c], columns_[c].align);
    }
    EndLine(&out, line);
  }
  return out;
}

}  // namespace foreshock::cli
