#include "foreshock/server/http/server.h"

#include <httplib.h>
#include <netdb.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "address_count.h"
#include "connection.h"
#include "foreshock/base/log_refused.h"
#include "foreshock/base/logging.h"

namespace foreshock::http {
namespace {

// Not the library's SO_REUSEPORT: two servers on one port would share its requests at random.
void SocketOptions(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

// Workers sit in idle connections, and stopping waits for them: short.
constexpr std::chrono::milliseconds kKeepAlive{1000};
constexpr int kRequestsPerConnection = 1000;

void IgnoreBrokenPipes() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

std::string AddressText(const sockaddr_storage& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  return text;
}

// Different ones that the name stands for.
size_t CountAddresses(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return 0;
  std::set<std::string> texts;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, at->ai_addr, at->ai_addrlen);
    texts.insert(AddressText(address, at->ai_addrlen));
  }
  ::freeaddrinfo(found);
  return texts.size();
}

// The library with connections of our own.
class ConnectionServer final : public httplib::Server {
 public:
  ConnectionServer(const ServerOptions& options, std::unique_ptr<TlsContext> context)
      : tls(std::move(context)),
        deadlines_{options.handshake_timeout, options.request_timeout, options.answer_timeout},
        addresses_(options.max_connections_per_address) {}

  // The library listens with a backlog of 5; a sixth connection at once would wait a second for its repeated
  // SYN.
  void WidenBacklog() { ::listen(svr_sock_, 128); }

  // The library listens at the first address of a name that can be had. That one, where there are several.
  std::string OneOfSeveral(const std::string& name) const {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::getsockname(svr_sock_, reinterpret_cast<sockaddr*>(&own), &size) != 0) return "";
    return CountAddresses(name) < 2 ? "" : AddressText(own, size);
  }

  const std::unique_ptr<TlsContext> tls;  // null: plain
  std::atomic<uint64_t> connections{0}, refused{0}, failed_handshakes{0};

 private:
  bool process_and_close_socket(socket_t fd) override {
    IgnoreBrokenPipes();  // this thread's: OpenSSL cannot ask for less
    Connection connection(fd, deadlines_);
    ++connections;
    if (!addresses_.Enter(connection.address())) {
      ++refused;
      TellRefused(&connection.address());
      return false;
    }
    TellRefused(nullptr);
    const bool done = Serve(&connection);
    addresses_.Leave(connection.address());
    return done;
  }

  // What waits to be told goes with the next connection, refused (`address`) or not.
  void TellRefused(const std::string* address) {
    std::lock_guard lock(refusals_mutex_);
    if (address != nullptr) refusals_.Note("their address has as many as it gets at a time", *address);
    for (const Refusals::Report& report : refusals_.Due(std::chrono::steady_clock::now())) {
      LogRefused("server/http", "HTTP connections refused", report);
    }
  }

  bool Serve(Connection* connection) {
    if (tls != nullptr && !connection->Accept(*tls)) {
      ++failed_handshakes;
      return false;
    }
    for (int left = kRequestsPerConnection; left > 0 && svr_sock_ != INVALID_SOCKET; --left) {
      if (!connection->AwaitRequest(kKeepAlive)) return true;
      bool closed = false;
      if (!process_request(*connection, left == 1, closed, nullptr)) return false;
      if (closed) return true;
    }
    return true;
  }

  const Deadlines deadlines_;
  AddressCount addresses_;
  std::mutex refusals_mutex_;  // guards what follows
  Refusals refusals_;
};

class HttplibServer final : public Server {
 public:
  HttplibServer(const ServerOptions& options, Routes routes, std::unique_ptr<TlsContext> tls)
      : routes_(std::move(routes)), server_(options, std::move(tls)) {
    server_.set_socket_options(SocketOptions);
    server_.set_payload_max_length(options.max_body_bytes);
    server_.set_keep_alive_timeout(kKeepAlive.count() / 1000);  // what answers announce
    server_.set_keep_alive_max_count(kRequestsPerConnection);
    server_.set_tcp_nodelay(true);
    const size_t threads = std::max<size_t>(options.threads, 1);
    server_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    const auto answer = [this](const httplib::Request& in, httplib::Response& out) { Answer(in, out); };
    // The page is nobody's frame, and what is no script is not run as one.
    server_.set_default_headers({{"X-Content-Type-Options", "nosniff"}, {"X-Frame-Options", "DENY"}});
    const char* all = ".*";
    server_.Get(all, answer).Post(all, answer).Put(all, answer).Delete(all, answer);
    server_.set_error_handler([](const httplib::Request&, httplib::Response& out) {
      if (out.body.empty()) out.set_content(Refusal(out.status), "application/json");
    });
  }

  ~HttplibServer() override { Stop(); }

  Status Listen(const ServerOptions& options) {
    port_ = options.port == 0 ? server_.bind_to_any_port(options.host)
                              : (server_.bind_to_port(options.host, options.port) ? options.port : -1);
    if (port_ <= 0) {
      return Status(Code::kUnavailable, "http address: " + options.host + ":" + std::to_string(options.port) +
                                            " cannot be listened on (taken, not of this machine, or below "
                                            "1024 without the right to). Stop what listens there (ss -ltnp "
                                            "names it), or choose another; port 0: any free one");
    }
    server_.WidenBacklog();
    if (const auto at = server_.OneOfSeveral(options.host); at != "") {
      LogWarning("server/http",
                 "listening at one address of this name only; name an address to choose another",
                 {{"name", options.host}, {"address", at}, {"port", port_}});
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // The socket listens already; Stop is only heard once the loop runs.
    while (!server_.is_running()) std::this_thread::yield();
    return OkStatus();
  }

  int port() const override { return port_; }

  Status ReloadCertificates() override { return server_.tls == nullptr ? OkStatus() : server_.tls->Reload(); }

  Stats stats() const override {
    return {.connections = server_.connections,
            .refused = server_.refused,
            .failed_handshakes = server_.failed_handshakes};
  }

  void Stop() override {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

 private:
  void Answer(const httplib::Request& in, httplib::Response& out) const {
    Request request;
    request.method = in.method;
    request.target = in.target;
    request.body = in.body;
    request.content_type = in.get_header_value("Content-Type");
    request.authorization = in.get_header_value("Authorization");
    request.host = in.get_header_value("Host");
    request.origin = in.get_header_value("Origin");
    request.remote_address = in.remote_addr;
    Response response = routes_.Dispatch(std::move(request));
    out.status = response.code;
    for (const auto& [name, value] : response.headers) out.set_header(name, value);
    out.set_content(std::move(response.body), response.content_type);
  }

  // What the library refuses by itself, e.g. a body over the limit (413) or no HTTP at all (400).
  static std::string Refusal(int code) {
    return "{\"error\":{\"code\":\"http " + std::to_string(code) +
           "\",\"message\":\"the request was refused\",\"field\":null}}\n";
  }

  const Routes routes_;
  ConnectionServer server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Routes routes) {
  if (options.port < 0 || options.port > 65535) {
    return Status(Code::kInvalidArgument, "port: " + std::to_string(options.port) + ", 0 to 65535");
  }
  std::unique_ptr<TlsContext> tls;
  if (!options.cert_file.empty()) {
    FS_ASSIGN_OR_RETURN(tls,
                        TlsContext::Create({options.cert_file, options.key_file, options.client_ca_file}));
  }
  auto server = std::make_unique<HttplibServer>(options, std::move(routes), std::move(tls));
  FS_RETURN_IF_ERROR(server->Listen(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace foreshock::http
