#include "foreshock/server/auth/listen.h"

#include <charconv>

#include "foreshock/base/socket.h"

namespace foreshock::auth {
namespace {

Status Malformed(std::string_view field, std::string_view address) {
  return Status(Code::kInvalidArgument, std::string(field) + ": '" + std::string(address) +
                                            "', must be HOST:PORT with a port of 0 to 65535");
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view field, std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Malformed(field, address);
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Malformed(field, address);
  }
  HostPort out;
  out.host = std::string(host);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  const bool number = error == std::errc() && end == port.data() + port.size() && !port.empty();
  if (host.empty() || !number || out.port < 0 || out.port > 65535) return Malformed(field, address);
  return out;
}

Status CheckListen(std::string_view field, const HostPort& address, const Protection& protection) {
  if (IsLoopback(address.host) || (protection.tls && protection.tokens)) return OkStatus();
  const std::string lacks = !protection.tls && !protection.tokens ? "TLS and tokens"
                            : !protection.tls                     ? "TLS"
                                                                  : "tokens";
  return Status(Code::kFailedPrecondition, std::string(field) + ": '" + address.host +
                                               "' can be reached from other machines, which needs " + lacks +
                                               "; listen on 127.0.0.1 without them");
}

}  // namespace foreshock::auth
