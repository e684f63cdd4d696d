// From the flat records of the step path to the wire's messages. Background thread; allocates freely.
#pragma once

#include "foreshock/sdk/step_sampler.h"
#include "foreshock/wire/types.h"

namespace foreshock::sdk {

// seq is left 0. A column that is in use but has no present head travels as all missing.
wire::Frame ToFrame(const FrameLayout& layout, const FrameSlot& slot);
wire::Event ToEvent(const EventSlot& slot);

}  // namespace foreshock::sdk
