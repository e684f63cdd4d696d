// `foreshock up`: server and agent in one command, on an embedded folder.
#pragma once

#include <ostream>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::cli {

struct UpOptions {
  std::string program_folder;           // where foreshockd and foreshock-agent lie
  std::string data;                     // folder; empty: DefaultDataFolder
  std::string grpc = "127.0.0.1:7071";  // port 0: any free one
  std::string http = "127.0.0.1:7070";
  std::string socket;  // the agent's; empty: DATA/agent.sock
  bool no_agent = false;
  std::string config;      // the server's configuration file; empty: none
  std::string ready_file;  // written when both are ready, removed at the end; empty: none
  bool json = false;       // print the addresses as one JSON line
};

// $XDG_DATA_HOME/foreshock, else $HOME/.local/share/foreshock, else ./foreshock-data. Null or empty: not set.
std::string DefaultDataFolder(const char* xdg_data_home, const char* home);

// Starts both, prints their addresses on `out`, and stays until a signal (ok) or until one of them ends
// (kUnavailable saying which and how). Stops what it started in every case.
Status RunUp(const UpOptions& options, std::ostream& out, std::ostream& err);

}  // namespace foreshock::cli
