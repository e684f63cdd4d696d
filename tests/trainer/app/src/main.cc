#include <csignal>
#include <cstdio>
#include <string>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "foreshock/trainer/options.h"
#include "foreshock/trainer/run.h"

namespace {

// A collapsed model leaves Adam's moments to decay into denormal numbers, which cost some processors a
// hundred cycles each: such a run took six times as long as a healthy one.
void FlushDenormals() {
#if defined(__SSE__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

}  // namespace

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
  FlushDenormals();
  if (options.data.empty()) options.data.emplace_back(FORESHOCK_TRAINER_DATA);
  std::signal(SIGINT, trainer::stop_on_signal);
  std::signal(SIGTERM, trainer::stop_on_signal);
  if (trainer::run(options, &error)) return 0;
  std::fprintf(stderr, "foreshock-trainer: %s\n", error.c_str());
  return 1;
}
