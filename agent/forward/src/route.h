// Which of several servers a run belongs to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::agent {

// "a:1,b:2" apart. kInvalidArgument for none, an empty one, or one that stands there twice.
Result<std::vector<std::string>> SplitAddresses(std::string_view list);

// Rendezvous hashing: the address whose hash together with the run's name is highest. The same for every order of the
// addresses and on every machine. `addresses` must not be empty.
size_t RouteOf(const std::vector<std::string>& addresses, std::string_view run);

}  // namespace foreshock::agent
