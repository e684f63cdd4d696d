#include <csignal>
#include <cstdio>
#include <string>

#include "foreshock/trainer/options.h"
#include "foreshock/trainer/run.h"

int main(int argc, char** argv) {
  namespace trainer = foreshock::trainer;
  trainer::Options options;
  std::string error;
  if (!trainer::parse_options(argc, argv, &options, &error)) {
    std::fprintf(stderr, "foreshock-trainer: %s\n", error.c_str());
    return 2;
  }
  if (options.help) {
    std::fputs(trainer::help_text(), stdout);
    return 0;
  }
  if (options.data.empty()) options.data.emplace_back(FORESHOCK_TRAINER_DATA);
  std::signal(SIGINT, trainer::stop_on_signal);
  std::signal(SIGTERM, trainer::stop_on_signal);
  if (trainer::run(options, &error)) return 0;
  std::fprintf(stderr, "foreshock-trainer: %s\n", error.c_str());
  return 1;
}
