// Wire messages as what the detector reads. Pure functions, thread-safe.
#pragma once

#include <vector>

#include "foreshock/server/detect/detector.h"
#include "foreshock/server/detect/step_sample.h"
#include "foreshock/wire/types.h"

namespace foreshock::alert {

// The shape of a run; qk_norm when every layer normalises q and k.
detect::RunInfo RunInfoOf(const wire::Hello& hello);

// What the hello says about parts that are not measured, as events for the first step.
std::vector<detect::StepEvent> UnmonitoredOf(const wire::Hello& hello);

// Adds the series of a frame, merged over ranks, to a sample. Parts of one step may be added one after the
// other. Left out: partial series (values_per_head > 1: the merge adds them up first), ratios without a
// denominator (missing), update_* values of heads whose directions rotated inside the window.
void AddFrame(const wire::Frame& frame, detect::StepSample* sample);

// Add the event to the sample of its step, or of the next step there is.
void AddEvent(const wire::Event& event, detect::StepSample* sample);
void AddGoodbye(const wire::Goodbye& goodbye, detect::StepSample* sample);

}  // namespace foreshock::alert
