// Who hears of alerts. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "foreshock/server/alert/alert_service.h"

namespace foreshock::alert {

class Listeners {
 public:
  std::unique_ptr<store::Subscription> Add(AlertListener* listener) {
    std::lock_guard lock(state_->mutex);
    state_->listeners.push_back(listener);
    return std::make_unique<Entry>(state_, listener);
  }

  void Tell(const AlertRecord& record) {
    std::lock_guard lock(state_->mutex);
    for (AlertListener* listener : state_->listeners) listener->OnAlert(record);
  }

 private:
  struct State {
    std::mutex mutex;  // guards listeners; held while they are called, so that leaving waits for a call
    std::vector<AlertListener*> listeners;
  };
  // Shares the state, so that it may outlive the service.
  struct Entry final : store::Subscription {
    Entry(std::shared_ptr<State> s, AlertListener* l) : state(std::move(s)), listener(l) {}
    ~Entry() override {
      std::lock_guard lock(state->mutex);
      std::erase(state->listeners, listener);
    }
    std::shared_ptr<State> state;
    AlertListener* listener;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace foreshock::alert
