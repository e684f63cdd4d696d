#include "daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "foreshock/base/catalogue.h"

extern char** environ;

namespace foreshock::app::test {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

int Spawn(std::vector<std::string> arguments, const std::string& output) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  int pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

}  // namespace

std::string Binary() { return std::string(std::getenv("FORESHOCK_BUILD_DIR")) + "/bin/foreshockd"; }

Daemon::Daemon(const std::string& folder, std::vector<std::string> arguments, std::vector<std::string> prefix)
    : folder_(folder) {
  const std::string ready = folder + "/ready";
  std::filesystem::remove(ready);
  std::vector<std::string> all = std::move(prefix);
  for (const std::string& argument :
       {Binary(), std::string("--grpc"), std::string("127.0.0.1:0"), std::string("--http"),
        std::string("127.0.0.1:0"), std::string("--ready-file"), ready}) {
    all.push_back(argument);
  }
  all.insert(all.end(), arguments.begin(), arguments.end());
  pid_ = Spawn(all, folder + "/log");
  while (pid_ > 0 && !std::filesystem::exists(ready)) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;  // ended before it listened
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (pid_ < 0) return;
  const auto line = nlohmann::json::parse(ReadText(ready));
  grpc_port_ = line["grpc"];
  http_port_ = line["http"];
}

Daemon::~Daemon() {
  if (pid_ > 0) Kill(SIGKILL);
}

int Daemon::Kill(int signal) {
  ::kill(pid_, signal);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

http::ClientResponse Daemon::Get(const std::string& path) const {
  const auto response = http::Get("http://127.0.0.1:" + std::to_string(http_port_) + path);
  return response.ok() ? *response : http::ClientResponse{};
}

std::string Daemon::log() const { return ReadText(folder_ + "/log"); }

Link Connect(int port, const std::string& run) {
  rpc::ChannelOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  auto channel = rpc::Channel::Create(options);
  if (!channel.ok()) return {};
  auto stream = rpc::OpenIngestStream(*channel, std::chrono::seconds(30));
  if (!stream.ok()) return {};
  wire::Hello hello;
  hello.run = run;
  hello.attempt = "1";
  hello.incarnation = 1;
  wire::Layer layer;
  layer.query_heads = 65536;
  layer.kv_heads = 65536;
  hello.model.layers.push_back(layer);
  if (!(*stream)->Write(wire::RecordType::kHello, wire::Encode(hello)).ok()) return {};
  const auto reply = (*stream)->Read();
  if (!reply.ok() || !reply->has_value() || !(*reply)->hello) return {};
  return {std::move(stream).value(), (*reply)->hello->durable_seq};
}

std::string FrameOf(uint64_t seq, uint32_t heads) {
  wire::Frame frame;
  frame.seq = seq;
  frame.step = static_cast<int64_t>(seq);
  wire::Series loss;
  loss.signal = kLoss;
  loss.values = {static_cast<float>(seq)};
  frame.series.push_back(loss);
  std::mt19937 random(static_cast<uint32_t>(seq));
  wire::Series logits;
  logits.signal = kLogitMax;
  logits.layer = 0;
  for (uint32_t head = 0; head < heads; ++head) {
    logits.heads.push_back(head);
    logits.values.push_back(static_cast<float>(random()));
  }
  frame.series.push_back(logits);
  return wire::Encode(frame);
}

}  // namespace foreshock::app::test
