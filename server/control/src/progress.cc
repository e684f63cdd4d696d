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
    case v1::ACTION_STATE_REFUSED:
      return 3;
    case v1::ACTION_STATE_EXPIRED:
      return 3;
    case v1::ACTION_STATE_TAKEN:
      return 4;
    case v1::ACTION_STATE_EFFECTIVE:
      return 5;
    case v1::ACTION_STATE_NO_EFFECT:
      return 5;
    default:
      return 0;
  }
}

void Apply(const wire::Event& event, v1::ActionRecord* record) {
  v1::Event& history = *record->add_history();
  (void)history.ParseFromString(wire::Encode(event));
  const auto state = static_cast<v1::ActionState>(event.action_state);
  if (Rank(state) < Rank(record->state())) return;
  record->set_state(state);
  record->set_state_step(event.step);
  record->set_detail(event.detail);
  if (event.logit_before) record->set_logit_before(*event.logit_before);
  if (event.logit_after) record->set_logit_after(*event.logit_after);
}

}  // namespace

bool IsOver(v1::ActionState state) { return Rank(state) >= 3; }

void Derive(const std::vector<store::StoredEvent>& events, v1::ActionRecord* record) {
  const v1::ActionRecord before = *record;
  record->set_state(v1::ACTION_STATE_PROPOSED);
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
  if (before.state() == v1::ACTION_STATE_EXPIRED && !IsOver(record->state())) {
    record->set_state(before.state());
    record->set_state_step(before.state_step());
    record->set_detail(before.detail());
  }
}

bool Expires(const v1::ActionRecord& record, int64_t last_step, bool attempt_over) {
  if (IsOver(record.state())) return false;
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
  return out;
}

}  // namespace foreshock::control
