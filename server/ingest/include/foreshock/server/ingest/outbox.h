// What goes back to the trainers: actions and sampling changes, put in by control, sent by ingest.
#pragma once

#include <cstddef>
#include <string>

#include "foreshock/wire/types.h"

namespace foreshock::ingest {

// Keeps what is to be sent to the processes of an attempt, in memory (its user persists it and puts it in
// again after a restart). Each item goes at once to every connected source of the attempt and with the
// HelloAck to those that connect later, until it is withdrawn; a trainer takes an action id once, so
// repetition does no harm. Thread-safe; never blocks on the network.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // To be done. Replaces an action or a proposal of the same id.
  virtual void PutAction(const std::string& run, const std::string& attempt, const wire::Action& action) = 0;
  // To be acknowledged first (Hello.action_protocol 1). Replaces a proposal of the same id; an action stays.
  virtual void PutProposal(const std::string& run, const std::string& attempt,
                           const wire::Action& action) = 0;
  // Action or proposal: not sent any more. Nothing happens when it is unknown.
  virtual void WithdrawAction(const std::string& run, const std::string& attempt,
                              const std::string& action_id) = 0;
  // Replaces the sampling set before.
  virtual void SetSampling(const std::string& run, const std::string& attempt,
                           const wire::Sampling& sampling) = 0;
  // Sources of the attempt with an open stream.
  virtual size_t Connected(const std::string& run, const std::string& attempt) const = 0;
};

}  // namespace foreshock::ingest
