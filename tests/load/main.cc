// fs_tests_load ADDRESS [name=value...]: ranks that send known numbers until SIGTERM, then finish. The names are those of
// LoadOptions: run, ranks, layers, rate, steps, window, flush_ms. At the end one JSON object a rank on stdout.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "rank.h"

namespace {

using foreshock::load::LoadOptions;
using foreshock::load::Rank;

volatile sig_atomic_t told_to_stop = 0;

bool Parse(int argc, char** argv, LoadOptions* options) {
  if (argc < 2) return false;
  options->address = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t at = text.find('=');
    if (at == std::string::npos) return false;
    const std::string name = text.substr(0, at), value = text.substr(at + 1);
    const double number = std::atof(value.c_str());
    if (name == "run") options->run = value;
    else if (name == "ranks") options->ranks = static_cast<uint32_t>(number);
    else if (name == "layers") options->layers = static_cast<uint32_t>(number);
    else if (name == "rate") options->steps_a_second = number;
    else if (name == "steps") options->steps = static_cast<int64_t>(number);
    else if (name == "window") options->window_bytes = static_cast<uint64_t>(number);
    else if (name == "flush_ms") options->flush_ms = static_cast<int64_t>(number);
    else return false;
  }
  return foreshock::sdk::ParseAddress(options->address).ok();
}

}  // namespace

int main(int argc, char** argv) {
  LoadOptions options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "fs_tests_load: usage: ADDRESS [run= ranks= layers= rate= steps= window= flush_ms=]\n");
    return 2;
  }
  signal(SIGTERM, [](int) { told_to_stop = 1; });
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(options, rank));
    if (!ranks.back()->Start().ok()) return 1;
  }
  const auto pace = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(1 / options.steps_a_second));
  auto next = std::chrono::steady_clock::now();
  int64_t step = 0;
  for (; told_to_stop == 0 && (options.steps == 0 || step < options.steps); ++step) {
    for (auto& rank : ranks) rank->Publish(step);
    std::this_thread::sleep_until(next += pace);
  }
  std::vector<std::thread> ending;
  for (auto& rank : ranks) ending.emplace_back([&] { rank->End(step - 1, options.flush_ms); });
  for (auto& thread : ending) thread.join();
  for (auto& rank : ranks) std::printf("%s\n", rank->Json().c_str());
  return 0;
}
