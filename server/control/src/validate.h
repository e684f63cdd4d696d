// Is a request sensible, for this run?
#pragma once

#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::control {

// The attempt that a request means: the named one, or the newest. It must be the newest, and going on.
Result<store::AttemptInfo> LiveAttempt(const store::Store& store, const std::string& run,
                                       const std::string& attempt);

Status CheckAction(const v1::ActRequest& request, const store::AttemptInfo& attempt);
Status CheckSampling(const v1::Sampling& sampling);

}  // namespace foreshock::control
