// Why a client's connection to a gRPC server does not come about, in words that say what to do. gRPC itself
// says little: a server that refuses a client's certificate just hangs up.
#pragma once

#include <chrono>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock {

struct TlsTarget {
  std::string address;              // host:port; a name is resolved
  bool tls = false;                 // how the client tried
  std::string ca_file;              // empty: the system's roots
  std::string cert_file, key_file;  // the client's; empty: none
  std::chrono::milliseconds timeout{2000};
};

// Connects once, as a client with these files would, and hangs up. Blocks for at most the timeout (and the
// name's resolution). kUnavailable when nothing listens there or the server is silent; kPermissionDenied when
// certificates are the reason; kFailedPrecondition when only one end talks TLS; kResourceExhausted
// when the server hangs up before a word, as one does that has all connections that it takes;
// kInvalidArgument for files; ok when nothing was found wrong.
Status DiagnoseConnection(const TlsTarget& target);

}  // namespace foreshock
