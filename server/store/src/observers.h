// The list of observers.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "foreshock/server/store/observer.h"

namespace foreshock::store {

class Observers {
 public:
  std::unique_ptr<Subscription> Add(Observer* observer) {
    std::lock_guard lock(list_->mutex);
    list_->observers.push_back(observer);
    return std::make_unique<Entry>(list_, observer);
  }

  template <typename Call>
  void Each(Call call) const {
    std::lock_guard lock(list_->mutex);
    for (Observer* observer : list_->observers) call(*observer);
  }

 private:
  struct List {
    std::mutex mutex;  // held while observers run; guards the list
    std::vector<Observer*> observers;
  };
  class Entry final : public Subscription {
   public:
    Entry(std::shared_ptr<List> list, Observer* observer) : list_(std::move(list)), observer_(observer) {}
    ~Entry() override {
      std::lock_guard lock(list_->mutex);
      std::erase(list_->observers, observer_);
    }

   private:
    const std::shared_ptr<List> list_;  // may outlive the store
    Observer* const observer_;
  };

  std::shared_ptr<List> list_ = std::make_shared<List>();
};

}  // namespace foreshock::store
