// What follows grpc:// in an address: host:port, and options after a question mark:
//   grpc://host:port?tls_ca=PATH&tls_cert=PATH&tls_key=PATH&token_file=PATH&tls=1
// Read by the exporter, to refuse mistakes early, and by libforeshock_grpc.so, to which the text is handed as
// it is. Header only, because these two link nothing of each other.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock::sdk {

struct GrpcTarget {
  std::string host_port;
  std::string ca_file, cert_file, key_file, token_file;  // empty: not given
  bool tls = false;                                      // one of the first three files means it, too
};

namespace grpc_target_internal {

inline Status Apply(std::string_view name, std::string_view value, GrpcTarget* target) {
  if (name == "tls") {
    if (value != "1" && value != "0") {
      return Status(Code::kInvalidArgument, "address: tls='" + std::string(value) + "', must be 0 or 1");
    }
    target->tls = value == "1";
    return OkStatus();
  }
  std::string* file = name == "tls_ca"       ? &target->ca_file
                      : name == "tls_cert"   ? &target->cert_file
                      : name == "tls_key"    ? &target->key_file
                      : name == "token_file" ? &target->token_file
                                             : nullptr;
  if (file == nullptr) {
    return Status(Code::kInvalidArgument, "address: '" + std::string(name) +
                                              "': no such option; known are tls, tls_ca, tls_cert, tls_key "
                                              "and token_file");
  }
  *file = std::string(value);
  return OkStatus();
}

inline std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace grpc_target_internal

// kInvalidArgument naming the option.
inline Result<GrpcTarget> ParseGrpcTarget(std::string_view text) {
  GrpcTarget target;
  const size_t mark = text.find('?');
  target.host_port = std::string(text.substr(0, mark));
  std::string_view rest = mark == std::string_view::npos ? std::string_view() : text.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find('&'));
    rest.remove_prefix(option.size() < rest.size() ? option.size() + 1 : rest.size());
    const size_t equals = option.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
    FS_RETURN_IF_ERROR(grpc_target_internal::Apply(option.substr(0, equals), value, &target));
  }
  return target;
}

// What the address leaves open comes from FORESHOCK_TLS_CA, _TLS_CERT, _TLS_KEY, _TOKEN_FILE, and
// FORESHOCK_CA_FILE, an older name of the first.
inline void FillFromEnvironment(GrpcTarget* target) {
  using grpc_target_internal::Variable;
  if (target->ca_file.empty()) target->ca_file = Variable("FORESHOCK_TLS_CA");
  if (target->ca_file.empty()) target->ca_file = Variable("FORESHOCK_CA_FILE");
  if (target->cert_file.empty()) target->cert_file = Variable("FORESHOCK_TLS_CERT");
  if (target->key_file.empty()) target->key_file = Variable("FORESHOCK_TLS_KEY");
  if (target->token_file.empty()) target->token_file = Variable("FORESHOCK_TOKEN_FILE");
}

}  // namespace foreshock::sdk
