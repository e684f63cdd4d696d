// Which column of a log is which signal. Private.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::cli {

// A signal, and for signals of heads whose.
struct Target {
  uint16_t signal = 0;
  std::optional<uint32_t> layer, head;
  auto operator<=>(const Target&) const = default;
};

class SignalNames {
 public:
  // `map` as in ImportOptions. kInvalidArgument for an entry that is not COLUMN=SIGNAL or names no signal.
  static Result<SignalNames> Create(const std::vector<std::string>& map);

  // The column's signal: as mapped, a catalogue's name, a name in common use ("train/loss", "lr"), or
  // "SIGNAL[LAYER,HEAD]". nullopt for other columns.
  std::optional<Target> Find(const std::string& column) const;
  // Columns of the map that were never asked for.
  std::vector<std::string> NeverSeen() const;

 private:
  std::map<std::string, std::optional<Target>> map_;  // no target: left out
  mutable std::map<std::string, bool> seen_;
};

// Whether the column counts optimizer steps, and how likely: 0 is no. The highest wins.
int StepColumnRank(std::string_view column);

}  // namespace foreshock::cli
