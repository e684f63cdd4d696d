// The Outbox, and who is connected.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foreshock/server/ingest/outbox.h"
#include "stream_end.h"

namespace foreshock::ingest {

class OutboxImpl final : public Outbox {
 public:
  void PutAction(const std::string& run, const std::string& attempt, const wire::Action& action) override;
  void PutProposal(const std::string& run, const std::string& attempt, const wire::Action& action) override;
  void WithdrawAction(const std::string& run, const std::string& attempt,
                      const std::string& action_id) override;
  void SetSampling(const std::string& run, const std::string& attempt,
                   const wire::Sampling& sampling) override;
  size_t Connected(const std::string& run, const std::string& attempt) const override;

  // Sends `hello` with what the box holds for the attempt, and everything that is put in from now on until
  // Leave.
  void Join(const std::string& run, const std::string& attempt, const std::shared_ptr<StreamEnd>& end,
            wire::Reply hello);
  void Leave(const std::string& run, const std::string& attempt, const std::shared_ptr<StreamEnd>& end);
  // Closes every connected stream.
  void CloseAll(const Status& status);

 private:
  struct Box {
    std::vector<wire::Action> actions, proposals;
    std::optional<wire::Sampling> sampling;
    std::vector<std::shared_ptr<StreamEnd>> ends;
  };
  static void Erase(Box* box, const std::string& id);
  static void SendToAll(const Box& box, const wire::Reply& reply);

  mutable std::mutex mutex_;                                  // guards boxes_
  std::map<std::pair<std::string, std::string>, Box> boxes_;  // by run and attempt
};

}  // namespace foreshock::ingest
