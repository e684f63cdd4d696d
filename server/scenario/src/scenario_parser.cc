#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/rules/number.h"
#include "scenario_data.h"

namespace foreshock::scenario {
namespace {

using detect::StepEvent;
using rules::Number;
using rules::RuleError;

constexpr size_t kMaxBytes = 4 << 20;
constexpr int64_t kMostValues = 20'000'000;  // of all heads and samples of one scenario

Place PlaceOf(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

std::string Quoted(const std::string& text) { return "'" + text.substr(0, 60) + "'"; }

std::string KeyOf(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : ""; }

const std::map<std::string, StepEvent::Kind>& EventKinds() {
  static const std::map<std::string, StepEvent::Kind> kinds = {
      {"checkpoint", StepEvent::Kind::kCheckpoint},
      {"resume", StepEvent::Kind::kResume},
      {"phase", StepEvent::Kind::kPhase},
      {"eval", StepEvent::Kind::kEval},
      {"guard_on", StepEvent::Kind::kGuardOn},
      {"guard_off", StepEvent::Kind::kGuardOff},
      {"guard_missing", StepEvent::Kind::kGuardMissing},
      {"finished", StepEvent::Kind::kFinished},
      {"failed", StepEvent::Kind::kFailed},
      {"unmonitored", StepEvent::Kind::kUnmonitored},
      {"note", StepEvent::Kind::kNote}};
  return kinds;
}

class Parser {
 public:
  explicit Parser(ScenarioFile* file) : file_(file) {}

  void Root(const YAML::Node& root) {
    Scenario defaults;
    std::vector<YAML::Node> scenarios;
    auto fields = ScenarioFields(&defaults);
    for (const char* own : {"name", "series", "events", "expect"}) fields.erase(own);
    fields["rules"] = [&](const YAML::Node& node) {
      Text("rules", node, &file_->rules);
      file_->rules_place = PlaceOf(node);
    };
    fields["scenarios"] = [&](const YAML::Node& node) {
      if (!node.IsSequence() || node.size() == 0)
        return Fail(node, "scenarios: expected a list of scenarios");
      for (const auto& item : node) scenarios.push_back(item);
    };
    if (!Map("the file", root, fields)) return;
    if (scenarios.empty() && file_->errors.empty()) Fail(root, "scenarios: missing");
    for (const YAML::Node& node : scenarios) One(node, defaults);
  }

  void Fail(const YAML::Node& node, std::string message) {
    const Place place = PlaceOf(node);
    file_->errors.push_back({place.line, place.column, std::move(message)});
  }

 private:
  using Reader = std::function<void(const YAML::Node&)>;
  using Fields = std::map<std::string, Reader>;

  bool Map(const std::string& what, const YAML::Node& node, const Fields& fields) {
    if (!node.IsMap()) {
      Fail(node, what + ": expected a map");
      return false;
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = KeyOf(entry.first);
      const auto field = fields.find(key);
      if (field == fields.end()) {
        Fail(entry.first, what + ": " + Quoted(key) + ": unknown key");
      } else if (!seen.insert(key).second) {
        Fail(entry.first, what + ": " + key + ": given twice");
      } else {
        field->second(entry.second);
      }
    }
    return true;
  }

  void Text(const std::string& field, const YAML::Node& node, std::string* to) {
    if (!node.IsScalar() || node.Scalar().empty() || node.Scalar().size() > 1000) {
      return Fail(node, field + ": expected a text of 1 to 1000 bytes");
    }
    *to = node.Scalar();
  }

  template <typename T, typename To>
  void Int(const std::string& field, const YAML::Node& node, T least, T most, To* to) {
    const auto value = node.IsScalar() ? Number<T>(node.Scalar()) : std::nullopt;
    if (!value || *value < least || *value > most) {
      return Fail(node, field + ": " + Quoted(KeyOf(node)) + ": expected " + std::to_string(least) + " to " +
                            std::to_string(most));
    }
    *to = *value;
  }

  void Bool(const std::string& field, const YAML::Node& node, bool* to) {
    const std::string text = KeyOf(node);
    if (text != "true" && text != "false") return Fail(node, field + ": expected true or false");
    *to = text == "true";
  }

  // "200" or "200..300".
  void Range(const std::string& field, const YAML::Node& node, std::optional<StepRange>* to) {
    const std::string text = KeyOf(node);
    const size_t dots = text.find("..");
    const auto first = Number<int64_t>(std::string_view(text).substr(0, dots));
    const auto last =
        dots == std::string::npos ? first : Number<int64_t>(std::string_view(text).substr(dots + 2));
    if (!first || !last || *first > *last) {
      return Fail(node, field + ": " + Quoted(text) + ": expected a step or a range like 200..300");
    }
    *to = StepRange{*first, *last};
  }

  Fields ScenarioFields(Scenario* s) {
    constexpr int64_t kMostStep = 1'000'000'000;
    return {
        {"name", [=, this](const YAML::Node& n) { Text("name", n, &s->name); }},
        {"run", [=, this](const YAML::Node& n) { Text("run", n, &s->run); }},
        {"model", [=, this](const YAML::Node& n) { Model(n, &s->model); }},
        {"first_step",
         [=, this](const YAML::Node& n) { Int<int64_t>("first_step", n, 0, kMostStep, &s->first_step); }},
        {"every", [=, this](const YAML::Node& n) { Int<int64_t>("every", n, 1, 1'000'000, &s->every); }},
        {"until", [=, this](const YAML::Node& n) { Int<int64_t>("until", n, 1, kMostStep, &s->until); }},
        {"healthy", [=, this](const YAML::Node& n) { Bool("healthy", n, &s->healthy); }},
        {"nothing_else", [=, this](const YAML::Node& n) { Bool("nothing_else", n, &s->nothing_else); }},
        {"series", [=, this](const YAML::Node& n) { Series(n, s); }},
        {"events",
         [=, this](const YAML::Node& n) {
           List("events", n, [=, this](const YAML::Node& e) { Event(e, s); });
         }},
        {"expect",
         [=, this](const YAML::Node& n) {
           List("expect", n, [=, this](const YAML::Node& e) { Expect(e, s); });
         }},
    };
  }

  void List(const std::string& field, const YAML::Node& node, const Reader& each) {
    if (!node.IsSequence()) return Fail(node, field + ": expected a list");
    for (const auto& item : node) each(item);
  }

  void One(const YAML::Node& node, const Scenario& defaults) {
    Scenario scenario = defaults;
    scenario.place = PlaceOf(node);
    const size_t before = file_->errors.size();
    if (!Map("scenario", node, ScenarioFields(&scenario))) return;
    if (scenario.name.empty()) Fail(node, "scenario: name: missing");
    if (scenario.expectations.empty() && !scenario.nothing_else) {
      Fail(node, "scenario: expect: missing; where nothing may fire, say nothing_else: true");
    }
    if (file_->errors.size() == before) CheckSize(node, &scenario);
    file_->scenarios.push_back(std::move(scenario));
  }

  void CheckSize(const YAML::Node& node, Scenario* s) {
    int64_t samples = 0;
    for (const Line& line : s->lines) {
      samples = std::max(samples, line.curve.samples());
      if (!line.scalar &&
          (line.layer.value_or(0) >= s->model.layers || line.head.value_or(0) >= s->model.heads)) {
        Fail(node, "series: a layer or head beyond the model's " + std::to_string(s->model.layers) +
                       " layers of " + std::to_string(s->model.heads) + " heads");
      }
    }
    if (s->until < 0) s->until = s->first_step + samples * s->every;
    samples = (s->until - s->first_step + s->every - 1) / s->every;
    const int64_t heads = std::max<int64_t>(int64_t{s->model.layers} * s->model.heads, 1);
    if (samples < 1) Fail(node, "scenario: no samples: give series, or until beyond first_step");
    if (samples > kMostSamples || samples * heads > kMostValues) {
      Fail(node, "scenario: " + std::to_string(samples) + " samples of " + std::to_string(heads) +
                     " heads, at most " + std::to_string(kMostSamples) + " and " +
                     std::to_string(kMostValues) + " values");
    }
  }

  void Model(const YAML::Node& node, detect::RunInfo* model) {
    Map("model", node,
        {{"layers", [&](const YAML::Node& n) { Int<uint32_t>("layers", n, 0, 4096, &model->layers); }},
         {"heads", [&](const YAML::Node& n) { Int<uint32_t>("heads", n, 0, 4096, &model->heads); }},
         {"kv_heads", [&](const YAML::Node& n) { Int<uint32_t>("kv_heads", n, 0, 4096, &model->kv_heads); }},
         {"head_dim", [&](const YAML::Node& n) { Int<uint32_t>("head_dim", n, 0, 65536, &model->head_dim); }},
         {"qk_norm", [&](const YAML::Node& n) { Bool("qk_norm", n, &model->qk_norm); }}});
  }

  // "loss", "logit_max", "logit_max[1]", "logit_max[1,3]".
  bool Target(const YAML::Node& node, Line* line) {
    const std::string key = KeyOf(node);
    const size_t open = key.find('[');
    const SignalInfo* info = FindSignal(std::string_view(key).substr(0, open));
    if (!info) {
      Fail(node,
           "series: " + Quoted(key.substr(0, open)) + ": no such signal; `foreshock catalogue` lists all");
      return false;
    }
    line->signal = info->id;
    line->scalar = info->scope == SignalScope::kScalar;
    if (open == std::string::npos) return true;
    const std::string_view inside = std::string_view(key).substr(open + 1);
    const size_t comma = inside.find(','), close = inside.find(']');
    const bool two = comma != std::string_view::npos;
    const auto layer = Number<uint32_t>(inside.substr(0, std::min(comma, close)));
    const auto head = two && close != std::string_view::npos && close > comma
                          ? Number<uint32_t>(inside.substr(comma + 1, close - comma - 1))
                          : std::nullopt;
    if (line->scalar || close != inside.size() - 1 || !layer || (two && !head)) {
      Fail(node, "series: " + Quoted(key) +
                     ": expected SIGNAL, or for signals of heads SIGNAL[LAYER] or "
                     "SIGNAL[LAYER,HEAD]");
      return false;
    }
    line->layer = layer;
    line->head = head;
    return true;
  }

  void Series(const YAML::Node& node, Scenario* s) {
    if (!node.IsMap()) return Fail(node, "series: expected a map of signals and values");
    for (const auto& entry : node) {
      Line line;
      if (!Target(entry.first, &line)) continue;
      YAML::Node values = entry.second;
      if (values.IsMap()) {
        YAML::Node text;
        Map("series", entry.second,
            {{"values", [&](const YAML::Node& n) { text.reset(n); }},
             {"noise", [&](const YAML::Node& n) {
                const auto noise = n.IsScalar() ? Number<double>(n.Scalar()) : std::nullopt;
                if (!noise || !(*noise >= 0 && *noise <= 1e12))
                  return Fail(n, "noise: expected a number from 0 up");
                line.noise = *noise;
              }}});
        values.reset(text);
      }
      auto curve = Curve::Parse(KeyOf(values));
      if (!curve.ok()) {
        Fail(values.IsDefined() && !values.IsNull() ? values : entry.first,
             KeyOf(entry.first) + ": " + curve.status().message());
        continue;
      }
      line.curve = *std::move(curve);
      s->lines.push_back(std::move(line));
    }
  }

  void Event(const YAML::Node& node, Scenario* s) {
    StepEvents at;
    StepEvent event;
    bool has_step = false, has_kind = false;
    Map("events", node,
        {{"step",
          [&](const YAML::Node& n) {
            has_step = true;
            Int<int64_t>("step", n, 0, 1'000'000'000, &at.step);
          }},
         {"kind",
          [&](const YAML::Node& n) {
            has_kind = true;
            const auto kind = EventKinds().find(KeyOf(n));
            if (kind != EventKinds().end()) {
              event.kind = kind->second;
              at.event = event;
            } else if (KeyOf(n) == "skipped") {
              at.skipped = true;
            } else {
              std::string known = "skipped";
              for (const auto& [name, value] : EventKinds()) known += ", " + name;
              Fail(n, "kind: " + Quoted(KeyOf(n)) + ": expected one of " + known);
            }
          }},
         {"layer", [&](const YAML::Node& n) { Int<int32_t>("layer", n, 0, 4095, &event.layer); }},
         {"detail", [&](const YAML::Node& n) { Text("detail", n, &event.text); }},
         {"silent_seconds", [&](const YAML::Node& n) {
            has_kind = true;
            Int<int64_t>("silent_seconds", n, 1, 1'000'000'000, &at.silent_seconds);
          }}});
    if (!has_step || !has_kind) return Fail(node, "events: needs a step, and a kind or silent_seconds");
    if (at.event) at.event = event;
    s->events.push_back(std::move(at));
  }

  void Expect(const YAML::Node& node, Scenario* s) {
    Expectation e;
    e.place = PlaceOf(node);
    Map("expect", node,
        {{"rule", [&](const YAML::Node& n) { Text("rule", n, &e.rule); }},
         {"severity",
          [&](const YAML::Node& n) {
            for (const auto severity :
                 {detect::Severity::kInfo, detect::Severity::kWarning, detect::Severity::kCritical}) {
              if (KeyOf(n) == detect::SeverityName(severity)) e.severity = severity;
            }
            if (!e.severity)
              Fail(n, "severity: " + Quoted(KeyOf(n)) + ": expected info, warning or critical");
          }},
         {"never", [&](const YAML::Node& n) { Bool("never", n, &e.never); }},
         {"fires", [&](const YAML::Node& n) { Range("fires", n, &e.fires); }},
         {"resolves", [&](const YAML::Node& n) { Range("resolves", n, &e.resolves); }},
         {"first_evidence", [&](const YAML::Node& n) { Range("first_evidence", n, &e.first_evidence); }},
         {"at_end",
          [&](const YAML::Node& n) {
            if (KeyOf(n) != "firing" && KeyOf(n) != "resolved")
              return Fail(n, "at_end: expected firing or resolved");
            e.fires_at_end = KeyOf(n) == "firing";
          }},
         {"layer", [&](const YAML::Node& n) { Int<int32_t>("layer", n, -1, 4095, &e.layer); }},
         {"head", [&](const YAML::Node& n) { Int<int32_t>("head", n, -1, 4095, &e.head); }},
         {"last_checkpoint", [&](const YAML::Node& n) {
            Int<int64_t>("last_checkpoint", n, 0, 1'000'000'000, &e.last_checkpoint);
          }}});
    if (e.rule.empty()) return Fail(node, "expect: rule: missing");
    const bool says_more =
        e.fires || e.resolves || e.first_evidence || e.fires_at_end || e.layer || e.head || e.last_checkpoint;
    if (e.never && says_more) Fail(node, "expect: never: and more about it");
    s->expectations.push_back(std::move(e));
  }

  ScenarioFile* const file_;
};

}  // namespace

ScenarioFile ParseScenarioFile(std::string_view text) {
  ScenarioFile file;
  if (text.size() > kMaxBytes) {
    file.errors.push_back(
        {1, 1, std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxBytes)});
    return file;
  }
  try {
    Parser(&file).Root(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    file.errors.push_back(
        {std::max(error.mark.line, 0) + 1, std::max(error.mark.column, 0) + 1, "not YAML: " + error.msg});
  }
  return file;
}

void CheckRuleNames(const detect::UserRulesPtr& rules, ScenarioFile* file) {
  const auto known = [&](const std::string& name) {
    if (detect::FindRule(name)) return true;
    return rules &&
           std::any_of(rules->begin(), rules->end(), [&](const auto& rule) { return rule.name == name; });
  };
  for (const Scenario& scenario : file->scenarios) {
    for (const Expectation& e : scenario.expectations) {
      if (known(e.rule)) continue;
      file->errors.push_back(
          {e.place.line, e.place.column, "expect: rule: " + Quoted(e.rule) + ": no such rule"});
    }
  }
}

}  // namespace foreshock::scenario
