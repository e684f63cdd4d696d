// fs_tests_hostile MODE ADDRESS COUNT [TOKEN]: a client that means harm, for tests of who bears it. ADDRESS
// is host:port of a server's gRPC, or unix:PATH of an agent. On stdout one JSON object: how many of COUNT
// tries were refused, and the last reason. Modes:
//   names      as many streams, each with a run of another name
//   utf8       Hellos whose run is no UTF-8
//   giant      messages of 17 MiB (unix: records that announce 2 GiB)
//   fat        Hellos of 8 MiB, with a million layers
//   rehello    Hello after Hello on one stream
//   garbage    records of random bytes, with every type, behind a good Hello
//   deaf       one stream that sends COUNT records and reads no reply, until it is closed or has sent all
//   silent     streams (unix, tcp: connections) that say nothing, held until standard input ends
//   tcp        the same with plain connections to ADDRESS
//   idle       the same, and each begins to talk HTTP/2 and then says nothing
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/socket.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/wire/codec.h"

namespace {

using namespace foreshock;
using wire::RecordType;

struct Tally {
  uint64_t tries = 0, refused = 0;
  std::string reason;
  void Count(const Status& status) {
    ++tries;
    if (status.ok()) return;
    ++refused;
    reason = status.message();
  }
};

// `process`: each has its own, so that none takes over from another.
wire::Hello HelloOf(const std::string& run, uint64_t process = 0) {
  wire::Hello hello;
  hello.run = run;
  hello.attempt = "1";
  hello.incarnation = 666 + 10'000 * process;
  hello.model.layers.resize(1);
  hello.model.layers[0].query_heads = hello.model.layers[0].kv_heads = 1;
  hello.model.layers[0].head_dim = 8;
  return hello;
}

std::string EventOf(uint64_t seq) {
  wire::Event event;
  event.seq = seq;
  event.detail = std::string(2000, 'x');
  return wire::Encode(event);
}

std::string FatHello() {
  wire::Hello hello = HelloOf("evil/fat");
  hello.model.layers.resize(1'000'000, hello.model.layers[0]);
  for (size_t i = 0; i < hello.model.layers.size(); ++i)
    hello.model.layers[i].layer = static_cast<uint32_t>(i);
  return wire::Encode(hello);
}

std::string RandomBytes(std::mt19937_64& random) {
  std::string bytes(random() % 300, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// A way to send records and to hear whether they were taken.
class Way {
 public:
  virtual ~Way() = default;
  virtual Status Send(RecordType type, const std::string& payload) = 0;
  // Waits for a reply; what was wrong with what was sent, if it says so.
  virtual Status Hear() = 0;
};

class GrpcWay final : public Way {
 public:
  GrpcWay(const std::shared_ptr<rpc::Channel>& channel) {
    auto opened = rpc::OpenIngestStream(channel, std::chrono::seconds(30));
    if (opened.ok()) stream_ = std::move(opened).value();
    opened_ = opened.status();
  }
  ~GrpcWay() override {
    if (stream_ != nullptr) stream_->Cancel();
  }
  Status Send(RecordType type, const std::string& payload) override {
    FS_RETURN_IF_ERROR(opened_);
    return stream_->Write(type, payload);
  }
  Status Hear() override {
    FS_RETURN_IF_ERROR(opened_);
    auto reply = stream_->Read();
    FS_RETURN_IF_ERROR(reply.status());
    if (!reply->has_value()) return Status(Code::kUnavailable, "closed");
    return (*reply)->error ? Status(Code::kInvalidArgument, (*reply)->error->message) : OkStatus();
  }

 private:
  std::unique_ptr<rpc::IngestStream> stream_;
  Status opened_;
};

class UnixWay final : public Way {
 public:
  explicit UnixWay(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      opened_ = Status(Code::kUnavailable, "connect");
    }
  }
  ~UnixWay() override { close(fd_); }
  Status Send(RecordType type, const std::string& payload) override {
    std::string bytes;
    wire::AppendRecord(type, payload, &bytes);
    return SendBytes(bytes);
  }
  Status SendBytes(std::string_view bytes) {
    FS_RETURN_IF_ERROR(opened_);
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return Status(Code::kUnavailable, "closed while sending");
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return OkStatus();
  }
  Status Hear() override {
    FS_RETURN_IF_ERROR(opened_);
    char bytes[4096];
    for (;;) {
      auto record = parser_.Next();
      FS_RETURN_IF_ERROR(record.status());
      if (record->has_value()) {
        const auto reply = wire::DecodeReply((*record)->payload);
        FS_RETURN_IF_ERROR(reply.status());
        return reply->error ? Status(Code::kInvalidArgument, reply->error->message) : OkStatus();
      }
      const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
      if (got <= 0) return Status(Code::kUnavailable, "closed");
      parser_.Feed({bytes, static_cast<size_t>(got)});
    }
  }

 private:
  const int fd_;
  Status opened_;
  wire::RecordParser parser_;
};

class Client {
 public:
  Client(std::string address, const char* token) : address_(std::move(address)) {
    if (address_.starts_with("unix:")) return;
    rpc::ChannelOptions options;
    options.address = address_;
    options.token = token;
    options.max_message_bytes = 64u << 20;  // the server's limit is what is tried
    channel_ = rpc::Channel::Create(options).value();
  }
  bool local() const { return channel_ == nullptr; }
  std::unique_ptr<Way> Open() {
    if (local()) return std::make_unique<UnixWay>(address_.substr(5));
    return std::make_unique<GrpcWay>(channel_);
  }

 private:
  const std::string address_;
  std::shared_ptr<rpc::Channel> channel_;
};

Status Greet(Way& way, const std::string& hello) {
  const Status sent = way.Send(RecordType::kHello, hello);
  const Status heard = way.Hear();  // the reason, where sending failed
  return heard.ok() ? sent : heard;
}

Status Giant(Way& way, bool local, uint64_t process) {
  FS_RETURN_IF_ERROR(Greet(way, wire::Encode(HelloOf("evil/giant", process))));
  if (local) {
    // The head of a record whose length is 2 GiB; nobody may make room for it.
    return static_cast<UnixWay&>(way).SendBytes(std::string("FSK1\x01\x02\x00\x00\xff\xff\xff\x7f", 12)).ok()
               ? way.Hear()
               : Status(Code::kUnavailable, "closed");
  }
  const Status sent = way.Send(RecordType::kEvent, std::string(17u << 20, 'x'));
  const Status heard = way.Hear();
  return heard.ok() ? sent : heard;
}

Status Garbage(Way& way, std::mt19937_64& random, uint64_t process) {
  FS_RETURN_IF_ERROR(Greet(way, wire::Encode(HelloOf("evil/garbage", process))));
  for (int i = 0; i < 50; ++i) {
    // No second Hello, no reply: those end the stream.
    const auto type = static_cast<RecordType>(2 + random() % 3);
    FS_RETURN_IF_ERROR(way.Send(type, RandomBytes(random)));
  }
  return way.Hear();
}

Status Deaf(Way& way, uint64_t records) {
  FS_RETURN_IF_ERROR(Greet(way, wire::Encode(HelloOf("evil/deaf"))));
  for (uint64_t seq = 1; seq <= records; ++seq)
    FS_RETURN_IF_ERROR(way.Send(RecordType::kEvent, EventOf(seq)));
  return OkStatus();
}

void HoldUntilTold() {
  std::printf("held\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

// What a client of HTTP/2 says first, with an empty SETTINGS frame.
constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

void Tcp(const std::string& address, uint64_t count, std::string_view first_words) {
  LiftFileLimit();
  std::vector<int> held;
  const size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  for (uint64_t i = 0; i < count; ++i) {
    held.push_back(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in from = {};  // another address than the good ones have
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7F000009);
    if (bind(held.back(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) break;
    if (connect(held.back(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) break;
    (void)!send(held.back(), first_words.data(), first_words.size(), MSG_NOSIGNAL);  // it may have been reset
  }
  HoldUntilTold();
}

Status Try(const std::string& mode, Client& client, uint64_t number, uint64_t count,
           std::mt19937_64& random) {
  const auto way = client.Open();
  if (mode == "names") return Greet(*way, wire::Encode(HelloOf("evil/" + std::to_string(number))));
  if (mode == "utf8") return Greet(*way, wire::Encode(HelloOf("evil\xff\xfe\xc0")));
  if (mode == "giant") return Giant(*way, client.local(), number);
  if (mode == "fat") return Greet(*way, FatHello());
  if (mode == "garbage") return Garbage(*way, random, number);
  if (mode == "deaf") return Deaf(*way, count);
  if (mode != "rehello") return Status(Code::kInvalidArgument, "no such mode");
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    // Another incarnation each time.
    wire::Hello next = HelloOf("evil/rehello", number);
    next.incarnation += static_cast<uint64_t>(i);
    status = Greet(*way, wire::Encode(next));
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string mode = argv[1], address = argv[2];
  const uint64_t count = std::strtoull(argv[3], nullptr, 10);
  const char* token = argc > 4 ? argv[4] : "";
  if (mode == "tcp" || mode == "idle") {
    Tcp(address, count, mode == "idle" ? kPreface : "");
    return 0;
  }
  Client client(address, token);
  if (mode == "silent") {
    std::vector<std::unique_ptr<Way>> held;
    for (uint64_t i = 0; i < count; ++i) held.push_back(client.Open());
    HoldUntilTold();
    return 0;
  }
  std::mt19937_64 random(1);
  Tally tally;
  const uint64_t tries = mode == "deaf" ? 1 : count;
  for (uint64_t i = 0; i < tries; ++i) tally.Count(Try(mode, client, i, count, random));
  std::string safe;
  for (const char c : tally.reason) safe += c == '"' || c == '\\' || c < ' ' || c > '~' ? '?' : c;
  std::printf("{\"tries\":%llu,\"refused\":%llu,\"reason\":\"%s\"}\n",
              static_cast<unsigned long long>(tally.tries), static_cast<unsigned long long>(tally.refused),
              safe.c_str());
  return 0;
}
