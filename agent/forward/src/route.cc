#include "route.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace foreshock::agent {
namespace {

// FNV-1a, then a finish that spreads the low bits: neighbours in name must not be neighbours in hash.
uint64_t HashOf(std::string_view address, std::string_view run) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto take = [&](char c) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3u;
  };
  for (const char c : address) take(c);
  take('\n');
  for (const char c : run) take(c);
  hash ^= hash >> 33;
  hash *= 0xFF51AFD7ED558CCDu;
  hash ^= hash >> 33;
  return hash;
}

}  // namespace

Result<std::vector<std::string>> SplitAddresses(std::string_view list) {
  std::vector<std::string> addresses;
  for (;;) {
    const size_t comma = list.find(',');
    const std::string address(list.substr(0, comma));
    if (address.empty()) return Status(Code::kInvalidArgument, "server address: empty");
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) {
      return Status(Code::kInvalidArgument, "server address: " + address + " stands there twice");
    }
    addresses.push_back(address);
    if (comma == std::string_view::npos) return addresses;
    list.remove_prefix(comma + 1);
  }
}

size_t RouteOf(const std::vector<std::string>& addresses, std::string_view run) {
  size_t best = 0;
  for (size_t i = 1; i < addresses.size(); ++i) {
    const auto rank = [&](size_t at) { return std::tuple(HashOf(addresses[at], run), addresses[at]); };
    if (rank(i) > rank(best)) best = i;
  }
  return best;
}

}  // namespace foreshock::agent
