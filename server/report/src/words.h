// What a report says about a run, a head or an action in a few words. Pure; the texts are HTML.
#pragma once

#include <string>

#include "run_data.h"

namespace foreshock::report {

std::string HeadText(int64_t layer, int64_t head);  // "layer 3, head 1"; "–" for the whole run
std::string StateName(store::RunState state);
std::string StateName(v1::ActionState state);
// The largest logit before and after, as measured: "180 → 3.5".
std::string EffectText(const v1::ActionRecord& record);
std::string EffectText(const wire::Event& guard);

// "all", or "0, 2".
template <typename Layers>
std::string LayersText(const Layers& layers) {
  std::string text;
  for (const uint32_t layer : layers) text += (text.empty() ? "" : ", ") + std::to_string(layer);
  return text.empty() ? "all" : text;
}

// The first critical alert of the incident that decided the run: of the last critical one that fired before
// the collapse, or of the last at all. nullptr without one.
const alert::AlertRecord* DecidingAlert(const RunData& run);

// The step at which the trainer's guard was first switched on; nullopt without one.
std::optional<int64_t> GuardStep(const RunData& run);
// How the run ended, or stands: "collapsed at step 1,340", "contained", "no alerts", ...
std::string Verdict(const RunData& run);

}  // namespace foreshock::report
