#include "foreshock/server/remote_write/relabel.h"

#include <algorithm>
#include <regex>

namespace foreshock::remote_write {
namespace {

constexpr size_t kMaxText = 4096;  // of a joined source: std::regex recurses

bool IsLabelName(const std::string& name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string ValueOf(const Labels& labels, const std::string& name) {
  const auto it =
      std::find_if(labels.begin(), labels.end(), [&](const auto& label) { return label.first == name; });
  return it == labels.end() ? std::string() : it->second;
}

void Set(const std::string& name, std::string value, Labels* labels) {
  const auto it =
      std::find_if(labels->begin(), labels->end(), [&](const auto& label) { return label.first == name; });
  if (it != labels->end()) {
    it->second = std::move(value);
  } else {
    labels->emplace_back(name, std::move(value));
  }
}

// $1 and ${1}; $$ is a dollar. Groups that are not there are empty.
std::string Expand(const std::string& replacement, const std::smatch& match) {
  std::string out;
  for (size_t i = 0; i < replacement.size(); ++i) {
    if (replacement[i] != '$') {
      out.push_back(replacement[i]);
      continue;
    }
    size_t at = i + 1;
    if (at < replacement.size() && replacement[at] == '$') {
      out.push_back('$');
      i = at;
      continue;
    }
    const bool braced = at < replacement.size() && replacement[at] == '{';
    if (braced) ++at;
    size_t number = 0, digits = 0;
    for (; at < replacement.size() && std::isdigit(static_cast<unsigned char>(replacement[at])) != 0 &&
           digits < 3;
         ++at, ++digits) {
      number = 10 * number + static_cast<size_t>(replacement[at] - '0');
    }
    if (digits == 0 || (braced && (at >= replacement.size() || replacement[at] != '}'))) {
      out.push_back('$');
      continue;
    }
    if (number < match.size()) out += match[number].str();
    i = braced ? at : at - 1;
  }
  return out;
}

}  // namespace

struct Relabelling::Compiled {
  RelabelRule rule;
  std::regex regex;

  std::string Joined(const Labels& labels) const {
    std::string text;
    for (size_t i = 0; i < rule.source_labels.size(); ++i) {
      if (i > 0) text += rule.separator;
      text += ValueOf(labels, rule.source_labels[i]);
    }
    text.resize(std::min(text.size(), kMaxText));
    return text;
  }
  bool Matches(const std::string& text) const { return std::regex_match(text, regex); }

  // False: the series is not to be sent.
  bool Apply(Labels* labels) const {
    const auto named = [&](const auto& label) { return Matches(label.first); };
    switch (rule.action) {
      case RelabelAction::kKeep:
        return Matches(Joined(*labels));
      case RelabelAction::kDrop:
        return !Matches(Joined(*labels));
      case RelabelAction::kLabelDrop:
        std::erase_if(*labels, named);
        return true;
      case RelabelAction::kLabelKeep:
        std::erase_if(*labels, [&](const auto& label) { return !named(label); });
        return true;
      case RelabelAction::kLabelMap: {
        const Labels before = *labels;
        for (const auto& [name, value] : before) {
          std::smatch match;
          if (!std::regex_match(name, match, regex)) continue;
          const std::string to = Expand(rule.replacement, match);
          if (IsLabelName(to)) Set(to, value, labels);
        }
        return true;
      }
      case RelabelAction::kReplace: {
        const std::string text = Joined(*labels);
        std::smatch match;
        if (std::regex_match(text, match, regex))
          Set(rule.target_label, Expand(rule.replacement, match), labels);
        return true;
      }
    }
    return true;
  }
};

std::optional<RelabelAction> ParseRelabelAction(const std::string& name) {
  static const std::pair<const char*, RelabelAction> kNames[] = {
      {"replace", RelabelAction::kReplace},     {"keep", RelabelAction::kKeep},
      {"drop", RelabelAction::kDrop},           {"labeldrop", RelabelAction::kLabelDrop},
      {"labelkeep", RelabelAction::kLabelKeep}, {"labelmap", RelabelAction::kLabelMap}};
  for (const auto& [known, action] : kNames) {
    if (name == known) return action;
  }
  return std::nullopt;
}

Result<Relabelling> Relabelling::Create(std::vector<RelabelRule> rules) {
  auto compiled = std::make_shared<std::vector<Compiled>>();
  for (size_t i = 0; i < rules.size(); ++i) {
    RelabelRule& rule = rules[i];
    const auto wrong = [&](const std::string& what) {
      return Status(Code::kInvalidArgument, "relabel rule " + std::to_string(i + 1) + ": " + what);
    };
    if (rule.action == RelabelAction::kReplace && !IsLabelName(rule.target_label))
      return wrong("target_label '" + rule.target_label + "', must be a label's name");
    const bool by_value = rule.action == RelabelAction::kKeep || rule.action == RelabelAction::kDrop;
    if (by_value && rule.source_labels.empty()) return wrong("source_labels: missing");
    try {
      std::regex regex(rule.regex, std::regex::ECMAScript | std::regex::optimize);
      compiled->push_back({std::move(rule), std::move(regex)});
    } catch (const std::regex_error& e) {
      return wrong("regex '" + rule.regex + "': " + e.what());
    }
  }
  Relabelling relabelling;
  relabelling.rules_ = std::move(compiled);
  return relabelling;
}

std::optional<Labels> Relabelling::Apply(Labels labels) const {
  for (const Compiled& rule : *rules_) {
    if (!rule.Apply(&labels)) return std::nullopt;
  }
  std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
  std::sort(labels.begin(), labels.end());
  if (ValueOf(labels, "__name__").empty()) return std::nullopt;
  return labels;
}

}  // namespace foreshock::remote_write
