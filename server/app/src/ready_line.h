// The line that says the server listens.
#pragma once

#include <string>

namespace foreshock::app {

// {"grpc":7071,"http":7070,"pid":123,"data":"foreshock-data"} and a newline.
std::string ReadyLine(int grpc_port, int http_port, const std::string& data_folder);

}  // namespace foreshock::app
