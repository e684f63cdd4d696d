// bench_store_read HOST:PORT STEPS: reads the run "run" of bench_store_grpc from a server by gRPC, as the
// command line does, answers unpacked: one signal of one layer (32 heads, every step), all values of the last
// step and of older ones. Medians of 21 reads in ms, as JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data.h"
#include "foreshock/cli/client.h"
#include "measure.h"

namespace {

using namespace foreshock;
using bench::Must;

constexpr int kReads = 21;

double MedianMs(const std::function<Status(int)>& read) {
  std::vector<double> ms;
  for (int i = 0; i < kReads; ++i) {
    const double begin = bench::Now(CLOCK_MONOTONIC);
    Must(read(i));
    ms.push_back(1e3 * (bench::Now(CLOCK_MONOTONIC) - begin));
  }
  std::nth_element(ms.begin(), ms.begin() + kReads / 2, ms.end());
  return ms[kReads / 2];
}

Status Expect(const char* what, size_t got, size_t expected) {
  if (got == expected) return OkStatus();
  return Status(Code::kDataLoss,
                std::string(what) + ": " + std::to_string(got) + ", expected " + std::to_string(expected));
}

class Reader {
 public:
  explicit Reader(cli::Client* client) : client_(client) {}

  Status Series(size_t steps) {
    v1::ReadSeriesRequest request;
    request.set_run("run");
    request.set_signal("wq_sigma1");
    request.set_layer(41);
    const auto got = client_->ReadSeries(request);
    FS_RETURN_IF_ERROR(got.status());
    return Expect("points", static_cast<size_t>(got->points_size()), steps);
  }

  Status Step(int64_t step) {
    v1::ReadStepRequest request;
    request.set_run("run");
    request.set_step(step);
    const auto got = client_->ReadStep(request);
    FS_RETURN_IF_ERROR(got.status());
    return Expect("series of a step", static_cast<size_t>(got->frame().series_size()),
                  bench::kSeriesCount / bench::kHeads);
  }

 private:
  cli::Client* client_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::atoll(argv[2]) < 200) {
    std::fprintf(stderr, "usage: bench_store_read HOST:PORT STEPS (at least 200)\n");
    return 2;
  }
  const int64_t steps = std::atoll(argv[2]);
  cli::ClientOptions options;
  options.server = argv[1];
  auto client = cli::Client::Create(options);
  Must(client.status());
  Reader reader(client->get());
  Must(reader.Step(-1));  // the connection stands
  const double series_ms = MedianMs([&](int) { return reader.Series(static_cast<size_t>(steps)); });
  const double last_ms = MedianMs([&](int) { return reader.Step(-1); });
  const double older_ms = MedianMs([&](int i) { return reader.Step((i + 1) * 37 % (steps - 100)); });
  std::printf("{\"series_grpc_ms\":%.3f,\"last_step_grpc_ms\":%.3f,\"older_step_grpc_ms\":%.3f}\n", series_ms,
              last_ms, older_ms);
  return 0;
}
