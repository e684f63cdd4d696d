#include "progress.h"

#include "foreshock/wire/codec.h"

namespace foreshock::control {
namespace {

int Rank(v1::ActionState state) {
  switch (state) {
    case v1::ACTION_STATE_PROPOSED:
      return 1;
    case v1::ACTION_STATE_DELIVERED:
      return 2;
    case v1::ACTION_STATE_COMMITTED:
      return 3;
    case v1::ACTION_STATE_REFUSED:
    case v1::ACTION_STATE_EXPIRED:
      return 4;
    case v1::ACTION_STATE_TAKEN:
      return 5;
    case v1::ACTION_STATE_EFFECTIVE:
    case v1::ACTION_STATE_NO_EFFECT:
      return 6;
    case v1::ACTION_STATE_WITHDRAWN:
      return 7;
    default:
      return 0;
  }
}

void Apply(const wire::Event& event, v1::ActionRecord* record) {
  v1::Event& history = *record->add_history();
  (void)history.ParseFromString(wire::Encode(event));
  const auto state = static_cast<v1::ActionState>(event.action_state);
  // A trainer cannot commit or withdraw, whatever it sends; what it answers to a proposal is the agreement's
  // affair (agreement.h).
  if (state == v1::ACTION_STATE_ACKNOWLEDGED || state == v1::ACTION_STATE_COMMITTED ||
      state == v1::ACTION_STATE_WITHDRAWN || (state == v1::ACTION_STATE_REFUSED && record->two_phase()) ||
      (record->two_phase() && !record->action().committed())) {
    return;
  }
  if (Rank(state) < Rank(record->state())) return;
  record->set_state(state);
  record->set_state_step(event.step);
  record->set_detail(event.detail);
  if (event.logit_before) record->set_logit_before(*event.logit_before);
  if (event.logit_after) record->set_logit_after(*event.logit_after);
}

}  // namespace

bool IsOver(v1::ActionState state) { return Rank(state) >= 4; }

void Derive(const std::vector<store::StoredEvent>& events, v1::ActionRecord* record) {
  const v1::ActionRecord before = *record;
  record->set_state(record->action().committed() ? v1::ACTION_STATE_COMMITTED : v1::ACTION_STATE_PROPOSED);
  record->set_state_step(0);
  record->clear_detail();
  record->clear_logit_before();
  record->clear_logit_after();
  record->clear_history();
  for (const store::StoredEvent& stored : events) {
    if (stored.event.kind == wire::EventKind::kAction && stored.event.action_id == record->action().id()) {
      Apply(stored.event, record);
    }
  }
  // What the server itself said stands until the trainer says more.
  const bool decided = before.state() == v1::ACTION_STATE_WITHDRAWN ||
                       (before.state() == v1::ACTION_STATE_EXPIRED && !IsOver(record->state())) ||
                       (before.action().committed() && record->state() == v1::ACTION_STATE_COMMITTED &&
                        before.state() == v1::ACTION_STATE_COMMITTED);
  if (decided) {
    record->set_state(before.state());
    record->set_state_step(before.state_step());
    record->set_detail(before.detail());
  }
}

bool Expires(const v1::ActionRecord& record, int64_t last_step, bool attempt_over) {
  if (IsOver(record.state())) return false;
  if (record.action().committed()) return attempt_over;
  return attempt_over || (record.action().expiry_step() > 0 && last_step >= record.action().expiry_step());
}

wire::Action ToWire(const v1::Action& action) {
  wire::Action out;
  out.id = action.id();
  out.kind = action.kind();
  out.attempt = action.attempt();
  out.issuer = action.issuer();
  out.effective_step = action.effective_step();
  out.expiry_step = action.expiry_step();
  out.layers.assign(action.layers().begin(), action.layers().end());
  out.value = action.value();
  out.reason = action.reason();
  out.committed = action.committed();
  return out;
}

}  // namespace foreshock::control
