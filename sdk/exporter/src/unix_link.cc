// unix: the node's agent. A non-blocking stream socket that carries framed records both ways.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "foreshock/base/file.h"
#include "foreshock/base/socket_folder.h"
#include "foreshock/sdk/fork_guard.h"
#include "link.h"

namespace foreshock::sdk {
namespace {

constexpr size_t kMaxBuffered = 1u << 20;  // bytes handed over but not yet taken by the kernel
constexpr size_t kMaxReply = 4u << 20;

// What a person can do about a connect() that failed.
std::string ToDo(int error) {
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      return "; no agent listens there: start foreshock-agent, or foreshock up";
    case EACCES:
      return "; this process runs as uid " + std::to_string(geteuid()) +
             ": put it into the group of the socket (ls -l), or name another agent's";
    default:
      return "";
  }
}

class UnixLink final : public Link {
 public:
  explicit UnixLink(std::string path) : path_(std::move(path)) {}
  ~UnixLink() override { Stop(); }

  Status Start(const wire::Hello& hello) override {
    Stop();
    // Before every attempt: the folder may have been made meanwhile.
    FS_RETURN_IF_ERROR(CheckSocketFolder(ParentPath(path_)));
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return Failure("socket");
    CloseInChild(fd_);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), std::min(path_.size(), sizeof address.sun_path - 1));
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      const Status failure = Failure("connect");
      Stop();
      return Status(failure.code(), failure.message() + ToDo(error));
    }
    parser_ = wire::RecordParser(kMaxReply);
    buffer_.clear();
    wire::AppendRecord(wire::RecordType::kHello, wire::Encode(hello), &buffer_);
    return Flush();
  }

  Status Pump(std::vector<wire::Reply>* replies) override {
    if (fd_ < 0) return Status(Code::kUnavailable, path_ + ": not connected");
    FS_RETURN_IF_ERROR(Flush());
    // What came before a hang-up still counts, so replies are read to the end first.
    const Status received = Receive();
    FS_RETURN_IF_ERROR(Parse(replies));
    return received;
  }

  Status Send(wire::RecordType type, std::string payload, uint64_t) override {
    if (fd_ < 0) return Status(Code::kUnavailable, path_ + ": not connected");
    if (buffer_.size() >= kMaxBuffered) return Status(Code::kResourceExhausted, "the agent reads slowly");
    wire::AppendRecord(type, payload, &buffer_);
    return OkStatus();
  }

  bool Drained() const override { return buffer_.empty(); }

  void Stop() override {
    if (fd_ < 0) return;
    ForgetInChild(fd_);
    close(fd_);
    fd_ = -1;
    buffer_.clear();
  }

 private:
  Status Failure(const char* what) const {
    const Code code = errno == ENOENT || errno == ECONNREFUSED ? Code::kNotFound : Code::kUnavailable;
    return Status(code, std::string(what) + " " + path_ + ": " + std::strerror(errno));
  }

  Status Flush() {
    size_t done = 0;
    Status status;
    while (done < buffer_.size()) {
      const ssize_t n = send(fd_, buffer_.data() + done, buffer_.size() - done, MSG_NOSIGNAL);
      if (n > 0) {
        done += static_cast<size_t>(n);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR) {
        status = Failure("send to");
        break;
      }
    }
    buffer_.erase(0, done);
    return status;
  }

  Status Receive() {
    char bytes[16384];
    for (;;) {
      const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
      if (n > 0) {
        parser_.Feed({bytes, static_cast<size_t>(n)});
      } else if (n == 0) {
        return Status(Code::kUnavailable, path_ + ": the agent hung up");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return OkStatus();
      } else if (errno != EINTR) {
        return Failure("receive from");
      }
    }
  }

  Status Parse(std::vector<wire::Reply>* replies) {
    for (;;) {
      FS_ASSIGN_OR_RETURN(auto record, parser_.Next());
      if (!record.has_value()) return OkStatus();
      if (record->type != wire::RecordType::kReply) continue;
      auto reply = wire::DecodeReply(record->payload);
      if (!reply.ok()) return Status(Code::kDataLoss, path_ + ": " + reply.status().message());
      replies->push_back(std::move(reply).value());
    }
  }

  const std::string path_;
  int fd_ = -1;
  std::string buffer_;
  wire::RecordParser parser_{kMaxReply};
};

}  // namespace

std::unique_ptr<Link> MakeUnixLink(std::string path) { return std::make_unique<UnixLink>(std::move(path)); }

}  // namespace foreshock::sdk
