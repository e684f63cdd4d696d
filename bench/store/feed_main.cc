// bench_store_feed URL [STEPS [SECONDS_PER_STEP]]: the data of the store's figures to a remote_write
// receiver, one request a step (12,288 samples), the last step about now. Prints milliseconds since the Unix
// epoch of the first and the last step, and the seconds it took, as JSON. For bench/store/compare.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "data.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/remote_write/encode.h"

namespace {

using namespace foreshock;

std::vector<std::string> EncodedSeries(const wire::Frame& frame) {
  std::vector<std::string> out;
  for (const wire::Series& series : frame.series) {
    const std::string name = "foreshock_" + std::string(FindSignal(series.signal)->name) + "_head";
    for (const uint32_t head : series.heads) {
      out.push_back(remote_write::EncodeLabels({{"__name__", name},
                                                {"head", std::to_string(head)},
                                                {"layer", std::to_string(*series.layer)},
                                                {"run", "run"}}));
    }
  }
  return out;
}

bool Send(const std::string& url, const std::string& request) {
  http::ClientOptions options;
  options.headers = {{"Content-Encoding", "snappy"}, {"X-Prometheus-Remote-Write-Version", "0.1.0"}};
  const std::string body = remote_write::Compressed(request);
  for (int tries = 0; tries < 50; ++tries) {
    const auto answer = http::Post(url, body, "application/x-protobuf", options);
    if (answer.ok() && answer->code / 100 == 2) return true;
    const bool again = !answer.ok() || answer->code == 429 || answer->code / 100 == 5;
    if (!again || tries == 49) {
      std::fprintf(stderr, "bench_store_feed: %s\n",
                   answer.ok() ? answer->body.c_str() : answer.status().ToString().c_str());
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 2'000;
  const int64_t step_ms = 1000 * (argc > 3 ? std::atoll(argv[3]) : 15);
  using std::chrono::system_clock, std::chrono::steady_clock;
  const int64_t now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
  const int64_t first_ms = now_ms / 1000 * 1000 - steps * step_ms;
  bench::Walks walks(1);
  std::vector<std::string> series;
  const auto begin = steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    const wire::Frame frame = walks.Next();
    if (series.empty()) series = EncodedSeries(frame);
    std::string request;
    size_t next = 0;
    for (const wire::Series& s : frame.series) {
      for (const float value : s.values)
        remote_write::AppendSample(series[next++], value, first_ms + step * step_ms, &request);
    }
    if (!Send(argv[1], request)) return 1;
  }
  std::printf("{\"first_ms\": %lld, \"last_ms\": %lld, \"seconds\": %.2f}\n",
              static_cast<long long>(first_ms), static_cast<long long>(first_ms + (steps - 1) * step_ms),
              std::chrono::duration<double>(steady_clock::now() - begin).count());
  return 0;
}
