#include "acceptor.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "connection_book.h"

namespace foreshock::rpc {
namespace {

constexpr int kAtATime = 64;              // of one listener, before the others are looked at
constexpr int kWithoutDescriptors = 100;  // ms

// A reset, so that nothing of it stays behind here.
void Reset(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

std::string_view ReasonOf(Room room) {
  return room == Room::kShare ? "their host has its share of max_connections"
                              : "max_connections are taken, but for a rest that hosts with few of them get";
}

bool IsLackOfRoom(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, int user_timeout_ms) {
  FS_ASSIGN_OR_RETURN(Listeners listeners, ListenAt(address, user_timeout_ms));
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(listeners)));
  acceptor->wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (acceptor->wake_ >= 0) return acceptor;
  return Status(Code::kUnavailable, "grpc: no eventfd: " + std::system_category().message(errno));
}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(Take take, size_t most, TellRefused tell) {
  take_ = std::move(take);
  tell_ = std::move(tell);
  sigset_t every, old;
  sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &old);
  thread_ = std::thread([this, most] { Run(most); });
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int fd : listeners_.fds) ::close(fd);
  listeners_.fds.clear();
  if (wake_ >= 0) ::close(wake_);
  wake_ = -1;
}

void Acceptor::Run(size_t most) {
  ConnectionBook book(most);
  std::vector<pollfd> polled{{wake_, POLLIN, 0}};
  for (const int fd : listeners_.fds) polled.push_back({fd, POLLIN, 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), refusals_.WaitMs(std::chrono::steady_clock::now())) < 0) {
      // A lack of memory passes; a server that accepts nothing any more would not be noticed.
      if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(kWithoutDescriptors));
      continue;
    }
    if ((polled[0].revents & POLLIN) != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      for (int taken = 0; taken < kAtATime; ++taken) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        const int fd =
            ::accept4(polled[i].fd, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
          // The connection stays in the kernel's queue; it would be found at once again.
          if (IsLackOfRoom(errno)) ::poll(polled.data(), 1, kWithoutDescriptors);
          break;
        }
        const Room room = book.Enter(fd, peer, size, std::chrono::steady_clock::now());
        if (room == Room::kFree) {
          take_(polled[i].fd, fd);
        } else {
          Reset(fd);
          ++refused_;
          refusals_.Note(ReasonOf(room), HostText(peer));
        }
      }
    }
    for (const Refusals::Report& report : refusals_.Due(std::chrono::steady_clock::now())) {
      if (tell_) tell_(report);
    }
  }
}

}  // namespace foreshock::rpc
