// Copies of the silences at an Alertmanager, so that it tells nobody of what is silenced here: it is told of
// every alert all the same, because an alert that it no longer hears of resolves there. One owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "foreshock/server/alert/silences.h"
#include "foreshock/server/notify/notifier.h"

namespace foreshock::notify {

class SilenceCopies {
 public:
  // `silences` may be null: then there is nothing to copy.
  SilenceCopies(const Target& target, alert::Silences* silences, const Clock* clock);

  // Creates and deletes what is due there. False when something has to be tried again later.
  bool Sync();
  // True while an alert must be kept from the Alertmanager: silenced here, and not there yet.
  bool Withheld(const alert::Alert& alert) const;

 private:
  bool Create(const alert::Silence& silence);
  bool Delete(const alert::Silence& silence, const std::string& there);
  // Its id at the Alertmanager when a copy is there already (made before a crash); kUnavailable without an
  // answer.
  Result<std::string> FindCopy(const alert::Silence& silence) const;

  const Target& target_;
  alert::Silences* const silences_;
  const Clock* const clock_;
  const std::string root_;
  uint64_t synced_version_ = 0;
  bool synced_ = false;
};

// The body of POST /api/v2/silences.
std::string SilencePayload(const alert::Silence& silence);
// "gpt-*" as a regular expression of RE2 that matches whole values.
std::string PatternToRegex(const std::string& pattern);

}  // namespace foreshock::notify
