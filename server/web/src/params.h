// The query parameters of one request, checked: numbers are numbers, and nothing is left unread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "foreshock/server/http/routes.h"

namespace foreshock::web {

class Params {
 public:
  explicit Params(const http::Request& request) : request_(request) {}

  std::string Text(const std::string& name);
  // All values of a parameter; "a,b" counts as two.
  std::vector<std::string> List(const std::string& name);
  std::optional<int64_t> Int(const std::string& name, int64_t least, int64_t most);
  std::vector<uint32_t> Uints(const std::string& name);
  bool Flag(const std::string& name);  // true, false, 1, 0

  // The first trouble: a value that does not read, or a parameter that nobody asked for.
  Status status() const;

 private:
  std::optional<int64_t> Parse(const std::string& name, const std::string& text, int64_t least, int64_t most);

  const http::Request& request_;
  std::set<std::string> known_;
  Status status_;
};

}  // namespace foreshock::web
