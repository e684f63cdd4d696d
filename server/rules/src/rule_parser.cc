#include "rule_parser.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/detect/rule_info.h"
#include "value_parser.h"

namespace foreshock::rules {
namespace {

using detect::UserRule;
using detect::WindowFunction;

constexpr size_t kMaxText = 1000;
constexpr size_t kMaxPairs = 32;

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 60;
  return "'" + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "...'" : "'");
}

bool IsName(std::string_view text, std::string_view more) {
  const auto good = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= 100 && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), good);
}

class RuleParser {
 public:
  RuleParser(const YAML::Node& node, std::vector<RuleError>* errors) : node_(node), errors_(errors) {}

  std::optional<UserRule> Parse() {
    const size_t before = errors_->size();
    if (!node_.IsMap()) {
      Fail(node_, "a rule: expected a map of name, signal, condition, ...");
      return std::nullopt;
    }
    ReadFields();
    if (errors_->size() == before) CheckTogether();
    if (errors_->size() != before) return std::nullopt;
    return rule_;
  }

 private:
  using Reader = std::function<void(const YAML::Node&)>;

  void Fail(const YAML::Node& node, std::string message) { AddError(node, std::move(message), errors_); }

  // --- fields one by one

  std::map<std::string_view, Reader> Readers() {
    return {
        {"name", [this](const YAML::Node& n) { ReadName(n); }},
        {"signal", [this](const YAML::Node& n) { ReadSignal(n); }},
        {"run", [this](const YAML::Node& n) { ReadText("run", n, &rule_.run); }},
        {"layers", [this](const YAML::Node& n) { ReadRanges("layers", n, &rule_.layers); }},
        {"heads", [this](const YAML::Node& n) { ReadRanges("heads", n, &rule_.heads); }},
        {"reduce", [this](const YAML::Node& n) { ReadReduce(n); }},
        {"function", [this](const YAML::Node& n) { ReadFunction(n); }},
        {"window", [this](const YAML::Node& n) { ReadValue("window", n, ParseSpan, &rule_.window); }},
        {"condition", [this](const YAML::Node& n) { ReadCondition(n); }},
        {"for", [this](const YAML::Node& n) { ReadValue("for", n, ParseSpan, &rule_.hold); }},
        {"keep_firing_for", [this](const YAML::Node& n) { ReadKeepFiring(n); }},
        {"severity",
         [this](const YAML::Node& n) { ReadValue("severity", n, ParseSeverity, &rule_.severity); }},
        {"labels", [this](const YAML::Node& n) { ReadPairs("labels", n, &rule_.labels); }},
        {"annotations", [this](const YAML::Node& n) { ReadPairs("annotations", n, &rule_.annotations); }},
        {"summary", [this](const YAML::Node& n) { ReadSummary(n); }},
        {"advice", [this](const YAML::Node& n) { ReadText("advice", n, &rule_.advice); }},
        {"action", [this](const YAML::Node& n) { ReadAction(n); }},
    };
  }

  void ReadFields() {
    const auto readers = Readers();
    std::vector<std::string_view> names;
    for (const auto& [name, reader] : readers) names.push_back(name);
    for (const auto& entry : node_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto reader = readers.find(key);
      if (reader == readers.end()) {
        Fail(entry.first, Quoted(key) + ": unknown key" + DidYouMean(key, names));
      } else if (!fields_.emplace(key, entry.second).second) {
        Fail(entry.first, key + ": given twice");
      } else {
        reader->second(entry.second);
      }
    }
    for (const char* needed : {"name", "signal"}) {
      if (!fields_.contains(needed)) Fail(node_, std::string(needed) + ": missing, a rule needs one");
    }
  }

  std::optional<std::string> Scalar(std::string_view field, const YAML::Node& node) {
    if (node.IsScalar()) return node.Scalar();
    Fail(node, std::string(field) + ": expected a single value");
    return std::nullopt;
  }

  template <typename T>
  bool ReadValue(std::string_view field, const YAML::Node& node, Result<T> (*parse)(std::string_view),
                 T* to) {
    const auto text = Scalar(field, node);
    if (!text) return false;
    const Result<T> value = parse(*text);
    if (value.ok()) {
      *to = *value;
    } else {
      Fail(node, std::string(field) + ": " + Quoted(*text) + ": " + value.status().message());
    }
    return value.ok();
  }

  void ReadText(std::string_view field, const YAML::Node& node, std::string* to) {
    const auto text = Scalar(field, node);
    if (!text) return;
    if (text->empty() || text->size() > kMaxText) {
      Fail(node, std::string(field) + ": " + std::to_string(text->size()) + " bytes, expected 1 to " +
                     std::to_string(kMaxText));
      return;
    }
    *to = *text;
  }

  void ReadName(const YAML::Node& node) {
    const auto text = Scalar("name", node);
    if (!text) return;
    if (!IsName(*text, "_")) {
      Fail(node, "name: " + Quoted(*text) + ": expected 1 to 100 of a-z, 0-9 and _, no digit first");
    } else if (detect::FindRule(*text)) {
      Fail(node, "name: " + Quoted(*text) + ": a built-in rule has this name");
    }
    rule_.name = *text;
  }

  void ReadSignal(const YAML::Node& node) {
    const auto text = Scalar("signal", node);
    if (!text) return;
    signal_ = FindSignal(std::string_view(*text));
    if (signal_) {
      rule_.signal = signal_->id;
      return;
    }
    std::vector<std::string_view> names;
    for (const SignalInfo& info : SignalCatalogue()) names.push_back(info.name);
    Fail(node, "signal: " + Quoted(*text) + ": unknown" + DidYouMean(*text, names) +
                   "; `foreshock catalogue` lists all");
  }

  void ReadRanges(std::string_view field, const YAML::Node& node, std::vector<detect::IndexRange>* to) {
    const auto one = [&](const YAML::Node& item) {
      detect::IndexRange range;
      if (ReadValue(field, item, ParseRange, &range)) to->push_back(range);
    };
    if (!node.IsSequence()) return one(node);
    if (node.size() == 0) Fail(node, std::string(field) + ": an empty list selects nothing");
    for (const auto& item : node) one(item);
  }

  void ReadReduce(const YAML::Node& node) {
    detect::Reduction reduction;
    if (!node.IsMap()) {
      if (ReadValue("reduce", node, ParseReduction, &reduction)) rule_.over_all = reduction;
      return;
    }
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (key == "ranks") {
        Fail(entry.first,
             "reduce.ranks: ranks are merged before rules see them, by the signal's own merge rule "
             "(`foreshock catalogue`)");
      } else if (key != "heads" && key != "layers") {
        Fail(entry.first, "reduce: " + Quoted(key) + ": unknown, expected heads or layers");
      } else if (ReadValue("reduce." + key, entry.second, ParseReduction, &reduction)) {
        (key == "heads" ? rule_.over_heads : rule_.over_layers) = reduction;
      }
    }
    if (rule_.over_layers && !node["heads"]) Fail(node, "reduce.layers: needs reduce.heads beside it");
  }

  void ReadFunction(const YAML::Node& node) {
    Function function{};
    if (!ReadValue("function", node, ParseFunction, &function)) return;
    rule_.function = function.function;
    rule_.window_reduction = function.reduction;
    rule_.function_name = node.Scalar();
  }

  void ReadCondition(const YAML::Node& node) {
    Condition condition{};
    if (!ReadValue("condition", node, ParseCondition, &condition)) return;
    rule_.comparison = condition.comparison;
    rule_.threshold = condition.threshold;
  }

  void ReadKeepFiring(const YAML::Node& node) {
    detect::Span span;
    if (!ReadValue("keep_firing_for", node, ParseSpan, &span)) return;
    if (span.samples == 0) Fail(node, "keep_firing_for: expected samples, not steps");
    rule_.keep_firing_samples = span.samples;
  }

  void ReadPairs(const std::string& field, const YAML::Node& node, std::map<std::string, std::string>* to) {
    // What every alert carries already, under these names.
    static const std::set<std::string> labels = {"alertname", "severity", "run",   "attempt",
                                                 "layer",     "head",     "source"};
    static const std::set<std::string> annotations = {"id",
                                                      "summary",
                                                      "advice",
                                                      "evidence",
                                                      "first_step",
                                                      "fired_step",
                                                      "resolved_step",
                                                      "resolved_because",
                                                      "last_checkpoint_step",
                                                      "last_checkpoint"};
    if (!node.IsMap()) return Fail(node, field + ": expected a map of names and texts");
    if (node.size() > kMaxPairs) {
      return Fail(node,
                  field + ": " + std::to_string(node.size()) + ", at most " + std::to_string(kMaxPairs));
    }
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      std::string lower = key;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      if (!IsName(lower, "_")) {
        Fail(entry.first, field + ": " + Quoted(key) + ": expected letters, digits and _, no digit first");
      } else if ((field == "labels" ? labels : annotations).contains(key)) {
        Fail(entry.first, field + ": " + key + ": every alert has one already");
      } else if (to->contains(key)) {
        Fail(entry.first, field + ": " + key + ": given twice");
      } else {
        std::string value;
        ReadText(field + "." + key, entry.second, &value);
        (*to)[key] = value;
      }
    }
  }

  void ReadSummary(const YAML::Node& node) {
    ReadText("summary", node, &rule_.summary);
    const std::string& text = rule_.summary;
    for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
      const size_t close = text.find('}', open);
      if (close == std::string::npos) return Fail(node, "summary: '{' without '}'");
      const std::string name = text.substr(open + 1, close - open - 1);
      const auto& known = detect::SummaryPlaceholders();
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      Fail(node, "summary: " + Quoted("{" + name + "}") + ": unknown placeholder" + DidYouMean(name, known));
    }
  }

  void ReadAction(const YAML::Node& node) {
    const auto text = Scalar("action", node);
    if (!text) return;
    const auto& known = detect::UserRuleActions();
    const std::string kind = text->substr(0, text->find(' '));
    if (kind == "qk_clip") {
      // The logit to clip to is written as a condition's number is.
      const auto logit = ParseCondition(">" + text->substr(kind.size()));
      if (!logit.ok() || !(logit->threshold > 0)) {
        Fail(node, "action: " + Quoted(*text) + ": expected 'qk_clip LOGIT', a logit above 0");
      }
    } else if (std::find(known.begin(), known.end(), *text) == known.end()) {
      Fail(node, "action: " + Quoted(*text) +
                     ": expected enable_qk_norm, 'qk_clip LOGIT', checkpoint or stop" +
                     DidYouMean(*text, known));
    }
    rule_.action = *text;
  }

  // --- what fields say together

  const YAML::Node& At(const std::string& field) const {
    const auto it = fields_.find(field);
    return it == fields_.end() ? node_ : it->second;
  }
  bool Has(const std::string& field) const { return fields_.contains(field); }

  void CheckTogether() {
    CheckSelector();
    CheckWindow();
    if (rule_.action == "stop" && rule_.severity != detect::Severity::kCritical) {
      Fail(At("action"), "action: stop: needs severity critical");
    }
  }

  void CheckSelector() {
    const bool scalar = signal_->scope == SignalScope::kScalar;
    for (const char* field : {"layers", "heads", "reduce"}) {
      if (scalar && Has(field)) {
        Fail(At(field),
             std::string(field) + ": " + rule_name(signal_) + " is one value a step, without heads");
      }
    }
    if (rule_.function != WindowFunction::kRatioToMedianHead) return;
    if (scalar)
      Fail(At("function"), "function: ratio_to_median_head: " + rule_name(signal_) + " has no heads");
    if (Has("reduce"))
      Fail(At("reduce"), "reduce: ratio_to_median_head compares heads, which are not reduced");
  }

  void CheckWindow() {
    const bool windowless =
        rule_.function == WindowFunction::kValue || rule_.function == WindowFunction::kRatioToMedianHead;
    const bool absent = rule_.function == WindowFunction::kAbsent;
    if (windowless && Has("window")) {
      Fail(At("window"), "window: function " + rule_.function_name + " looks at the newest sample only");
    }
    if (!windowless && !Has("window")) {
      Fail(At("function"), "window: missing, function " + rule_.function_name + " needs one");
    }
    if (!windowless && !absent && rule_.window.samples == 1)
      Fail(At("window"), "window: 1 sample, at least 2");
    if (absent && Has("condition")) Fail(At("condition"), "condition: function absent has none");
    if (absent && Has("for")) Fail(At("for"), "for: function absent waits for its window");
    if (absent && Has("reduce")) Fail(At("reduce"), "reduce: function absent looks for any value");
    if (!absent && !Has("condition")) Fail(node_, "condition: missing, a rule needs one, e.g. '> 3'");
    if (absent) {
      const auto window = rule_.window;
      rule_.threshold = static_cast<double>(window.steps > 0 ? window.steps : window.samples);
    }
  }

  static std::string rule_name(const SignalInfo* info) { return std::string(info->name); }

  const YAML::Node node_;
  std::vector<RuleError>* const errors_;
  UserRule rule_;
  const SignalInfo* signal_ = nullptr;
  std::map<std::string, YAML::Node> fields_;
};

}  // namespace

void AddError(const YAML::Node& node, std::string message, std::vector<RuleError>* errors) {
  const YAML::Mark mark = node.Mark();
  errors->push_back({std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, std::move(message)});
}

std::optional<UserRule> ParseRule(const YAML::Node& node, std::vector<RuleError>* errors) {
  return RuleParser(node, errors).Parse();
}

}  // namespace foreshock::rules
