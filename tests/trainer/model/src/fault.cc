#include "foreshock/trainer/fault.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace foreshock::trainer {
namespace {

template <typename T>
bool parse_number(std::string_view text, T* value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

bool parse_fault(std::string_view text, Fault* fault, std::string* error) {
  const std::string quoted = "fault \"" + std::string(text) + "\"";
  if (text == "none") {
    fault->kind = Fault::Kind::none;
    return true;
  }
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view amount = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (kind == "output") {
    int ulps = 0;
    if (!parse_number(amount, &ulps) || ulps < 1 || ulps > 1024) {
      *error = quoted + ": output takes a whole number of bf16 ulp in 1..1024";
      return false;
    }
    fault->kind = Fault::Kind::output;
    fault->amount = ulps;
    return true;
  }
  if (kind == "delta") {
    double fraction = 0;
    if (!parse_number(amount, &fraction) || !(std::abs(fraction) <= 10) || fraction == 0) {
      *error = quoted + ": delta takes a fraction in [-10, 10] other than 0";
      return false;
    }
    fault->kind = Fault::Kind::delta;
    fault->amount = fraction;
    return true;
  }
  *error = quoted + ": expected none, output:K or delta:C";
  return false;
}

std::string describe(const Fault& fault) {
  if (fault.kind == Fault::Kind::none) return "none";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s:%g", fault.kind == Fault::Kind::output ? "output" : "delta",
                fault.amount);
  std::string out = text.data();
  if (fault.layer >= 0) out += " in layer " + std::to_string(fault.layer);
  if (fault.head >= 0) out += ", head " + std::to_string(fault.head);
  return out;
}

bool parse_fault_head(std::string_view text, Fault* fault, std::string* error) {
  const std::size_t dot = text.find('.');
  int layer = 0;
  int head = 0;
  if (dot == std::string_view::npos || !parse_number(text.substr(0, dot), &layer) ||
      !parse_number(text.substr(dot + 1), &head) || layer < 0 || head < 0) {
    *error = "fault head \"" + std::string(text) + "\": expected LAYER.HEAD, both counted from 0";
    return false;
  }
  fault->layer = layer;
  fault->head = head;
  return true;
}

}  // namespace foreshock::trainer
