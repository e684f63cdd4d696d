// file: a recording. Written records count as acknowledged: they are in the kernel's hands.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "foreshock/sdk/fork_guard.h"
#include "foreshock/wire/recording.h"
#include "link.h"

namespace foreshock::sdk {
namespace {

class FileLink final : public Link {
 public:
  FileLink(std::string path, bool json_lines, const Clock& clock)
      : path_(std::move(path)), json_lines_(json_lines), clock_(clock) {}
  ~FileLink() override { Stop(); }

  Status Start(const wire::Hello& hello) override {
    Stop();
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) return Failure("open");
    CloseInChild(fd_);
    // Frames belong to the last Hello before them, so two processes in one file could not be told apart
    // again. A file system without locks does not keep anyone from recording.
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      Stop();
      return Status(Code::kUnavailable,
                    path_ + ": another process writes there; each rank needs a file of its own");
    }
    struct stat info = {};
    if (fstat(fd_, &info) != 0) return Failure("stat");
    good_size_ = info.st_size;
    // A restart goes on in the same file; a line that a crash tore is ended first.
    std::string start = json_lines_ && TornLine() ? "\n" : "";
    // The recording holds one Hello for each process, not one for each time the disk came back.
    if (hello_written_ != hello) {
      if (json_lines_) {
        start += wire::JsonlHeader(hello);
      } else {
        wire::AppendRecord(wire::RecordType::kHello, wire::Encode(hello), &start);
      }
    }
    FS_RETURN_IF_ERROR(Write(start));
    hello_written_ = hello;
    hello_ = hello;
    greet_ = true;
    return OkStatus();
  }

  Status Pump(std::vector<wire::Reply>* replies) override {
    if (!greet_ && reported_ == written_seq_) return OkStatus();
    wire::Reply reply;
    reply.durable_seq = written_seq_;
    reply.time_unix_ns = static_cast<uint64_t>(clock_.WallNanos());
    if (greet_) {
      reply.hello = wire::HelloAck{hello_.attempt, hello_.attempt_source, written_seq_, 0};
    }
    greet_ = false;
    reported_ = written_seq_;
    replies->push_back(std::move(reply));
    return OkStatus();
  }

  Status Send(wire::RecordType type, std::string payload, uint64_t seq) override {
    std::string bytes;
    if (json_lines_) {
      FS_ASSIGN_OR_RETURN(bytes, Line(type, payload));
    } else {
      wire::AppendRecord(type, payload, &bytes);
    }
    FS_RETURN_IF_ERROR(Write(bytes));
    written_seq_ = seq;
    return OkStatus();
  }

  bool Drained() const override { return true; }

  void Stop() override {
    if (fd_ < 0) return;
    ForgetInChild(fd_);
    close(fd_);
    fd_ = -1;
  }

 private:
  Status Failure(const char* what) const {
    return Status(Code::kIo, std::string(what) + " " + path_ + ": " + std::strerror(errno));
  }

  bool TornLine() const {
    char last = '\n';
    return good_size_ > 0 && pread(fd_, &last, 1, good_size_ - 1) == 1 && last != '\n';
  }

  Result<std::string> Line(wire::RecordType type, const std::string& payload) const {
    if (type == wire::RecordType::kFrame) {
      FS_ASSIGN_OR_RETURN(const wire::Frame frame, wire::DecodeFrame(payload));
      return wire::JsonlLine(hello_, frame);
    }
    if (type == wire::RecordType::kEvent) {
      FS_ASSIGN_OR_RETURN(const wire::Event event, wire::DecodeEvent(payload));
      return wire::JsonlLine(event);
    }
    FS_ASSIGN_OR_RETURN(const wire::Goodbye goodbye, wire::DecodeGoodbye(payload));
    return wire::JsonlLine(goodbye);
  }

  // All or nothing: what a failed write left is cut off, so that a full disk leaves no torn record behind.
  Status Write(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        if (n == 0) errno = ENOSPC;
        Status failure = Failure("write");
        if (done > 0 && ftruncate(fd_, good_size_) != 0) failure = failure.Annotate("torn record left");
        return failure;
      }
      done += static_cast<size_t>(n);
    }
    good_size_ += static_cast<off_t>(bytes.size());
    return OkStatus();
  }

  const std::string path_;
  const bool json_lines_;
  const Clock& clock_;
  int fd_ = -1;
  off_t good_size_ = 0;
  wire::Hello hello_, hello_written_;
  bool greet_ = false;
  uint64_t written_seq_ = 0;
  uint64_t reported_ = 0;
};

}  // namespace

std::unique_ptr<Link> MakeFileLink(std::string path, bool json_lines, const Clock& clock) {
  return std::make_unique<FileLink>(std::move(path), json_lines, clock);
}

}  // namespace foreshock::sdk
