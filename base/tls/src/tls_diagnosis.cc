#include "foreshock/base/tls_diagnosis.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "foreshock/base/socket.h"
#include "foreshock/base/tls_identity.h"
#include "tls_error.h"

namespace foreshock {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Endpoint {
  std::string host, port;
};

Endpoint Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  Endpoint out{address.substr(0, colon), colon == std::string::npos ? "" : address.substr(colon + 1)};
  if (out.host.size() > 2 && out.host.front() == '[') out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

// OpenSSL writes to sockets without MSG_NOSIGNAL, and whoever links this may not ignore SIGPIPE.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, old_;
  bool was_pending_ = false;
};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Of a server that lets the kernel accept and then hangs up before a word.
Status HungUp(const std::string& address) {
  return Status(
      Code::kResourceExhausted,
      "the server at " + address +
          " hangs up before a word: most likely it has as many connections as it takes, of this host "
          "or in all (its option max_connections; its log and "
          "foreshock_grpc_refused_connections_total say so). Else no gRPC server listens there");
}

bool IsHangUp(int error) { return error == ECONNRESET || error == EPIPE; }

Result<std::unique_ptr<Socket>> Dial(const std::string& address, SteadyTime deadline) {
  const Endpoint endpoint = Split(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
      error != 0) {
    return Status(Code::kUnavailable, "no such host '" + endpoint.host + "': " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, tls::Freer<::freeaddrinfo>> list(found);
  std::string why = "no address";
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    auto socket = std::make_unique<Socket>(
        ::socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol));
    if (socket->fd() < 0) continue;
    int error = ::connect(socket->fd(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      if (!WaitForSocket(socket->fd(), POLLOUT, deadline)) {
        error = ETIMEDOUT;
      } else {
        ::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return socket;
    if (IsHangUp(error)) return HungUp(address);  // between the kernel's accepting and our look at it
    why = std::system_category().message(error);
  }
  return Status(Code::kUnavailable, "nothing answers at " + address + ": " + why);
}

// What an HTTP/2 client says first; the server answers with its own settings.
constexpr char kPreface[] =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    "\0\0\0\4\0\0\0\0\0";  // an empty SETTINGS frame

// One TLS client connection; remembers whether the server asked for a certificate.
class Probe {
 public:
  explicit Probe(const TlsTarget& target)
      : target_(target), deadline_(std::chrono::steady_clock::now() + target.timeout) {}

  Status Run() {
    FS_RETURN_IF_ERROR(Prepare());
    FS_ASSIGN_OR_RETURN(const auto socket, Dial(target_.address, deadline_));
    if (SSL_set_fd(ssl_.get(), socket->fd()) != 1) return Status(Code::kInternal, tls::LastReason());
    const int shaken = Step(socket->fd(), [this] { return SSL_connect(ssl_.get()); });
    if (shaken != 1) return Explain(false);
    return AfterHandshake(socket->fd());
  }

 private:
  Status Prepare() {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr) return Status(Code::kInternal, tls::LastReason());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (target_.ca_file.empty()) {
      SSL_CTX_set_default_verify_paths(context_.get());
    } else {
      FS_ASSIGN_OR_RETURN(roots_, TlsRoots::Load("tls_ca", target_.ca_file));
      SSL_CTX_set1_verify_cert_store(context_.get(), roots_->store());
    }
    if (!target_.cert_file.empty()) {
      FS_ASSIGN_OR_RETURN(identity_,
                          TlsIdentity::Load("tls_cert", target_.cert_file, "tls_key", target_.key_file));
    }
    SSL_CTX_set_cert_cb(
        context_.get(),
        [](SSL* ssl, void* self) {
          auto* probe = static_cast<Probe*>(self);
          probe->asked_ = true;
          return probe->identity_ == nullptr || probe->identity_->UseIn(ssl) ? 1 : 0;
        },
        this);
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr) return Status(Code::kInternal, tls::LastReason());
    static constexpr unsigned char kAlpn[] = {2, 'h', '2'};
    SSL_set_alpn_protos(ssl_.get(), kAlpn, sizeof kAlpn);
    const std::string host = Split(target_.address).host;
    X509_VERIFY_PARAM* verify = SSL_get0_param(ssl_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(verify, host.c_str()) != 1) {
      tls::LastReason();
      X509_VERIFY_PARAM_set1_host(verify, host.c_str(), host.size());
      SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
    }
    return OkStatus();
  }

  template <typename Call>
  int Step(int fd, Call call) {
    for (;;) {
      ERR_clear_error();
      errno = 0;
      const int n = call();
      if (n > 0) return n;
      errno_ = errno;
      error_ = SSL_get_error(ssl_.get(), n);
      const short events = error_ == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
      if (error_ != SSL_ERROR_WANT_READ && error_ != SSL_ERROR_WANT_WRITE) return n;
      if (!WaitForSocket(fd, events, deadline_)) return -1;
    }
  }

  // In TLS 1.3 the server judges the client's certificate after the client is done: its first bytes tell.
  Status AfterHandshake(int fd) {
    Step(fd, [this] { return SSL_write(ssl_.get(), kPreface, sizeof kPreface - 1); });
    char byte = 0;
    return Step(fd, [&] { return SSL_read(ssl_.get(), &byte, 1); }) > 0 ? OkStatus() : Explain(true);
  }

  Status Explain(bool shaken) {
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (!shaken && verdict != X509_V_OK) return ExplainServer(verdict);
    if (error_ == SSL_ERROR_WANT_READ || error_ == SSL_ERROR_WANT_WRITE) {
      return Status(Code::kUnavailable,
                    "the server at " + target_.address + " is silent in the TLS handshake");
    }
    const unsigned long error = ERR_peek_last_error();
    const int reason = error == 0 ? 0 : ERR_GET_REASON(error);
    const std::string words = error == 0 ? "" : tls::LastReason();
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
      return Status(Code::kFailedPrecondition,
                    "the server at " + target_.address +
                        " does not talk TLS: leave out --tls and --tls-ca, or give "
                        "the server a certificate (--tls-cert)");
    }
    if (asked_) return ExplainClient(words);
    if (!shaken && error_ == SSL_ERROR_SYSCALL && IsHangUp(errno_)) return HungUp(target_.address);
    return Status(Code::kUnavailable, "the server at " + target_.address + " hung up in the TLS handshake" +
                                          (words.empty() ? "" : ": " + words));
  }

  Status ExplainServer(long verdict) {
    const std::string what = X509_verify_cert_error_string(verdict);
    std::string advice;
    switch (verdict) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
      case X509_V_ERR_CERT_NOT_YET_VALID:
        advice = "renew the server's certificate, and compare the clocks of both machines";
        break;
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        advice = "the certificate is not for '" + Split(target_.address).host +
                 "': use a name that it has, or issue one with this name as a subject alternative name";
        break;
      default:
        advice = target_.ca_file.empty()
                     ? "the system's roots did not issue it: give --tls-ca the CA that did"
                     : target_.ca_file + " did not issue it: give --tls-ca the CA that did";
    }
    return Status(Code::kPermissionDenied,
                  "the certificate of " + target_.address + " is not trusted: " + what + "; " + advice);
  }

  Status ExplainClient(const std::string& words) {
    const std::string start = "the server at " + target_.address;
    if (identity_ == nullptr) {
      return Status(Code::kPermissionDenied,
                    start + " wants a client certificate: give --tls-cert and --tls-key");
    }
    if (identity_->expired()) {
      return Status(Code::kPermissionDenied, start + " refuses the client certificate of " +
                                                 target_.cert_file + ": it expired on " +
                                                 UtcText(identity_->expires_unix_s()) + "; renew it");
    }
    return Status(Code::kPermissionDenied,
                  start + " refuses the client certificate of " + target_.cert_file + " (" +
                      identity_->subject() + ", issued by " + identity_->issuer() + ")" +
                      (words.empty() ? "" : ": " + words) +
                      "; it must lead to the server's client CA (tls_client_ca_file) and be valid");
  }

  const TlsTarget& target_;
  const SteadyTime deadline_;
  std::shared_ptr<const TlsRoots> roots_;
  std::shared_ptr<const TlsIdentity> identity_;
  tls::ContextPtr context_;
  tls::SslPtr ssl_;
  bool asked_ = false;
  int error_ = SSL_ERROR_NONE, errno_ = 0;
};

// Whether the server answers the first words of HTTP/2 without TLS, with anything.
Status GreetPlainly(const TlsTarget& target, SteadyTime deadline) {
  FS_ASSIGN_OR_RETURN(const auto socket, Dial(target.address, deadline));
  if (::send(socket->fd(), kPreface, sizeof kPreface - 1, MSG_NOSIGNAL) < 0 && IsHangUp(errno))
    return HungUp(target.address);
  char byte = 0;
  if (!WaitForSocket(socket->fd(), POLLIN, deadline)) return OkStatus();  // slow, not refused
  const ssize_t got = ::recv(socket->fd(), &byte, 1, 0);
  return got == 0 || (got < 0 && IsHangUp(errno)) ? HungUp(target.address) : OkStatus();
}

// A plain client: whoever hangs up on a first HTTP/2 frame, or answers with a TLS alert, talks TLS.
Status DiagnosePlain(const TlsTarget& target) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + target.timeout;
  FS_ASSIGN_OR_RETURN(const auto socket, Dial(target.address, deadline));
  TlsTarget with_tls = target;
  with_tls.tls = true;
  const Status as_tls = Probe(with_tls).Run();
  if (as_tls.ok() || as_tls.code() == Code::kPermissionDenied) {
    return Status(Code::kFailedPrecondition, "the server at " + target.address +
                                                 " talks TLS: give --tls-ca with the CA of its certificate");
  }
  return GreetPlainly(target, deadline);
}

}  // namespace

Status DiagnoseConnection(const TlsTarget& target) {
  const NoBrokenPipe no_broken_pipe;
  return target.tls ? Probe(target).Run() : DiagnosePlain(target);
}

}  // namespace foreshock
