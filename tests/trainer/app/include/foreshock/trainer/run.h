#pragma once

#include <string>

#include "foreshock/trainer/options.h"

namespace foreshock::trainer {

// Trains as `options` say, watched by Foreshock, and reports on stdout. False and a sentence in `error` when
// data or a checkpoint cannot be read or written, or the guard is refused. Whether Foreshock records anything
// changes nothing. Once in a process.
bool run(const Options& options, std::string* error);

// A signal handler: makes run() end after the current step, as stopped.
void stop_on_signal(int signal);

}  // namespace foreshock::trainer
