// One HTTP request at a time. Thread-safe: no state.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::http {

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds read_timeout{15000};  // without a byte
  std::map<std::string, std::string> headers;
  std::string ca_file;              // https: roots of the server's certificate; empty: the system's
  std::string cert_file, key_file;  // https: this client's certificate; empty: none
};

struct ClientResponse {
  int code = 0;
  std::string body;
};

// Any answer is ok, whatever its code. kInvalidArgument for a URL that is not http(s)://host[:port][/path];
// kUnavailable when there is no answer.
Result<ClientResponse> Get(const std::string& url, const ClientOptions& options = {});
Result<ClientResponse> Post(const std::string& url, const std::string& body, const std::string& content_type,
                            const ClientOptions& options = {});
Result<ClientResponse> Delete(const std::string& url, const ClientOptions& options = {});

}  // namespace foreshock::http
