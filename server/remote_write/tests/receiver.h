// A remote_write receiver for tests: keeps what it is sent, decoded; answers with the codes it is told first.
#pragma once

#include <snappy.h>

#include <deque>
#include <map>
#include <mutex>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "foreshock/server/http/server.h"
#include "foreshock/server/remote_write/relabel.h"

namespace foreshock::remote_write {

struct ReceivedSample {
  Labels labels;
  double value = 0;
  int64_t unix_ms = 0;
};

class Receiver {
 public:
  explicit Receiver(std::deque<int> codes = {}) : codes_(std::move(codes)) {
    http::Routes routes;
    routes.Post("/write", [this](const http::Request& request) { return Take(request); });
    http::ServerOptions options;
    options.max_body_bytes = 64 << 20;
    server_ = *http::Server::Start(options, std::move(routes));
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/write"; }
  std::vector<ReceivedSample> samples() const {
    std::lock_guard lock(mutex_);
    return samples_;
  }
  int requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  // name{label="value",...} -> value, of the newest sample.
  std::map<std::string, double> Newest() const {
    std::map<std::string, double> out;
    for (const ReceivedSample& sample : samples()) {
      std::string name, rest;
      for (const auto& [key, value] : sample.labels) {
        if (key == "__name__") {
          name = value;
        } else {
          rest += (rest.empty() ? "" : ",") + key + "=" + value;
        }
      }
      out[name + "{" + rest + "}"] = sample.value;
    }
    return out;
  }

 private:
  http::Response Take(const http::Request& request) {
    std::lock_guard lock(mutex_);
    ++requests_;
    if (!codes_.empty()) {
      const int code = codes_.front();
      codes_.pop_front();
      if (code / 100 != 2) return {.code = code, .body = "as told"};
    }
    std::string body;
    if (request.content_type != "application/x-protobuf" ||
        !snappy::Uncompress(request.body.data(), request.body.size(), &body)) {
      return {.code = 400, .body = "not snappy"};
    }
    protozero::pbf_reader message(body);
    while (message.next(1)) Read(message.get_message());
    return {.code = 204, .body = ""};
  }
  void Read(protozero::pbf_reader series) {
    ReceivedSample sample;
    while (series.next()) {
      const bool is_label = series.tag() == 1;
      protozero::pbf_reader part = series.get_message();
      if (is_label) {
        std::string name, value;
        while (part.next()) {
          std::string& text = part.tag() == 1 ? name : value;
          text = part.get_string();
        }
        sample.labels.emplace_back(name, value);
      } else {
        while (part.next()) {
          if (part.tag() == 1) {
            sample.value = part.get_double();
          } else {
            sample.unix_ms = part.get_int64();
          }
        }
        samples_.push_back(sample);
      }
    }
  }

  mutable std::mutex mutex_;
  std::deque<int> codes_;
  std::vector<ReceivedSample> samples_;
  int requests_ = 0;
  std::unique_ptr<http::Server> server_;
};

}  // namespace foreshock::remote_write
