// The C interface between the exporter and libforeshock_grpc.so, which is loaded on demand because gRPC must
// not live in every trainer. Bytes only: nothing of either side's C++ crosses.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

struct fs_grpc_link;

enum { FS_GRPC_OK = 0, FS_GRPC_LATER = 1, FS_GRPC_DOWN = 2, FS_GRPC_REFUSED = 3 };

// Called for every reply, an encoded IngestReply.
typedef void (*fs_grpc_reply_fn)(void* context, const void* bytes, size_t size);

struct fs_grpc_plugin {
  uint32_t version;  // kGrpcPluginVersion
  // Begins a stream to host:port whose first message is `hello`. Does not wait. NULL when there is no memory.
  struct fs_grpc_link* (*start)(const char* target, const char* token, const void* hello, size_t hello_size);
  // Takes a copy of one record (type as in the link's framing). FS_GRPC_LATER: too much is waiting.
  int (*send)(struct fs_grpc_link* link, int type, const void* payload, size_t size);
  // Hands over the replies that have arrived. FS_GRPC_DOWN: the stream has ended, `error` says why;
  // FS_GRPC_REFUSED: because the server refused the Hello for good (INVALID_ARGUMENT).
  int (*poll)(struct fs_grpc_link* link, fs_grpc_reply_fn reply, void* context, char* error,
              size_t error_size);
  // 1 when everything taken has been written to the transport.
  int (*drained)(struct fs_grpc_link* link);
  // Ends the stream and frees the link.
  void (*stop)(struct fs_grpc_link* link);
};

// The library's only export, by this name.
typedef const struct fs_grpc_plugin* (*fs_grpc_plugin_fn)(void);
}

namespace foreshock::sdk {
inline constexpr uint32_t kGrpcPluginVersion = 1;
inline constexpr char kGrpcPluginSymbol[] = "fs_grpc_plugin_v1";
inline constexpr char kGrpcPluginLibrary[] = "libforeshock_grpc.so";
}  // namespace foreshock::sdk
