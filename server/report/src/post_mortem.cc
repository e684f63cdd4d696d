#include "post_mortem.h"

#include <algorithm>

#include "html.h"
#include "published_cases.h"
#include "words.h"

namespace foreshock::report {
namespace {

constexpr size_t kMostHeads = 5;

bool WentWrong(const RunData& run) {
  return run.story.collapse_step || run.state == store::RunState::kFailed ||
         run.First(detect::Severity::kCritical) != nullptr;
}

// Rules about the measuring itself, which begin nothing.
bool IsAboutOperation(std::string_view rule) {
  return rule == "unmonitored" || rule == "two_writers" || rule == "stalled" || rule == "guard_missing";
}

// Whether an alert belongs to the story: of the deciding alert's incident, and in its layer or of the whole
// run. Without a critical alert: a warning that nothing but the run's end resolved.
bool Belongs(const alert::AlertRecord& record, const alert::AlertRecord* deciding) {
  const alert::Alert& a = record.alert;
  if (a.severity < detect::Severity::kWarning || IsAboutOperation(a.rule)) return false;
  if (deciding == nullptr) return a.state == alert::AlertState::kFiring || !record.resolved_because.empty();
  const alert::Alert& d = deciding->alert;
  return a.incident == d.incident && (d.layer < 0 || a.layer < 0 || a.layer == d.layer);
}

// Of the alerts that belong to the story the one whose evidence is the oldest; nullptr without any.
const alert::AlertRecord* Origin(const RunData& run, const alert::AlertRecord* deciding) {
  const alert::AlertRecord* origin = nullptr;
  for (const alert::AlertRecord& record : run.alerts) {
    if (!Belongs(record, deciding)) continue;
    if (origin == nullptr || record.alert.first_evidence_step < origin->alert.first_evidence_step)
      origin = &record;
  }
  return origin;
}

std::string Line(std::string_view term, const std::string& text) {
  return "<dt>" + std::string(term) + "</dt><dd>" + text + "</dd>\n";
}

std::string Began(const alert::Alert& a) {
  std::string text =
      "step <b>" + StepText(a.first_evidence_step) + "</b>, seen by <b>" + Escape(a.rule) + "</b>";
  if (a.layer >= 0) text += " in " + HeadText(a.layer, a.head);
  return text + "; alert at step " + StepText(a.fired_step) + "<small>" + Escape(a.summary) + "</small>";
}

// Heads in the order in which the story's alerts saw them go: "layer 0, head 2 (step 1,150)".
std::string Heads(const RunData& run, const alert::AlertRecord* deciding) {
  std::vector<const alert::Alert*> seen;
  for (const alert::AlertRecord& record : run.alerts) {
    const alert::Alert& a = record.alert;
    const bool in_story =
        deciding == nullptr ? Belongs(record, nullptr) : a.incident == deciding->alert.incident;
    if (a.head >= 0 && a.severity >= detect::Severity::kWarning && in_story) seen.push_back(&a);
  }
  std::stable_sort(seen.begin(), seen.end(), [](const alert::Alert* a, const alert::Alert* b) {
    return a->first_evidence_step < b->first_evidence_step;
  });
  std::vector<const alert::Alert*> heads;
  for (const alert::Alert* a : seen) {
    const bool known = std::any_of(heads.begin(), heads.end(), [&](const alert::Alert* other) {
      return other->layer == a->layer && other->head == a->head;
    });
    if (!known && heads.size() < kMostHeads) heads.push_back(a);
  }
  std::string text;
  for (const alert::Alert* a : heads) {
    text += (text.empty() ? "<b>" : ", then ") + HeadText(a->layer, a->head) + (text.empty() ? "</b>" : "") +
            " (step " + StepText(a->first_evidence_step) + ")";
  }
  return text;
}

std::string EvidenceSentence(const alert::Alert& a) {
  std::string text;
  for (const detect::Evidence& e : a.evidence) {
    text += (text.empty() ? "" : "; ") + Escape(e.name) + " <b>" + Number(e.value) + "</b>";
    if (e.baseline == e.baseline) text += " (normal " + Number(e.baseline) + ")";
  }
  return text;
}

std::string Checkpoint(const alert::AlertRecord& origin) {
  if (!origin.alert.last_checkpoint_step) return "the trainer told of none";
  std::string text = "step <b>" + StepText(*origin.alert.last_checkpoint_step) + "</b>";
  if (!origin.last_checkpoint.empty()) text += " " + Escape(origin.last_checkpoint);
  return text;
}

bool IsOfServer(const RunData& run, const std::string& action_id) {
  return std::any_of(run.actions.begin(), run.actions.end(),
                     [&](const v1::ActionRecord& record) { return record.action().id() == action_id; });
}

std::string Done(const RunData& run) {
  std::string text;
  // `state`: of an action; empty: what was done is all there is to say.
  const auto add = [&](int64_t step, const std::string& what, const std::string& state,
                       const std::string& layers, const std::string& effect) {
    text += "<div>step " + StepText(step) + ": <b>" + Escape(what) + "</b>";
    if (!state.empty()) text += " " + state;
    text += ", layers " + layers;
    if (!effect.empty()) text += "; largest logit " + effect;
    text += "</div>";
  };
  for (const v1::ActionRecord& record : run.actions) {
    add(record.state_step(), record.action().kind(), StateName(record.state()),
        LayersText(record.action().layers()), EffectText(record));
  }
  for (const wire::Event& event : run.events) {
    // The trainer's own guard tells what came of its switch in a later event, under an id of its own.
    const bool measured = event.logit_before || event.logit_after;
    const bool own = event.kind == wire::EventKind::kAction && measured && !IsOfServer(run, event.action_id);
    if (event.kind == wire::EventKind::kGuard) {
      add(event.step, "guard " + event.detail, "", LayersText(event.layers),
          measured ? EffectText(event) : "");
    } else if (own) {
      add(event.step, event.action, StateName(static_cast<v1::ActionState>(event.action_state)),
          LayersText(event.layers), EffectText(event));
    }
  }
  return text.empty() ? "nothing" : text;
}

std::string Cases(const alert::AlertRecord& deciding, const alert::AlertRecord& origin) {
  auto cases = PublishedCasesOf(deciding.alert.rule);
  if (cases.empty()) cases = PublishedCasesOf(origin.alert.rule);
  std::string text;
  for (const PublishedCase& c : cases) {
    text += "<div>" + Escape(c.text) + " <span class=\"dim\">" + Escape(c.source) + "</span></div>";
  }
  return text;
}

std::string PostMortem(const RunData& run) {
  std::string out = "<h3>" + Escape(run.run()) + "</h3><dl>\n";
  const alert::AlertRecord* deciding = DecidingAlert(run);
  const alert::AlertRecord* origin = Origin(run, deciding);
  if (origin == nullptr) origin = deciding;
  if (origin == nullptr) {
    out += Line("It began", "without an alert");
    out += Line("What was done", Done(run));
    return out + Line("How it stands", Verdict(run)) + "</dl>\n";
  }
  const alert::AlertRecord& told = deciding == nullptr ? *origin : *deciding;
  out += Line("It began", Began(origin->alert));
  if (const std::string heads = Heads(run, deciding); !heads.empty()) out += Line("Heads, in order", heads);
  if (const std::string evidence = EvidenceSentence(told.alert); !evidence.empty())
    out += Line("Evidence", evidence);
  out += Line("Last checkpoint before it", Checkpoint(*origin));
  out += Line("What was done", Done(run));
  out += Line("How it stands", Verdict(run));
  if (const std::string cases = Cases(told, *origin); !cases.empty())
    out += Line("What published runs did", cases);
  return out + "</dl>\n";
}

}  // namespace

std::string PostMortems(const std::vector<RunData>& runs) {
  std::string parts;
  for (const RunData& run : runs) {
    if (WentWrong(run)) parts += PostMortem(run);
  }
  return parts.empty() ? ""
                       : "<section class=\"story\" id=\"what-happened\"><h2>What happened</h2>\n" + parts +
                             "</section>\n";
}

}  // namespace foreshock::report
