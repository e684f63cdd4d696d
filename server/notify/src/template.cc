#include "template.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "foreshock/json/writer.h"
#include "payload.h"
#include "template_fields.h"

namespace foreshock::notify {

// Where the rendering is: in a message, or at an alert of one of its lists.
struct MessageTemplate::Scope {
  const MessageGroup& group;
  const alert::AlertRecord* record = nullptr;
  bool last = false;

  std::string Value(const std::string& name) const {
    if (name == "last") return last ? "true" : "";
    if (FindField(name) == FieldScope::kGroup) return GroupField(name, group);
    return record != nullptr ? AlertField(name, *record) : "";
  }
};

class TemplateParser {
 public:
  explicit TemplateParser(std::string_view text) : text_(text) {}

  Result<std::vector<MessageTemplate::Node>> Parse() {
    open_.push_back({"", 0, {}});
    while (at_ < text_.size()) {
      const size_t tag = text_.find("{{", at_);
      AddText(text_.substr(at_, tag == std::string_view::npos ? tag : tag - at_));
      if (tag == std::string_view::npos) break;
      FS_RETURN_IF_ERROR(TakeTag(tag));
    }
    if (open_.size() > 1) return Bad(open_.back().at, "{{#" + open_.back().name + "}} is never closed");
    return std::move(open_.back().nodes);
  }

 private:
  using Node = MessageTemplate::Node;
  using Kind = MessageTemplate::Kind;
  struct Open {
    std::string name;
    size_t at = 0;
    std::vector<Node> nodes;
    bool list = false;
    Kind kind = Kind::kSection;
  };

  Status Bad(size_t at, const std::string& what) const {
    size_t line = 1, column = 1;
    for (const char c : text_.substr(0, at)) {
      column = c == '\n' ? 1 : column + 1;
      line += c == '\n' ? 1 : 0;
    }
    return Status(Code::kInvalidArgument,
                  "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

  void AddText(std::string_view text) {
    if (!text.empty()) open_.back().nodes.push_back({Kind::kText, std::string(text), {}});
  }

  Status TakeTag(size_t tag) {
    const size_t end = text_.find("}}", tag + 2);
    if (end == std::string_view::npos) return Bad(tag, "{{ without }}");
    std::string_view inside = text_.substr(tag + 2, end - tag - 2);
    at_ = end + 2;
    if (inside.starts_with('!')) return OkStatus();
    const char sign = inside.empty() ? ' ' : inside.front();
    const bool section = sign == '#' || sign == '^' || sign == '/';
    if (section) inside.remove_prefix(1);
    while (inside.starts_with(' ')) inside.remove_prefix(1);
    while (inside.ends_with(' ')) inside.remove_suffix(1);
    const std::string name(inside);
    if (sign == '/') return Close(tag, name);
    FS_RETURN_IF_ERROR(CheckName(tag, name, section));
    if (!section) {
      open_.back().nodes.push_back({Kind::kValue, name, {}});
      return OkStatus();
    }
    if (open_.size() > MessageTemplate::kMostDepth) {
      return Bad(tag, "sections are nested deeper than " + std::to_string(MessageTemplate::kMostDepth));
    }
    const bool list = sign == '#' && FindField(name) == FieldScope::kList;
    open_.push_back({name, tag, {}, list, sign == '#' ? Kind::kSection : Kind::kInverted});
    return OkStatus();
  }

  Status CheckName(size_t tag, const std::string& name, bool section) const {
    const FieldScope scope = FindField(name);
    if (scope == FieldScope::kUnknown) {
      return Bad(tag, "'" + name.substr(0, 60) + "' is not known; known are " + KnownFields());
    }
    const bool in_list = std::any_of(open_.begin(), open_.end(), [](const Open& o) { return o.list; });
    if (scope == FieldScope::kAlert && !in_list) {
      return Bad(tag,
                 "'" + name + "' is of an alert: write it within {{#alerts}}, {{#firing}} or {{#resolved}}");
    }
    if (scope == FieldScope::kList && !section) {
      return Bad(tag, "'" + name + "' is a list: write {{#" + name + "}}...{{/" + name + "}}");
    }
    if (scope == FieldScope::kList && in_list) return Bad(tag, "a list within a list");
    return OkStatus();
  }

  Status Close(size_t tag, const std::string& name) {
    if (open_.size() == 1) return Bad(tag, "{{/" + name + "}} closes nothing");
    if (open_.back().name != name) {
      return Bad(tag, "{{/" + name + "}} where {{/" + open_.back().name + "}} is due");
    }
    Node node{open_.back().kind, name, std::move(open_.back().nodes)};
    open_.pop_back();
    open_.back().nodes.push_back(std::move(node));
    return OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<Open> open_;  // the template itself, then the sections that are open
};

namespace {

// The inside of a JSON string.
std::string JsonEscape(const std::string& value) {
  json::Writer out;
  out.String(value);
  return out.text().substr(1, out.text().size() - 2);
}

alert::AlertRecord Sample(bool full, alert::AlertState state) {
  alert::AlertRecord record;
  alert::Alert& a = record.alert;
  a.id = "a/1/r/critical/1";
  a.incident = a.id;
  a.run = "a";
  a.attempt = "1";
  a.rule = full ? "qk_runaway" : "loss_spike";
  a.severity = full ? detect::Severity::kCritical : detect::Severity::kWarning;
  a.state = state;
  a.summary = full ? "a \"quoted\" \\ text\nof two lines" : "";
  a.value = full ? 1.5 : std::numeric_limits<double>::quiet_NaN();
  a.baseline = a.value;
  a.fired_step = 1;
  record.fired_unix_ns = 1;
  if (full) {
    a.layer = a.head = 1;
    a.advice = "\t\x01";
    a.evidence = {{"x", 1, 2}};
    a.last_checkpoint_step = 1;
    record.last_checkpoint = "path";
  }
  if (state == alert::AlertState::kResolved) {
    a.resolved_step = 2;
    record.resolved_unix_ns = 2;
    record.resolved_because = full ? "run finished" : "";
  }
  return record;
}

std::string KindOf(const MessageGroup& group) {
  if (group.records.size() > 1) return "several alerts";
  const alert::Alert& a = group.records[0].alert;
  return "an alert " + std::string(a.layer < 0 ? "of the whole run" : "of a head") + " that is " +
         std::string(alert::AlertStateName(a.state));
}

}  // namespace

Result<MessageTemplate> MessageTemplate::Parse(std::string_view text, Escape escape) {
  if (text.empty() || text.size() > kMostBytes) {
    return Status(Code::kInvalidArgument,
                  std::to_string(text.size()) + " bytes, expected 1 to " + std::to_string(kMostBytes));
  }
  MessageTemplate out;
  out.escape_ = escape;
  FS_ASSIGN_OR_RETURN(out.nodes_, TemplateParser(text).Parse());
  if (escape == Escape::kJson) FS_RETURN_IF_ERROR(out.CheckJson());
  return out;
}

std::string MessageTemplate::Render(const MessageGroup& group) const {
  std::string out;
  RenderNodes(nodes_, Scope{group}, &out);
  return out;
}

std::string MessageTemplate::Escaped(const std::string& value) const {
  return escape_ == Escape::kJson ? JsonEscape(value) : SlackEscape(value);
}

void MessageTemplate::RenderNodes(const std::vector<Node>& nodes, const Scope& scope,
                                  std::string* out) const {
  for (const Node& node : nodes) {
    if (node.kind == Kind::kText) {
      *out += node.text;
    } else if (node.kind == Kind::kValue) {
      *out += Escaped(scope.Value(node.text));
    } else {
      RenderSection(node, scope, out);
    }
  }
}

void MessageTemplate::RenderSection(const Node& node, const Scope& scope, std::string* out) const {
  if (FindField(node.text) != FieldScope::kList) {
    if (scope.Value(node.text).empty() == (node.kind == Kind::kInverted))
      RenderNodes(node.children, scope, out);
    return;
  }
  const auto list = ListField(node.text, scope.group);
  if (node.kind == Kind::kInverted) {
    if (list.empty()) RenderNodes(node.children, scope, out);
    return;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    RenderNodes(node.children, Scope{scope.group, list[i], i + 1 == list.size()}, out);
  }
}

// Every kind of alert alone, and all together.
Status MessageTemplate::CheckJson() const {
  using alert::AlertState;
  MessageGroup all{"a", {}, ""};
  std::vector<MessageGroup> groups;
  for (const bool full : {true, false}) {
    for (const AlertState state : {AlertState::kFiring, AlertState::kResolved}) {
      all.records.push_back(Sample(full, state));
      groups.push_back({"a", {all.records.back()}, full ? "http://here" : ""});
    }
  }
  groups.push_back(all);
  for (const MessageGroup& group : groups) {
    const std::string text = Render(group);
    try {
      [[maybe_unused]] const auto parsed = nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
      const size_t from = error.byte > 40 ? error.byte - 40 : 0;
      return Status(Code::kInvalidArgument, "does not become JSON for " + KindOf(group) + ": at byte " +
                                                std::to_string(error.byte) + ", after '" +
                                                text.substr(from, error.byte - from) + "'");
    }
  }
  return OkStatus();
}

}  // namespace foreshock::notify
