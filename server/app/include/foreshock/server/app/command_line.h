// The program foreshockd.
#pragma once

namespace foreshock::app {

// Runs a server until SIGTERM or SIGINT. Exit codes: 0 stopped on request, 1 could not start, 2 bad
// arguments. When it listens it prints one line of JSON to stdout:
// {"grpc":PORT,"http":PORT,"pid":PID,"data":FOLDER}
int RunServer(int argc, char** argv);

}  // namespace foreshock::app
