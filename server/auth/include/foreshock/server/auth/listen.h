// Where a server may listen: beyond loopback only with TLS and tokens, because whoever reaches the ports
// could otherwise read runs, write into them and act on trainers.
#pragma once

#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock::auth {

struct HostPort {
  std::string host;
  int port = 0;
};

// "127.0.0.1:7071", "localhost:0", "[::1]:7071". kInvalidArgument naming `field` otherwise.
Result<HostPort> ParseHostPort(std::string_view field, std::string_view address);

struct Protection {
  bool tls = false;     // the port speaks TLS
  bool tokens = false;  // calls without a known token are refused
};

// kFailedPrecondition naming `field` when the address can be reached from elsewhere and a protection lacks.
Status CheckListen(std::string_view field, const HostPort& address, const Protection& protection);

}  // namespace foreshock::auth
