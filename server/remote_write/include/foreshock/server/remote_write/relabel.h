// Relabelling as Prometheus has it (relabel_config), for the actions that make sense for one's own series.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::remote_write {

// Name and value; the metric's name is the label __name__.
using Labels = std::vector<std::pair<std::string, std::string>>;

enum class RelabelAction : uint8_t {
  kReplace,  // target_label = replacement, where the joined sources match; an empty result removes the label
  kKeep,     // the series goes unless the joined sources match
  kDrop,     // the series goes where they match
  kLabelDrop,  // labels whose name matches go
  kLabelKeep,  // all other labels go
  kLabelMap,   // labels whose name matches are copied to `replacement`
};

struct RelabelRule {
  RelabelAction action = RelabelAction::kReplace;
  std::vector<std::string> source_labels = {};  // absent labels are empty texts
  std::string separator = ";";
  std::string regex = "(.*)";  // must match the whole text
  std::string target_label = {};
  std::string replacement = "$1";  // $1 and ${1}: groups of the regex
};

// "replace", "keep", ...; nullopt: no such action.
std::optional<RelabelAction> ParseRelabelAction(const std::string& name);

class Relabelling {
 public:
  // kInvalidArgument names the rule (from 1), the field and the value.
  static Result<Relabelling> Create(std::vector<RelabelRule> rules);
  // The series' labels, sorted by name and without empty ones; nullopt: it is not to be sent (dropped, or
  // left without a name). Pure, thread-safe.
  std::optional<Labels> Apply(Labels labels) const;

 private:
  struct Compiled;
  std::shared_ptr<const std::vector<Compiled>> rules_;
};

}  // namespace foreshock::remote_write
