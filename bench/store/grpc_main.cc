// bench_store_grpc [FOLDER [STEPS]]: ingest of 12,288 walks through gRPC to durable acknowledgement, one
// frame a message, into a server process of its own (store, ingest, gRPC; no detection). The server's
// processor time counts whole: from its start to its end, with sealing and flushing.
//
// The program starts itself again as that server: bench_store_grpc --serve FOLDER; it prints its port and
// ends when its standard input does.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "data.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/store/store.h"

extern char** environ;

namespace {

using namespace foreshock;

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "bench_store_grpc: %s\n", result.status().ToString().c_str());
  std::exit(1);
}
void Must(const Status& status) { Must(status.ok() ? Result<int>(0) : Result<int>(status)); }

int Serve(const std::string& folder) {
  const auto store = Must(store::Store::Open({.folder = folder}));
  auto ingest = ingest::Ingest::Start(*store, SystemClock::Instance(), {});
  auto server = Must(rpc::Server::Start({}, &ingest->handlers(), {}));
  std::printf("%d\n", server->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  ingest->CloseStreams();
  server->Stop(1000);
  server.reset();
  ingest.reset();
  Must(store->Settle());
  return 0;
}

struct Child {
  pid_t pid = 0;
  int to_child = -1;
  int port = 0;
};

Child StartServer(const std::string& folder) {
  int in[2], out[2];
  if (pipe(in) != 0 || pipe(out) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  for (const int fd : {in[0], in[1], out[0], out[1]}) posix_spawn_file_actions_addclose(&actions, fd);
  std::string self = "/proc/self/exe", serve = "--serve", path = folder;
  char* argv[] = {self.data(), serve.data(), path.data(), nullptr};
  Child child;
  if (posix_spawn(&child.pid, self.c_str(), &actions, nullptr, argv, environ) != 0) std::exit(1);
  close(in[0]);
  close(out[1]);
  child.to_child = in[1];
  FILE* from_child = fdopen(out[0], "r");
  if (std::fscanf(from_child, "%d", &child.port) != 1) std::exit(1);
  std::fclose(from_child);
  return child;
}

// Seconds from the first frame to the last acknowledgement.
double Send(int port, const std::vector<std::string>& frames) {
  rpc::ChannelOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  const auto channel = Must(rpc::Channel::Create(options));
  const auto stream = Must(rpc::OpenIngestStream(channel, std::chrono::seconds(10)));
  Must(stream->Write(wire::RecordType::kHello, wire::Encode(bench::HelloOfWalks("run"))));
  const auto begin = std::chrono::steady_clock::now();
  std::thread writer([&] {
    for (const std::string& frame : frames) Must(stream->Write(wire::RecordType::kFrame, frame));
  });
  for (uint64_t durable = 0; durable < frames.size();) {
    const auto reply = Must(stream->Read());
    if (!reply) Must(Status(Code::kUnavailable, "the server hung up"));
    if (reply->error) Must(Status(Code::kInvalidArgument, reply->error->message));
    durable = std::max(durable, reply->durable_seq);
  }
  writer.join();
  stream->Cancel();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") return Serve(argv[2]);
  std::string folder = argc > 1 ? argv[1] : "bench_store_XXXXXX";
  if (argc < 2 && mkdtemp(folder.data()) == nullptr) return 1;
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 2'000;
  bench::Walks walks(1);
  std::vector<std::string> frames;
  for (int64_t i = 0; i < steps; ++i) frames.push_back(wire::Encode(walks.Next()));
  const Child child = StartServer(folder + "/store");
  const double wall_s = Send(child.port, frames);
  close(child.to_child);
  int status = 0;
  rusage usage{};
  if (wait4(child.pid, &status, 0, &usage) != child.pid || status != 0) {
    std::fprintf(stderr, "bench_store_grpc: the server failed\n");
    return 1;
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const double cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const double samples = static_cast<double>(steps) * static_cast<double>(bench::kSeriesCount);
  std::printf(
      "%.2f M samples a CPU-second of the server (%.2f s, of these %.2f s in the kernel), %.2f M a second by "
      "the clock, at most %ld MiB\n",
      samples / cpu_s / 1e6, cpu_s, seconds(usage.ru_stime), samples / wall_s / 1e6, usage.ru_maxrss / 1024);
  if (argc < 2) std::filesystem::remove_all(folder);
  return 0;
}
