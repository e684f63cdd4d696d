// JSON lines, and the trainer_state.json of the Hugging Face Trainer. nlohmann stays behind this file.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "foreshock/jsonl/lines.h"
#include "rows.h"

namespace foreshock::cli {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 4;  // of objects inside a row

// Numbers keep their text; bools and texts that are no numbers are for the builder to judge.
std::string TextOf(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// {"train": {"loss": 1}} is the column train/loss. Lists are no values.
void AddCells(const json& object, const std::string& prefix, int depth, Row* row) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      if (depth < kMaxDepth) AddCells(value, prefix + key + "/", depth + 1, row);
    } else if (!value.is_array()) {
      row->cells.push_back({prefix + key, TextOf(value)});
    }
  }
}

size_t LineOf(std::string_view text, size_t byte) {
  return 1 + static_cast<size_t>(std::count(
                 text.begin(), text.begin() + static_cast<ptrdiff_t>(std::min(byte, text.size())), '\n'));
}

}  // namespace

std::string QuoteBareNumbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out.push_back(c);
      if (c == '\\' && i + 1 < text.size()) out.push_back(text[++i]);
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    bool quoted = false;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (text.substr(i, word.size()) != word) continue;
      out.append("\"").append(word).append("\"");
      i += word.size() - 1;
      quoted = true;
      break;
    }
    if (!quoted) out.push_back(c);
  }
  return out;
}

Status ReadJsonRows(std::string_view text, const OnRow& each, std::vector<std::string>* warnings) {
  for (jsonl::Lines lines(text); lines.Next();) {
    const size_t number = lines.number();
    const json parsed = json::parse(QuoteBareNumbers(lines.line()), nullptr, /*allow_exceptions=*/false);
    if (parsed.is_discarded() && !lines.whole() && number > 1) {
      warnings->push_back("line " + std::to_string(number) + ": torn, left out");
      return OkStatus();
    }
    if (parsed.is_discarded()) return At(number, "not valid JSON");
    if (!parsed.is_object()) return At(number, "not a JSON object");
    Row row;
    row.place = "line " + std::to_string(number);
    AddCells(parsed, "", 0, &row);
    FS_RETURN_IF_ERROR(each(std::move(row)));
  }
  return OkStatus();
}

Status ReadTrainerState(std::string_view text, const OnRow& each, std::vector<std::string>*) {
  const std::string quoted = QuoteBareNumbers(text);
  json parsed;
  try {
    parsed = json::parse(quoted);
  } catch (const json::parse_error& error) {
    return At(LineOf(quoted, error.byte > 0 ? error.byte - 1 : 0), "not valid JSON");
  }
  if (!parsed.is_object() || !parsed.contains("log_history") || !parsed["log_history"].is_array()) {
    return At(1, "log_history: missing, or not a list: not a trainer_state.json");
  }
  size_t number = 0;
  for (const json& entry : parsed["log_history"]) {
    const std::string place = "log_history entry " + std::to_string(number++);
    if (!entry.is_object()) return Status(Code::kInvalidArgument, place + ": not a JSON object");
    // The summary of the whole training, under the names of single steps: its train_loss is a mean.
    if (entry.contains("train_runtime")) continue;
    Row row;
    row.place = place;
    AddCells(entry, "", 0, &row);
    FS_RETURN_IF_ERROR(each(std::move(row)));
  }
  return OkStatus();
}

}  // namespace foreshock::cli
