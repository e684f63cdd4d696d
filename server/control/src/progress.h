// What became of an action: pure functions over the events that name it.
#pragma once

#include <vector>

#include "foreshock/server/store/types.h"
#include "foreshock/v1/control.pb.h"
#include "foreshock/wire/types.h"

namespace foreshock::control {

// No event changes it any more, except an effect after "taken". A committed action is not over: it will be
// done.
bool IsOver(v1::ActionState state);

// The record anew from all events of its attempt (those of other actions are skipped). Over several ranks the
// furthest state counts; one rank's refusal counts until another one takes it. What the server itself has
// decided (committed, withdrawn, expired) stands until an event goes beyond it; nothing goes beyond
// withdrawn.
void Derive(const std::vector<store::StoredEvent>& events, v1::ActionRecord* record);

// proposed or delivered, and too late: `last_step` has reached the expiry step, or the attempt is over. What
// was committed expires with its attempt alone.
bool Expires(const v1::ActionRecord& record, int64_t last_step, bool attempt_over);

wire::Action ToWire(const v1::Action& action);

}  // namespace foreshock::control
