#include "recording_builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "foreshock/base/catalogue.h"

namespace foreshock::cli {
namespace {

constexpr int64_t kMostStep = 1'000'000'000'000;
constexpr size_t kMostAttempts = 1000;

// Texts that stand for a number that is not finite, in lower case.
std::optional<double> NotFinite(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "infinity" || text == "+inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf" || text == "-infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<double> Number(const std::string& text) {
  if (const auto value = NotFinite(text)) return value;
  double value = 0;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  // What overflows a double is infinite, what underflows it is 0.
  if (error == std::errc::result_out_of_range) return text.find("e-") != std::string::npos ? 0 : HUGE_VAL;
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Status Bad(const Row& row, const Cell& cell, const std::string& what) {
  return Status(Code::kInvalidArgument,
                row.place + ": " + cell.column + ": '" + cell.text.substr(0, 40) + "': " + what);
}

}  // namespace

Result<std::optional<int64_t>> RecordingBuilder::StepOf(const Row& row) {
  const Cell* found = nullptr;
  int rank = 0;
  for (const Cell& cell : row.cells) {
    const int now = options_.step_column.empty() ? StepColumnRank(cell.column)
                                                 : (cell.column == options_.step_column ? 1 : 0);
    if (now > rank && !cell.text.empty()) {
      rank = now;
      found = &cell;
    }
  }
  if (!found) return std::optional<int64_t>();
  step_columns_.insert(found->column);
  const auto value = Number(found->text);
  if (!value || !(*value >= 0 && *value <= static_cast<double>(kMostStep)) || *value != std::floor(*value)) {
    return Bad(row, *found, "not a step (a whole number from 0 to " + std::to_string(kMostStep) + ")");
  }
  return std::optional(static_cast<int64_t>(*value));
}

Status RecordingBuilder::Take(Row row) {
  FS_ASSIGN_OR_RETURN(const std::optional<int64_t> step, StepOf(row));
  bool any = false;
  for (const Cell& cell : row.cells) {
    if (step_columns_.contains(cell.column)) continue;
    const auto target = names_.Find(cell.column);
    if (!target) {
      left_out_.insert(cell.column);
      continue;
    }
    if (cell.text.empty()) continue;
    used_.insert(cell.column);
    if (!step) {
      if (!any) ++without_step_;
      any = true;
      continue;
    }
    if (!any && *step < last_step_) {
      imported_.warnings.push_back(row.place + ": step " + std::to_string(*step) + " after step " +
                                   std::to_string(last_step_) + ": a new attempt begins");
      if (attempts_.size() == kMostAttempts) {
        return Status(Code::kInvalidArgument, row.place + ": steps went back for the " +
                                                  std::to_string(kMostAttempts) +
                                                  "th time: is the log sorted?");
      }
      attempts_.emplace_back();
    }
    if (!any) last_step_ = *step;
    any = true;
    FS_RETURN_IF_ERROR(Put(row, cell, *target, *step));
  }
  return OkStatus();
}

Status RecordingBuilder::Put(const Row& row, const Cell& cell, const Target& target, int64_t step) {
  const auto value = Number(cell.text);
  if (!value) return Bad(row, cell, "not a number");
  Step& at = attempts_.back().steps[step];
  if (!at.values.insert_or_assign(target, static_cast<float>(*value)).second) ++twice_;
  at.time_unix_ns = std::max(at.time_unix_ns, row.time_unix_ns);
  if (target.layer) {
    uint32_t& heads = heads_[*target.layer];
    heads = std::max(heads, *target.head + 1);
  }
  return OkStatus();
}

wire::Hello RecordingBuilder::HelloOf(size_t attempt) const {
  wire::Hello hello;
  hello.run = run_;
  hello.attempt = std::to_string(attempt + 1);
  hello.attempt_source = wire::AttemptSource::kMinted;
  hello.incarnation = attempt + 1;
  hello.framework = "imported";
  for (const auto& [layer, heads] : heads_) {
    wire::Layer info;
    info.layer = layer;
    info.query_heads = info.kv_heads = heads;
    info.head_dim = options_.head_dim;
    hello.model.layers.push_back(info);
  }
  return hello;
}

wire::Frame RecordingBuilder::FrameOf(int64_t step, const Step& at, uint64_t seq) const {
  wire::Frame frame;
  frame.seq = seq;
  frame.step = step;
  frame.window_from = step;
  frame.time_unix_ns = at.time_unix_ns;
  for (const auto& [target, value] : at.values) {  // by signal, layer, head
    if (frame.series.empty() || frame.series.back().signal != target.signal ||
        frame.series.back().layer != target.layer) {
      wire::Series series;
      series.signal = target.signal;
      series.layer = target.layer;
      frame.series.push_back(std::move(series));
    }
    wire::Series& series = frame.series.back();
    if (target.head) series.heads.push_back(*target.head);
    series.values.push_back(value);
    // A log holds quotients: what a ratio was the quotient of is not known.
    if (FindSignal(target.signal)->merge == SignalMerge::kRatio)
      series.weights.assign(series.values.size(), 1);
  }
  return frame;
}

Result<Imported> RecordingBuilder::Finish() {
  if (used_.empty() || step_columns_.empty()) {
    std::string columns;
    for (const std::string& column : left_out_) columns += (columns.empty() ? "" : ", ") + column;
    const std::string what = used_.empty() ? "no column is a known signal" : "no column counts steps";
    return Status(Code::kInvalidArgument,
                  what + "; name one with " + (used_.empty() ? "--map" : "--step") +
                      ". Columns: " + (columns.empty() ? "none" : columns.substr(0, 500)));
  }
  for (const std::string& column : names_.NeverSeen()) {
    imported_.warnings.push_back("map: " + column + ": the log has no such column");
  }
  if (twice_ > 0) {
    imported_.warnings.push_back(std::to_string(twice_) +
                                 " values came twice for one step: the later ones are kept");
  }
  if (without_step_ > 0)
    imported_.warnings.push_back(std::to_string(without_step_) + " rows without a step: left out");
  for (size_t i = 0; i < attempts_.size(); ++i) {
    imported_.items.emplace_back(HelloOf(i));
    uint64_t seq = 0;
    for (const auto& [step, values] : attempts_[i].steps) {
      imported_.items.emplace_back(FrameOf(step, values, ++seq));
      ++imported_.frames;
    }
  }
  for (const std::string& column : used_) {
    const auto target = names_.Find(column);
    imported_.columns_used.push_back(std::string(FindSignal(target->signal)->name) + " <- " + column);
  }
  imported_.columns_left_out.assign(left_out_.begin(), left_out_.end());
  return std::move(imported_);
}

}  // namespace foreshock::cli
