// Texts that users give for messages (docs/notifications.md): a closed set of names, conditions and lists, no
// code. Parsed once, checked at the start; rendering never fails. Immutable, thread-safe.
//
//   {{name}}                    the value, escaped for where it stands
//   {{#name}}...{{/name}}       once for each alert of a list (alerts, firing, resolved), else when not empty
//   {{^name}}...{{/name}}       when empty
//   {{! a comment}}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"

namespace foreshock::notify {

// One message: a run and what is told of it.
struct MessageGroup {
  std::string run;
  std::vector<alert::AlertRecord> records;  // not empty
  std::string url;                          // of the run's report; empty: none
};

class MessageTemplate {
 public:
  enum class Escape { kJson, kSlack };

  static constexpr size_t kMostBytes = 64 << 10;
  static constexpr size_t kMostDepth = 8;

  // kInvalidArgument "line 3, column 7: ..." for what is not a template; with kJson also when the text does
  // not become JSON for every kind of alert.
  static Result<MessageTemplate> Parse(std::string_view text, Escape escape);

  // With kJson the whole message; with kSlack the text that goes into one.
  std::string Render(const MessageGroup& group) const;

 private:
  friend class TemplateParser;
  enum class Kind : uint8_t { kText, kValue, kSection, kInverted };
  struct Node {
    Kind kind = Kind::kText;
    std::string text;  // or a name
    std::vector<Node> children;
  };
  struct Scope;

  std::string Escaped(const std::string& value) const;
  void RenderNodes(const std::vector<Node>& nodes, const Scope& scope, std::string* out) const;
  void RenderSection(const Node& node, const Scope& scope, std::string* out) const;
  Status CheckJson() const;

  std::vector<Node> nodes_;
  Escape escape_ = Escape::kJson;
};

}  // namespace foreshock::notify
