#include "foreshock/wire/reply.h"

namespace foreshock::wire {

std::optional<Reply> ForTrainer(const Reply& reply) {
  if (reply.actions.empty() && reply.proposals.empty() && !reply.sampling && !reply.error)
    return std::nullopt;
  Reply down;
  down.actions = reply.actions;
  down.proposals = reply.proposals;
  down.sampling = reply.sampling;
  down.error = reply.error;
  return down;
}

}  // namespace foreshock::wire
