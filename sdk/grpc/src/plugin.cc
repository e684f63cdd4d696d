// libforeshock_grpc.so: the exporter's grpc:// link behind a C table (sdk/exporter's grpc_plugin.h).
#include <cstdio>
#include <new>

#include "foreshock/sdk/grpc_plugin.h"
#include "foreshock/sdk/grpc_stream_link.h"

using foreshock::Code;
using foreshock::sdk::GrpcStreamLink;

struct fs_grpc_link {
  fs_grpc_link(const char* target, const char* token, std::string hello)
      : link(target, token, std::move(hello)) {}
  GrpcStreamLink link;
};

namespace {

fs_grpc_link* Start(const char* target, const char* token, const void* hello, size_t size) {
  try {
    return new fs_grpc_link(target, token, std::string(static_cast<const char*>(hello), size));
  } catch (...) {
    return nullptr;
  }
}

int Send(fs_grpc_link* link, int type, const void* payload, size_t size) {
  try {
    const auto status = link->link.Send(static_cast<foreshock::wire::RecordType>(type),
                                        std::string(static_cast<const char*>(payload), size));
    if (status.ok()) return FS_GRPC_OK;
    return status.code() == Code::kResourceExhausted ? FS_GRPC_LATER : FS_GRPC_DOWN;
  } catch (...) {
    return FS_GRPC_LATER;
  }
}

int Poll(fs_grpc_link* link, fs_grpc_reply_fn reply, void* context, char* error, size_t error_size) {
  try {
    std::vector<std::string> replies;
    const auto status = link->link.Poll(&replies);
    for (const std::string& bytes : replies) reply(context, bytes.data(), bytes.size());
    if (status.ok()) return FS_GRPC_OK;
    std::snprintf(error, error_size, "%s", status.message().c_str());
    if (status.code() == Code::kInvalidArgument) return FS_GRPC_REFUSED;
  } catch (...) {
    std::snprintf(error, error_size, "no memory");
  }
  return FS_GRPC_DOWN;
}

int Drained(fs_grpc_link* link) { return link->link.Drained() ? 1 : 0; }

void Stop(fs_grpc_link* link) { delete link; }

constexpr fs_grpc_plugin kPlugin = {foreshock::sdk::kGrpcPluginVersion, Start, Send, Poll, Drained, Stop};

}  // namespace

extern "C" __attribute__((visibility("default"))) const fs_grpc_plugin* fs_grpc_plugin_v1(void) {
  return &kPlugin;
}
