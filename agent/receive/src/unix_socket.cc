#include "unix_socket.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace foreshock::agent {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 256;

Status SocketError(std::string_view call, const std::string& path) {
  const int error = errno;
  const Code code = error == EACCES || error == EPERM || error == EROFS ? Code::kPermissionDenied : Code::kIo;
  return Status(code, std::string(call) + " " + path + ": " + std::system_category().message(error));
}

Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? OkStatus() : SocketError("stat", path);
  if (!S_ISSOCK(info.st_mode)) return Status(Code::kAlreadyExists, path + ": exists and is not a socket");
  if (::unlink(path.c_str()) != 0) return SocketError("remove", path);
  return OkStatus();
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<Descriptor> ListenUnix(const std::string& path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument, "socket path: " + std::to_string(path.size()) + " bytes, 1 to " +
                                              std::to_string(sizeof address.sun_path - 1) + ": " + path);
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  FS_RETURN_IF_ERROR(RemoveStale(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return SocketError("socket", path);
  // Before bind, so that the file never has a wider mode; after it, because the umask may have narrowed it.
  ::fchmod(socket.get(), kSocketMode);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SocketError("bind", path);
  }
  if (::chmod(path.c_str(), kSocketMode) != 0) return SocketError("chmod", path);
  if (::listen(socket.get(), kBacklog) != 0) return SocketError("listen", path);
  return socket;
}

Descriptor AcceptUnix(const Descriptor& listener) {
  return Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

PeerCredentials CredentialsOf(const Descriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {true, credentials.pid, credentials.uid, credentials.gid};
}

Descriptor MakeEvent() { return Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void SignalEvent(const Descriptor& event) {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the event is signalled already.
  [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof one);
}

void DrainEvent(const Descriptor& event) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(event.get(), &count, sizeof count);
}

IoOutcome ReadSome(const Descriptor& socket, size_t limit, std::string* out) {
  const size_t before = out->size();
  out->resize(before + limit);
  ssize_t n;
  do {
    n = ::recv(socket.get(), out->data() + before, limit, 0);
  } while (n < 0 && errno == EINTR);
  out->resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
  if (n > 0) return IoOutcome::kOk;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return IoOutcome::kWouldBlock;
  return IoOutcome::kClosed;
}

IoOutcome WriteSome(const Descriptor& socket, std::string_view data, size_t* written) {
  *written = 0;
  ssize_t n;
  do {
    n = ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) {
    *written = static_cast<size_t>(n);
    return IoOutcome::kOk;
  }
  return errno == EAGAIN || errno == EWOULDBLOCK ? IoOutcome::kWouldBlock : IoOutcome::kClosed;
}

}  // namespace foreshock::agent
