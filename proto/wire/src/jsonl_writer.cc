#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/recording.h"
#include "utf8.h"

namespace foreshock::wire {
namespace {

void PutQuoted(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (const char c : MendUtf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < 0x20) {
      *out += "\\u00";
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

template <typename Number>
void PutNumber(Number value, std::string* out) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  out->append(digits, end.ptr);
}

template <typename Number>
void PutReal(Number value, std::string* out) {
  if (std::isnan(value)) {
    *out += "\"NaN\"";
  } else if (std::isinf(value)) {
    *out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else if (value == 0 && std::signbit(value)) {
    *out += "-0.0";  // "-0" is the integer 0 to many readers
  } else {
    PutNumber(value, out);
  }
}

void PutKey(std::string_view key, std::string* out) {
  if (out->back() != '{') out->push_back(',');
  PutQuoted(key, out);
  out->push_back(':');
}

void PutText(std::string_view key, std::string_view value, std::string* out) {
  PutKey(key, out);
  PutQuoted(value, out);
}

template <typename Number>
void PutField(std::string_view key, Number value, std::string* out) {
  PutKey(key, out);
  PutNumber(value, out);
}

uint32_t HeadsOf(const Layer& layer, SignalScope scope) {
  return scope == SignalScope::kKvHead ? layer.kv_heads : layer.query_heads;
}

// What users see of entry i: floats print in their own, shorter, precision unless they were divided.
void PutDisplay(const SignalInfo& info, const Series& series, size_t i, std::string* out) {
  if (!series.has(i)) {
    *out += "null";
    return;
  }
  const float value = series.values[i * series.values_per_head];
  if (info.merge != SignalMerge::kRatio) return PutReal(value, out);
  const auto shown = DisplayValue(info, value, series.weight(i));
  if (!shown) {
    *out += "null";
  } else {
    PutReal(*shown, out);
  }
}

void PutWeight(const SignalInfo&, const Series& series, size_t i, std::string* out) {
  const auto weight = series.has(i) ? series.weight(i) : std::nullopt;
  if (!weight) {
    *out += "null";
  } else {
    PutReal(*weight, out);
  }
}

using PutEntry = void (*)(const SignalInfo&, const Series&, size_t, std::string*);

// [layer][head] over the whole model; what the frame does not hold is null.
void PutMatrix(const Hello& hello, const Frame& frame, const SignalInfo& info, PutEntry put,
               std::string* out) {
  out->push_back('[');
  for (size_t l = 0; l < hello.model.layers.size(); ++l) {
    const Layer& layer = hello.model.layers[l];
    const Series* series = frame.Find(info.id, layer.layer);
    *out += l == 0 ? "[" : ",[";
    for (uint32_t head = 0; head < HeadsOf(layer, info.scope); ++head) {
      if (head > 0) out->push_back(',');
      const auto* heads = series == nullptr ? nullptr : &series->heads;
      const size_t i =
          heads == nullptr
              ? 0
              : static_cast<size_t>(std::find(heads->begin(), heads->end(), head) - heads->begin());
      if (heads == nullptr || i == heads->size()) {
        *out += "null";
      } else {
        put(info, *series, i, out);
      }
    }
    out->push_back(']');
  }
  out->push_back(']');
}

void PutSignal(const Hello& hello, const Frame& frame, const SignalInfo& info, std::string* out) {
  if (info.scope == SignalScope::kScalar) {
    const Series* series = frame.Find(info.id);
    if (series == nullptr) return;
    PutKey(info.name, out);
    PutDisplay(info, *series, 0, out);
    return;
  }
  const auto of_signal = [&](const Series& series) { return series.signal == info.id; };
  const auto first = std::find_if(frame.series.begin(), frame.series.end(), of_signal);
  if (first == frame.series.end()) return;
  PutKey(info.name, out);
  PutMatrix(hello, frame, info, PutDisplay, out);
  if (first->weights.empty()) return;
  PutKey(std::string(info.name) + "_weight", out);
  PutMatrix(hello, frame, info, PutWeight, out);
}

}  // namespace

std::string JsonlHeader(const Hello& hello) {
  std::string out = "{";
  uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  for (const Layer& layer : hello.model.layers) {
    heads = std::max(heads, layer.query_heads);
    kv_heads = std::max(kv_heads, layer.kv_heads);
    head_dim = std::max(head_dim, layer.head_dim);
  }
  PutText("run", hello.run, &out);
  PutField("format", 2, &out);
  PutText("attempt", hello.attempt, &out);
  PutField("rank", hello.rank, &out);
  PutField("world_size", hello.world_size, &out);
  PutText("incarnation", std::to_string(hello.incarnation), &out);
  PutField("layers", hello.model.layers.size(), &out);
  PutField("heads", heads, &out);
  PutField("kv_heads", kv_heads, &out);
  PutField("head_dim", head_dim, &out);
  PutField("model_dim", hello.model.model_dim, &out);
  PutField("sample_every_steps", hello.sample_every_steps, &out);
  PutKey("layer_info", &out);
  out.push_back('[');
  for (const Layer& layer : hello.model.layers) {
    out += out.back() == '[' ? "{" : ",{";
    PutField("layer", layer.layer, &out);
    PutText("name", layer.name, &out);
    PutField("heads", layer.query_heads, &out);
    PutField("kv_heads", layer.kv_heads, &out);
    PutField("head_dim", layer.head_dim, &out);
    PutKey("scale", &out);
    PutReal(layer.scale, &out);
    PutKey("softcap", &out);
    PutReal(layer.softcap, &out);
    PutField("qk_norm", layer.qk_norm ? 1 : 0, &out);
    PutField("low_resolution", layer.low_resolution ? 1 : 0, &out);
    out.push_back('}');
  }
  out.push_back(']');
  PutKey("unmonitored", &out);
  out.push_back('[');
  for (const Unmonitored& item : hello.unmonitored) {
    out += out.back() == '[' ? "{" : ",{";
    PutText("name", item.name, &out);
    PutText("reason", item.reason, &out);
    out.push_back('}');
  }
  out += "]}\n";
  return out;
}

std::string JsonlLine(const Hello& hello, const Frame& frame) {
  std::string out = "{";
  PutField("step", frame.step, &out);
  PutField("seq", frame.seq, &out);
  PutField("window_from", frame.window_from, &out);
  if (frame.skipped) PutField("skipped", 1, &out);
  if (frame.dropped_before > 0) PutField("dropped_before", frame.dropped_before, &out);
  for (const SignalInfo& info : SignalCatalogue()) PutSignal(hello, frame, info, &out);
  out += "}\n";
  return out;
}

std::string JsonlLine(const Event& event) {
  std::string out = "{";
  PutField("step", event.step, &out);
  PutText("event", Name(event.kind), &out);
  if (!event.detail.empty()) PutText("detail", event.detail, &out);
  if (!event.layers.empty()) {
    PutKey("layers", &out);
    out.push_back('[');
    for (size_t i = 0; i < event.layers.size(); ++i) {
      if (i > 0) out.push_back(',');
      PutNumber(event.layers[i], &out);
    }
    out.push_back(']');
  }
  if (event.kind == EventKind::kAction) {
    PutText("action", event.action, &out);
    PutText("action_id", event.action_id, &out);
    PutText("action_state", Name(event.action_state), &out);
  }
  if (event.logit_before) {
    PutKey("logit_before", &out);
    PutReal(*event.logit_before, &out);
  }
  if (event.logit_after) {
    PutKey("logit_after", &out);
    PutReal(*event.logit_after, &out);
  }
  out += "}\n";
  return out;
}

std::string JsonlLine(const Goodbye& goodbye) {
  std::string out = "{";
  PutField("step", goodbye.step, &out);
  PutText("event", "goodbye", &out);
  PutText("status", Name(goodbye.status), &out);
  if (!goodbye.detail.empty()) PutText("detail", goodbye.detail, &out);
  out += "}\n";
  return out;
}

}  // namespace foreshock::wire
