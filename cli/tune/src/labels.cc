#include "labels.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace foreshock::cli {
namespace {

using Label = Truth::Label;

constexpr std::pair<std::string_view, Label> kLabels[] = {
    {"healthy", Label::kHealthy}, {"spike", Label::kHealthy},   {"collapse", Label::kCollapse},
    {"failed", Label::kFailed},   {"damaged", Label::kDamaged}, {"contained", Label::kContained}};

Status Bad(const std::string& run, const std::string& what) {
  return Status(Code::kInvalidArgument, "run " + run + ": " + what);
}

Result<std::optional<int64_t>> StepIn(const nlohmann::json& entry, const char* field,
                                      const std::string& run) {
  const auto it = entry.find(field);
  if (it == entry.end() || it->is_null()) return std::optional<int64_t>();
  if (!it->is_number_integer() || it->get<int64_t>() < 0)
    return Bad(run, std::string(field) + ": not a step");
  return std::optional(it->get<int64_t>());
}

Result<Truth> ParseTruth(const std::string& run, const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("label") || !entry["label"].is_string()) {
    return Bad(run, "label: missing");
  }
  const std::string name = entry["label"];
  const auto* label =
      std::find_if(std::begin(kLabels), std::end(kLabels), [&](const auto& l) { return l.first == name; });
  if (label == std::end(kLabels)) {
    return Bad(run, "label: '" + name + "': expected healthy, spike, collapse, failed, damaged or contained");
  }
  Truth truth;
  truth.label = label->second;
  FS_ASSIGN_OR_RETURN(truth.collapse, StepIn(entry, "collapse_step", run));
  FS_ASSIGN_OR_RETURN(const std::optional<int64_t> onset, StepIn(entry, "fault_onset_step", run));
  // A fault that did no harm is no reason to speak.
  if (truth.label != Label::kHealthy) truth.onset = onset.value_or(0);
  if (truth.label == Label::kCollapse && (!truth.collapse || *truth.collapse <= truth.onset)) {
    return Bad(run, "collapse_step: missing, or not after the onset");
  }
  if (const auto head = entry.find("fault_head"); head != entry.end() && !head->is_null()) {
    if (!head->is_array() || head->size() != 2 || !(*head)[0].is_number_integer() ||
        !(*head)[1].is_number_integer()) {
      return Bad(run, "fault_head: expected [layer, head]");
    }
    truth.head = std::array<int, 2>{(*head)[0].get<int>(), (*head)[1].get<int>()};
  }
  return truth;
}

}  // namespace

Result<std::map<std::string, Truth>> ParseLabels(std::string_view text) {
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(error.byte, text.size()));
    return Status(Code::kInvalidArgument,
                  "line " + std::to_string(1 + std::count(text.begin(), end, '\n')) + ": not valid JSON");
  }
  if (!parsed.is_object()) return Status(Code::kInvalidArgument, "line 1: expected an object of runs");
  std::map<std::string, Truth> truths;
  for (const auto& [run, entry] : parsed.items()) {
    FS_ASSIGN_OR_RETURN(truths[run], ParseTruth(run, entry));
  }
  return truths;
}

}  // namespace foreshock::cli
