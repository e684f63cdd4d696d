#include "outbox_impl.h"

#include <algorithm>

namespace foreshock::ingest {

void OutboxImpl::PutAction(const std::string& run, const std::string& attempt, const wire::Action& action) {
  std::lock_guard lock(mutex_);
  Box& box = boxes_[{run, attempt}];
  Erase(&box, action.id);
  box.actions.push_back(action);
  wire::Reply reply;
  reply.actions.push_back(action);
  SendToAll(box, reply);
}

void OutboxImpl::PutProposal(const std::string& run, const std::string& attempt, const wire::Action& action) {
  std::lock_guard lock(mutex_);
  Box& box = boxes_[{run, attempt}];
  const auto same = [&](const wire::Action& old) { return old.id == action.id; };
  if (std::any_of(box.actions.begin(), box.actions.end(), same)) return;
  std::erase_if(box.proposals, same);
  box.proposals.push_back(action);
  wire::Reply reply;
  reply.proposals.push_back(action);
  SendToAll(box, reply);
}

void OutboxImpl::WithdrawAction(const std::string& run, const std::string& attempt,
                                const std::string& action_id) {
  std::lock_guard lock(mutex_);
  const auto box = boxes_.find({run, attempt});
  if (box == boxes_.end()) return;
  Erase(&box->second, action_id);
}

void OutboxImpl::SetSampling(const std::string& run, const std::string& attempt,
                             const wire::Sampling& sampling) {
  std::lock_guard lock(mutex_);
  Box& box = boxes_[{run, attempt}];
  box.sampling = sampling;
  wire::Reply reply;
  reply.sampling = sampling;
  SendToAll(box, reply);
}

size_t OutboxImpl::Connected(const std::string& run, const std::string& attempt) const {
  std::lock_guard lock(mutex_);
  const auto box = boxes_.find({run, attempt});
  return box == boxes_.end() ? 0 : box->second.ends.size();
}

void OutboxImpl::Join(const std::string& run, const std::string& attempt,
                      const std::shared_ptr<StreamEnd>& end, wire::Reply hello) {
  std::lock_guard lock(mutex_);
  Box& box = boxes_[{run, attempt}];
  hello.actions = box.actions;
  hello.proposals = box.proposals;
  hello.sampling = box.sampling;
  box.ends.push_back(end);
  (void)end->Send(hello);  // false: already gone, Leave follows
}

void OutboxImpl::Leave(const std::string& run, const std::string& attempt,
                       const std::shared_ptr<StreamEnd>& end) {
  std::lock_guard lock(mutex_);
  const auto box = boxes_.find({run, attempt});
  if (box == boxes_.end()) return;
  std::erase(box->second.ends, end);
  const Box& left = box->second;
  const bool empty = left.ends.empty() && left.actions.empty() && left.proposals.empty() && !left.sampling;
  if (empty) boxes_.erase(box);
}

void OutboxImpl::CloseAll(const Status& status) {
  std::lock_guard lock(mutex_);
  for (auto& [key, box] : boxes_) {
    for (const auto& end : box.ends) end->Close(status);
  }
}

void OutboxImpl::Erase(Box* box, const std::string& id) {
  const auto same = [&](const wire::Action& action) { return action.id == id; };
  std::erase_if(box->actions, same);
  std::erase_if(box->proposals, same);
}

// A sender whose reply queue is full (1,024 wait) is not reading; it gets everything at its next Hello.
void OutboxImpl::SendToAll(const Box& box, const wire::Reply& reply) {
  for (const auto& end : box.ends) {
    if (!end->Send(reply)) end->Close(Status(Code::kUnavailable, "replies: the sender does not read them"));
  }
}

}  // namespace foreshock::ingest
