// grpc:// straight to a server, through a library that is loaded when first needed.
#include <dlfcn.h>

#include "foreshock/sdk/grpc_plugin.h"
#include "link.h"

namespace foreshock::sdk {
namespace {

// The library stays loaded: gRPC's own threads may outlive a link.
Result<const fs_grpc_plugin*> Load(const std::string& library) {
  const char* name = library.empty() ? kGrpcPluginLibrary : library.c_str();
  int flags = RTLD_NOW | RTLD_LOCAL;
#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Another protobuf in the process must not be taken for the library's own.
  flags |= RTLD_DEEPBIND;
#endif
  void* handle = dlopen(name, flags);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status(Code::kNotFound,
                  std::string("grpc:// needs ") + name + ": " + (why == nullptr ? "?" : why));
  }
  const auto get = reinterpret_cast<fs_grpc_plugin_fn>(dlsym(handle, kGrpcPluginSymbol));
  const fs_grpc_plugin* plugin = get == nullptr ? nullptr : get();
  if (plugin == nullptr || plugin->version != kGrpcPluginVersion) {
    return Status(Code::kUnimplemented, std::string(name) + ": not a library of this version");
  }
  return plugin;
}

class GrpcLink final : public Link {
 public:
  GrpcLink(std::string target, std::string library, std::string token)
      : target_(std::move(target)), library_(std::move(library)), token_(std::move(token)) {}
  ~GrpcLink() override { Stop(); }

  Status Start(const wire::Hello& hello) override {
    Stop();
    if (plugin_ == nullptr) {
      FS_ASSIGN_OR_RETURN(plugin_, Load(library_));
    }
    const std::string bytes = wire::Encode(hello);
    link_ = plugin_->start(target_.c_str(), token_.c_str(), bytes.data(), bytes.size());
    if (link_ == nullptr) return Status(Code::kResourceExhausted, "grpc://" + target_ + ": no memory");
    return OkStatus();
  }

  Status Pump(std::vector<wire::Reply>* replies) override {
    if (link_ == nullptr) return Status(Code::kUnavailable, "grpc://" + target_ + ": not connected");
    Incoming incoming{replies, OkStatus()};
    char error[256] = "";
    const int state = plugin_->poll(link_, OnReply, &incoming, error, sizeof error);
    FS_RETURN_IF_ERROR(incoming.status);
    if (state == FS_GRPC_REFUSED) return Status(Code::kInvalidArgument, error);
    if (state == FS_GRPC_DOWN) return Status(Code::kUnavailable, "grpc://" + target_ + ": " + error);
    return OkStatus();
  }

  Status Send(wire::RecordType type, std::string payload, uint64_t) override {
    if (link_ == nullptr) return Status(Code::kUnavailable, "grpc://" + target_ + ": not connected");
    switch (plugin_->send(link_, static_cast<int>(type), payload.data(), payload.size())) {
      case FS_GRPC_OK:
        return OkStatus();
      case FS_GRPC_LATER:
        return Status(Code::kResourceExhausted, "the server reads slowly");
      default:
        return Status(Code::kUnavailable, "grpc://" + target_ + ": the stream has ended");
    }
  }

  bool Drained() const override { return link_ == nullptr || plugin_->drained(link_) != 0; }

  void Stop() override {
    if (link_ != nullptr) plugin_->stop(link_);
    link_ = nullptr;
  }

 private:
  struct Incoming {
    std::vector<wire::Reply>* replies;
    Status status;
  };
  static void OnReply(void* context, const void* bytes, size_t size) {
    auto* incoming = static_cast<Incoming*>(context);
    auto reply = wire::DecodeReply({static_cast<const char*>(bytes), size});
    if (reply.ok()) {
      incoming->replies->push_back(std::move(reply).value());
    } else {
      incoming->status = Status(Code::kDataLoss, reply.status().message());
    }
  }

  const std::string target_, library_, token_;
  const fs_grpc_plugin* plugin_ = nullptr;
  fs_grpc_link* link_ = nullptr;
};

}  // namespace

std::unique_ptr<Link> MakeGrpcLink(std::string target, std::string library, std::string token) {
  return std::make_unique<GrpcLink>(std::move(target), std::move(library), std::move(token));
}

}  // namespace foreshock::sdk
