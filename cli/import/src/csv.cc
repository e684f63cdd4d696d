// Comma-, semicolon- or tab-separated values with a header line; quotes as in RFC 4180.
#include "rows.h"

namespace foreshock::cli {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class Reader {
 public:
  Reader(std::string_view text, char separator) : text_(text), separator_(separator) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  size_t line() const { return line_; }

  // The fields of the next line; `line()` is its first line while quotes may span several.
  Result<std::vector<std::string>> Next(size_t* first_line) {
    *first_line = line_;
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (quoted) {
        if (c != '"') {
          fields.back().push_back(c);
        } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          fields.back().push_back('"');
          ++at_;
        } else {
          quoted = false;
        }
      } else if (c == '"' && fields.back().empty()) {
        quoted = true;
      } else if (c == separator_) {
        fields.emplace_back();
      } else if (c == '\n') {
        ++at_;
        return fields;
      } else if (c != '\r') {
        fields.back().push_back(c);
      }
    }
    if (quoted) return At(*first_line, "a quote that is not closed");
    return fields;
  }

 private:
  std::string_view text_;
  const char separator_;
  size_t at_ = 0, line_ = 1;
};

// Whichever the header has most of.
char SeparatorOf(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  char best = ',';
  size_t most = 0;
  for (const char separator : {',', '\t', ';'}) {
    size_t count = 0;
    for (const char c : header) count += c == separator ? 1 : 0;
    if (count > most) {
      most = count;
      best = separator;
    }
  }
  return best;
}

std::string Trimmed(const std::string& text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

}  // namespace

Status ReadCsv(std::string_view text, const OnRow& each, std::vector<std::string>* warnings) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Reader reader(text, SeparatorOf(text));
  size_t line = 1;
  FS_ASSIGN_OR_RETURN(std::vector<std::string> header, reader.Next(&line));
  for (std::string& name : header) name = Trimmed(name);
  while (!reader.AtEnd()) {
    FS_ASSIGN_OR_RETURN(const std::vector<std::string> fields, reader.Next(&line));
    if (fields.size() == 1 && Trimmed(fields[0]).empty()) continue;
    if (fields.size() != header.size()) {
      const bool torn = reader.AtEnd() && text.back() != '\n' && fields.size() < header.size();
      const std::string what =
          std::to_string(fields.size()) + " fields, the header has " + std::to_string(header.size());
      if (!torn) return At(line, what);
      warnings->push_back("line " + std::to_string(line) + ": torn, left out (" + what + ")");
      return OkStatus();
    }
    Row row;
    row.place = "line " + std::to_string(line);
    for (size_t i = 0; i < fields.size(); ++i) row.cells.push_back({header[i], Trimmed(fields[i])});
    FS_RETURN_IF_ERROR(each(std::move(row)));
  }
  return OkStatus();
}

}  // namespace foreshock::cli
