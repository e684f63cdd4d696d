#include "ready_line.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace foreshock::app {

std::string ReadyLine(int grpc_port, int http_port, const std::string& data_folder) {
  nlohmann::ordered_json line;
  line["grpc"] = grpc_port;
  line["http"] = http_port;
  line["pid"] = ::getpid();
  line["data"] = data_folder;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace foreshock::app
