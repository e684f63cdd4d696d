// The sockets that listen at an address.
#pragma once

#include <netdb.h>

#include <string>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::rpc {

// Owned by whoever has them.
struct Listeners {
  std::vector<int> fds;
  int port = 0;  // of all of them
};

// HOST:PORT, port 0: any free one. A name is resolved, and all its addresses that this machine has are
// listened on, or none; 0.0.0.0 and [::] mean all addresses, IPv6 included where there is any.
// kInvalidArgument for what is no such address; kUnavailable when it cannot be listened on.
// `user_timeout_ms`: how long sent bytes may stay unconfirmed before a connection counts as dead.
Result<Listeners> ListenAt(const std::string& address, int user_timeout_ms);

// At the addresses that the name stands for.
Result<Listeners> ListenAtAll(const std::string& name, const addrinfo* addresses, int port,
                              int user_timeout_ms);

}  // namespace foreshock::rpc
