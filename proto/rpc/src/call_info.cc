#include "foreshock/rpc/call_info.h"

namespace foreshock::rpc {
namespace {

std::string TokenOf(const grpc::ServerContextBase& context) {
  constexpr std::string_view kBearer = "Bearer ";
  const auto it = context.client_metadata().find("authorization");
  if (it == context.client_metadata().end()) return "";
  const std::string_view value(it->second.data(), it->second.size());
  return value.starts_with(kBearer) ? std::string(value.substr(kBearer.size())) : "";
}

std::string IdentityOf(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return "";
  const auto names = auth->GetPeerIdentity();
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

}  // namespace

PeerInfo PeerOf(const grpc::ServerContextBase& context) {
  return {context.peer(), TokenOf(context), IdentityOf(context)};
}

}  // namespace foreshock::rpc
