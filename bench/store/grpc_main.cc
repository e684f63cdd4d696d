// bench_store_grpc [--server FORESHOCKD] [FOLDER [STEPS]]: ingest of 12,288 walks through gRPC to durable
// acknowledgement, one frame a message, into a server process of its own: store, ingest and gRPC without
// detection, or with --server that program, which merges and judges every step by the built-in rules. The
// server's processor time counts whole: from its start until every step is judged and its end, with sealing
// and flushing.
//
// bench_store_grpc --flat FOLDER MINUTES FRAMES_PER_SECOND: without detection, for so long at a steady rate;
// prints the server's resident memory, the folder's bytes and its processor time once a minute (10 GB an hour
// at 90 a second).
//
// The program starts itself again as the server (--serve FOLDER; it prints its port and ends when its
// standard input does), and behind --server to seal and flush what that left (--settle FOLDER), which counts
// as well.
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "data.h"
#include "foreshock/base/heap.h"
#include "foreshock/base/process.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/server.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/ingest/ingest.h"
#include "foreshock/server/store/store.h"
#include "measure.h"

extern char** environ;

namespace {

using namespace foreshock;

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "bench_store_grpc: %s\n", result.status().ToString().c_str());
  std::exit(1);
}
using bench::Must;

int Serve(const std::string& folder) {
  TuneHeap();  // as foreshockd does
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
  FILE* from_child = nullptr;
};

Child Spawn(std::vector<std::string> words) {
  int in[2], out[2];
  if (pipe(in) != 0 || pipe(out) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  for (const int fd : {in[0], in[1], out[0], out[1]}) posix_spawn_file_actions_addclose(&actions, fd);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Child child;
  if (posix_spawn(&child.pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) std::exit(1);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  child.to_child = in[1];
  child.from_child = fdopen(out[0], "r");
  return child;
}

// Adds what the child used to *usage, once it has ended.
void WaitFor(Child& child, rusage* usage) {
  close(child.to_child);
  int status = 0;
  rusage used{};
  if (wait4(child.pid, &status, 0, &used) != child.pid || status != 0) {
    std::fprintf(stderr, "bench_store_grpc: the server failed\n");
    std::exit(1);
  }
  std::fclose(child.from_child);
  timeradd(&usage->ru_utime, &used.ru_utime, &usage->ru_utime);
  timeradd(&usage->ru_stime, &used.ru_stime, &usage->ru_stime);
  usage->ru_maxrss = std::max(usage->ru_maxrss, used.ru_maxrss);
}

// Until the rules have judged so many steps.
void WaitUntilJudged(int http_port, size_t steps) {
  const std::string url = "http://127.0.0.1:" + std::to_string(http_port) + "/metrics";
  const std::string name = "foreshock_alert_steps_total ";
  for (;;) {
    const auto answer = Must(http::Get(url, {}));
    const size_t at = answer.body.find("\n" + name);
    if (at == std::string::npos) Must(Status(Code::kDataLoss, "no " + name + "in " + url));
    if (std::strtod(answer.body.c_str() + at + 1 + name.size(), nullptr) >= static_cast<double>(steps))
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
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

int Flat(const std::string& folder, int minutes, double frames_per_s) {
  Child child = Spawn({"/proc/self/exe", "--serve", folder + "/store"});
  int port = 0;
  if (std::fscanf(child.from_child, "%d", &port) != 1) return 1;
  rpc::ChannelOptions options;
  options.address = "127.0.0.1:" + std::to_string(port);
  const auto channel = Must(rpc::Channel::Create(options));
  const auto stream = Must(rpc::OpenIngestStream(channel, std::chrono::seconds(10)));
  Must(stream->Write(wire::RecordType::kHello, wire::Encode(bench::HelloOfWalks("run"))));
  std::atomic<uint64_t> durable{0};
  std::thread reader([&] {
    for (;;) {
      const auto reply = stream->Read();
      if (!reply.ok() || !*reply) return;
      durable = std::max(durable.load(), (*reply)->durable_seq);
    }
  });
  bench::Walks walks(1);
  const auto begin = std::chrono::steady_clock::now();
  uint64_t sent = 0;
  std::printf("minute  resident_mib  peak_mib  disk_mib  cpu_s  frames  durable\n");
  for (int minute = 1; minute <= minutes; ++minute) {
    while (std::chrono::steady_clock::now() < begin + std::chrono::minutes(minute)) {
      Must(stream->Write(wire::RecordType::kFrame, wire::Encode(walks.Next())));
      std::this_thread::sleep_until(
          begin + std::chrono::duration<double>(static_cast<double>(++sent) / frames_per_s));
    }
    const ProcessUsage used = Must(ReadProcessUsage(child.pid));
    std::printf("%6d  %12llu  %8llu  %8llu  %5.1f  %6llu  %7llu\n", minute,
                static_cast<unsigned long long>(used.resident_bytes >> 20),
                static_cast<unsigned long long>(used.peak_resident_bytes >> 20),
                static_cast<unsigned long long>(bench::BytesIn(folder) >> 20), used.cpu_seconds,
                static_cast<unsigned long long>(sent), static_cast<unsigned long long>(durable.load()));
    std::fflush(stdout);
  }
  stream->Cancel();
  reader.join();
  rusage usage{};
  WaitFor(child, &usage);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") return Serve(argv[2]);
  if (argc == 3 && std::string(argv[1]) == "--settle") {
    Must(Must(store::Store::Open({.folder = argv[2]}))->Settle());
    return 0;
  }
  std::string program;
  if (argc > 2 && std::string(argv[1]) == "--server") {
    program = argv[2];
    argc -= 2;
    argv += 2;
  }
  if (argc == 5 && std::string(argv[1]) == "--flat")
    return Flat(argv[2], std::atoi(argv[3]), std::atof(argv[4]));
  std::string folder = argc > 1 ? argv[1] : "bench_store_XXXXXX";
  if (argc < 2 && mkdtemp(folder.data()) == nullptr) return 1;
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 2'000;
  const std::string self = "/proc/self/exe", store = folder + "/store", any = "127.0.0.1:0";
  // Started while this program is small: a child's peak of memory counts what it was forked from.
  Child server =
      program.empty()
          ? Spawn({self, "--serve", store})
          : Spawn({program, "--data", store, "--grpc", any, "--http", any, "--log-level", "error"});
  bench::Walks walks(1);
  std::vector<std::string> frames;
  for (int64_t i = 0; i < steps; ++i) frames.push_back(wire::Encode(walks.Next()));
  rusage usage{};
  double wall_s = 0;
  int port = 0, http_port = 0;
  if (program.empty()) {
    if (std::fscanf(server.from_child, "%d", &port) != 1) return 1;
    wall_s = Send(port, frames);
    WaitFor(server, &usage);
  } else {
    if (std::fscanf(server.from_child, "{\"grpc\":%d,\"http\":%d", &port, &http_port) != 2) return 1;
    wall_s = Send(port, frames);
    WaitUntilJudged(http_port, frames.size());
    kill(server.pid, SIGTERM);
    WaitFor(server, &usage);
    const long peak = usage.ru_maxrss;
    Child settle = Spawn({self, "--settle", store});
    WaitFor(settle, &usage);
    usage.ru_maxrss = peak;
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
