// What of a frame is sent: a number and labels each.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>

#include "foreshock/server/remote_write/relabel.h"
#include "foreshock/wire/types.h"

namespace foreshock::remote_write {

// Which series of a run a number belongs to. `stat` is empty for scalars and single heads.
struct SeriesName {
  uint16_t signal = 0;  // 0: the step
  uint32_t layer = 0xFFFFFFFF, head = 0xFFFFFFFF;
  const char* stat = "";
  std::strong_ordering operator<=>(const SeriesName& other) const {
    return std::tuple(signal, layer, head, std::string_view(stat)) <=>
           std::tuple(other.signal, other.layer, other.head, std::string_view(other.stat));
  }
};

// foreshock_NAME{run} for scalars; foreshock_NAME{run, layer, stat="max|median|min"} over the heads of a
// layer, a NaN among them makes all three NaN; with `per_head` foreshock_NAME_head{run, layer, head};
// foreshock_step{run}. The same names as on /metrics. Signals that this version does not know are left out.
void EachSample(const wire::Frame& frame, bool per_head,
                const std::function<void(const SeriesName& name, double value)>& each);

Labels LabelsOf(const std::string& run, const SeriesName& name);

}  // namespace foreshock::remote_write
