// What of a server's reply is for the trainer.
#pragma once

#include <optional>

#include "foreshock/wire/types.h"

namespace foreshock::wire {

// Actions, proposals, sampling and errors; acknowledgements and greetings are between the agent and the
// server. nullopt: there is nothing for the trainer.
std::optional<Reply> ForTrainer(const Reply& reply);

}  // namespace foreshock::wire
