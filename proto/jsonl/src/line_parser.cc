#include "line_parser.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/codec.h"

namespace foreshock::jsonl {
namespace {

using nlohmann::json;
using wire::EventKind;

Status Bad(const std::string& what) { return Status(Code::kDataLoss, what); }

// A whole number in [0, limit].
Result<uint64_t> Whole(const json& line, const std::string& key, uint64_t limit) {
  const auto it = line.find(key);
  if (it == line.end()) return Bad(key + ": missing");
  if (!it->is_number_unsigned() || it->get<uint64_t>() > limit) {
    return Bad(key + ": " + it->dump().substr(0, 40) + ", expected a whole number from 0 to " +
               std::to_string(limit));
  }
  return it->get<uint64_t>();
}

// A whole number, which may be negative: the frame before the first one.
Result<int64_t> Signed(const json& line, const std::string& key) {
  const auto it = line.find(key);
  if (it == line.end()) return Bad(key + ": missing");
  const bool fits = it->is_number_unsigned() ? it->get<uint64_t>() <= INT64_MAX : it->is_number_integer();
  if (!fits) return Bad(key + ": " + it->dump().substr(0, 40) + ", expected a whole number");
  return it->get<int64_t>();
}

// The numbers of a record that other tools may leave out.
Result<uint64_t> CountOr0(const json& line, const std::string& key) {
  if (!line.contains(key)) return uint64_t{0};
  return Whole(line, key, std::numeric_limits<uint64_t>::max());
}

// Missing and null: not measured.
std::optional<float> RealOrNone(const json& line, const char* key);

Result<uint32_t> WholeOr(const json& line, const std::string& key, uint32_t limit, uint32_t otherwise) {
  if (!line.contains(key)) return otherwise;
  FS_ASSIGN_OR_RETURN(const uint64_t value, Whole(line, key, limit));
  return static_cast<uint32_t>(value);
}

std::string TextOr(const json& line, const char* key) {
  const auto it = line.find(key);
  return it != line.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// A value, or missing (nullopt), or an error.
Result<std::optional<float>> Value(const json& value, bool null_is_nan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  if (value.is_number()) {
    const double number = value.get<double>();
    if (std::fabs(number) <= std::numeric_limits<float>::max()) {
      return std::optional<float>(static_cast<float>(number));
    }
    return std::optional<float>(number > 0 ? kInf
                                           : -kInf);  // too large for the float that it was, or becomes
  }
  if (value.is_null()) return null_is_nan ? std::optional<float>(kNan) : std::optional<float>();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN") return std::optional<float>(kNan);
    if (text == "Infinity") return std::optional<float>(kInf);
    if (text == "-Infinity") return std::optional<float>(-kInf);
  }
  return Bad(value.dump().substr(0, 40) + " is no number, null, \"NaN\", \"Infinity\" or \"-Infinity\"");
}

std::optional<float> RealOrNone(const json& line, const char* key) {
  const auto it = line.find(key);
  if (it == line.end()) return std::nullopt;
  auto value = Value(*it, false);
  return value.ok() ? *value : std::nullopt;
}

uint32_t HeadsOf(const wire::Layer& layer, SignalScope scope) {
  return scope == SignalScope::kKvHead ? layer.kv_heads : layer.query_heads;
}

// One layer's row of a [layer][head] array. `weights` may be nullptr.
Result<wire::Series> ParseRow(const json& row, const json* weights, const SignalInfo& info,
                              const wire::Layer& layer, bool null_is_nan) {
  const uint32_t heads = HeadsOf(layer, info.scope);
  const std::string where = std::string(info.name) + ", layer " + std::to_string(layer.layer) + ": ";
  if (!row.is_array()) return Bad(where + "not an array");
  if (row.size() != heads || (weights && (!weights->is_array() || weights->size() != heads))) {
    return Bad(where + std::to_string(row.size()) + " heads, the header says " + std::to_string(heads));
  }
  const bool ratio = info.merge == SignalMerge::kRatio;
  wire::Series series;
  series.signal = info.id;
  series.layer = layer.layer;
  for (uint32_t head = 0; head < heads; ++head) {
    auto value = Value(row[head], null_is_nan);
    if (!value.ok()) return Bad(where + value.status().message());
    float weight = 1;
    if (weights) {
      auto parsed = Value((*weights)[head], false);
      if (!parsed.ok()) return Bad(where + "weight " + parsed.status().message());
      weight = parsed->value_or(ratio ? 0.0f : 1.0f);
    }
    if (!*value) continue;
    series.heads.push_back(head);
    series.values.push_back(ratio ? **value * weight : **value);
    if (weights || ratio) series.weights.push_back(weight);
  }
  return series;
}

Status AddHeads(const json& value, const json* weights, const SignalInfo& info, const Shape& shape,
                wire::Frame* frame) {
  const auto& layers = shape.hello.model.layers;
  const std::string name(info.name);
  if (!value.is_array()) return Bad(name + ": not a [layer][head] array");
  if (value.size() != layers.size() ||
      (weights && (!weights->is_array() || weights->size() != layers.size()))) {
    return Bad(name + ": " + std::to_string(value.size()) + " layers, the header says " +
               std::to_string(layers.size()));
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    FS_ASSIGN_OR_RETURN(wire::Series series, ParseRow(value[l], weights ? &(*weights)[l] : nullptr, info,
                                                      layers[l], shape.null_is_nan));
    if (!series.heads.empty()) frame->series.push_back(std::move(series));
  }
  return OkStatus();
}

Status AddScalar(const json& value, const SignalInfo& info, const Shape& shape, wire::Frame* frame) {
  auto parsed = Value(value, shape.null_is_nan);
  if (!parsed.ok()) return Bad(std::string(info.name) + ": " + parsed.status().message());
  if (!*parsed) return OkStatus();
  wire::Series series;
  series.signal = info.id;
  series.values.push_back(**parsed);
  if (info.merge == SignalMerge::kRatio) series.weights.push_back(1);
  frame->series.push_back(std::move(series));
  return OkStatus();
}

Result<wire::Layer> ParseLayer(const json& in, const wire::Layer& usual) {
  if (!in.is_object()) return Bad("layer_info: an entry is no object");
  wire::Layer layer = usual;
  layer.name = TextOr(in, "name");
  FS_ASSIGN_OR_RETURN(layer.layer, WholeOr(in, "layer", wire::kMaxLayers - 1, usual.layer));
  FS_ASSIGN_OR_RETURN(layer.query_heads, WholeOr(in, "heads", wire::kMaxHeads, usual.query_heads));
  FS_ASSIGN_OR_RETURN(layer.kv_heads, WholeOr(in, "kv_heads", wire::kMaxHeads, usual.kv_heads));
  FS_ASSIGN_OR_RETURN(layer.head_dim, WholeOr(in, "head_dim", 1u << 20, usual.head_dim));
  FS_ASSIGN_OR_RETURN(const uint32_t qk_norm, WholeOr(in, "qk_norm", 1, 0));
  FS_ASSIGN_OR_RETURN(const uint32_t low_resolution, WholeOr(in, "low_resolution", 1, 0));
  layer.qk_norm = qk_norm != 0;
  layer.low_resolution = low_resolution != 0;
  if (in.contains("scale") && in["scale"].is_number()) layer.scale = in["scale"].get<float>();
  if (in.contains("softcap") && in["softcap"].is_number()) layer.softcap = in["softcap"].get<float>();
  return layer;
}

template <typename Kind>
std::optional<Kind> KindByName(const std::string& name, int last) {
  for (int i = 1; i <= last; ++i) {
    if (wire::Name(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

// Written as text: JSON readers keep 53 bits of a number. 0 when it is not told.
Result<uint64_t> Incarnation(const json& line) {
  const auto it = line.find("incarnation");
  if (it == line.end()) return 0;
  const std::string text = it->is_string() ? it->get<std::string>() : it->dump();
  const char* end = text.data() + text.size();
  uint64_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (it->is_string() && error == std::errc() && at == end) return number;
  return Bad("incarnation: " + it->dump().substr(0, 40) +
             ", expected decimal text, \"0\" to \"18446744073709551615\"");
}

}  // namespace

bool IsHeader(const json& line) {
  return line.contains("run") && line.contains("layers") && line.contains("heads");
}

Result<Shape> ParseHeader(const json& line) {
  Shape shape;
  wire::Hello& hello = shape.hello;
  if (!line["run"].is_string()) return Bad("run: not a string");
  hello.run = line["run"];
  if (hello.run.empty() || hello.run.size() > wire::kMaxNameBytes) {
    return Bad("run: " + std::to_string(hello.run.size()) + " bytes, expected 1 to " +
               std::to_string(wire::kMaxNameBytes));
  }
  hello.attempt = TextOr(line, "attempt");
  FS_ASSIGN_OR_RETURN(hello.incarnation, Incarnation(line));
  FS_ASSIGN_OR_RETURN(const uint32_t format, WholeOr(line, "format", 1000, 1));
  if (format > 2) return Bad("format: " + std::to_string(format) + ", this reader knows 1 and 2");
  shape.null_is_nan = format < 2;
  FS_ASSIGN_OR_RETURN(const uint64_t layers, Whole(line, "layers", wire::kMaxLayers));
  FS_ASSIGN_OR_RETURN(const uint64_t heads, Whole(line, "heads", wire::kMaxHeads));
  wire::Layer usual;
  usual.query_heads = static_cast<uint32_t>(heads);
  FS_ASSIGN_OR_RETURN(usual.kv_heads, WholeOr(line, "kv_heads", wire::kMaxHeads, usual.query_heads));
  FS_ASSIGN_OR_RETURN(usual.head_dim, WholeOr(line, "head_dim", 1u << 20, 0));
  FS_ASSIGN_OR_RETURN(hello.model.model_dim, WholeOr(line, "model_dim", 1u << 24, 0));
  FS_ASSIGN_OR_RETURN(hello.sample_every_steps, WholeOr(line, "sample_every_steps", 1u << 30, 0));
  FS_ASSIGN_OR_RETURN(hello.rank, WholeOr(line, "rank", 1u << 30, 0));
  FS_ASSIGN_OR_RETURN(hello.world_size, WholeOr(line, "world_size", 1u << 30, 1));
  const auto infos = line.find("layer_info");
  const bool described = infos != line.end() && infos->is_array() && !infos->empty();
  if (described && infos->size() != layers) {
    return Bad("layer_info: " + std::to_string(infos->size()) + " entries, layers says " +
               std::to_string(layers));
  }
  for (uint32_t l = 0; l < layers; ++l) {
    usual.layer = l;
    if (!described) {
      hello.model.layers.push_back(usual);
      continue;
    }
    FS_ASSIGN_OR_RETURN(wire::Layer layer, ParseLayer((*infos)[l], usual));
    hello.model.layers.push_back(std::move(layer));
  }
  if (const auto items = line.find("unmonitored"); items != line.end() && items->is_array()) {
    for (const json& item : *items) {
      if (item.is_object()) hello.unmonitored.push_back({TextOr(item, "name"), TextOr(item, "reason")});
    }
  }
  return shape;
}

Result<wire::Frame> ParseFrame(const json& line, const Shape& shape) {
  wire::Frame frame;
  FS_ASSIGN_OR_RETURN(const uint64_t step, Whole(line, "step", std::numeric_limits<int64_t>::max()));
  frame.step = static_cast<int64_t>(step);
  FS_ASSIGN_OR_RETURN(frame.seq, CountOr0(line, "seq"));
  FS_ASSIGN_OR_RETURN(frame.dropped_before, CountOr0(line, "dropped_before"));
  if (line.contains("window_from")) {
    FS_ASSIGN_OR_RETURN(frame.window_from, Signed(line, "window_from"));
  }
  if (const auto skipped = line.find("skipped"); skipped != line.end()) {
    frame.skipped = *skipped == 1 || *skipped == true;
  }
  for (const SignalInfo& info : SignalCatalogue()) {
    const auto value = line.find(info.name);
    if (value == line.end()) continue;
    if (info.scope == SignalScope::kScalar) {
      FS_RETURN_IF_ERROR(AddScalar(*value, info, shape, &frame));
      continue;
    }
    const auto weights = line.find(std::string(info.name) + "_weight");
    FS_RETURN_IF_ERROR(AddHeads(*value, weights == line.end() ? nullptr : &*weights, info, shape, &frame));
  }
  return frame;
}

Result<wire::RecordingItem> ParseEvent(const json& line) {
  const std::string name = TextOr(line, "event");
  FS_ASSIGN_OR_RETURN(const uint64_t step, Whole(line, "step", std::numeric_limits<int64_t>::max()));
  if (name == "goodbye") {
    wire::Goodbye goodbye;
    goodbye.step = static_cast<int64_t>(step);
    goodbye.detail = TextOr(line, "detail");
    goodbye.status =
        KindByName<wire::GoodbyeStatus>(TextOr(line, "status"), 3).value_or(wire::GoodbyeStatus());
    return wire::RecordingItem(std::move(goodbye));
  }
  wire::Event event;
  event.step = static_cast<int64_t>(step);
  event.detail = TextOr(line, "detail");
  event.action = TextOr(line, "action");
  event.action_id = TextOr(line, "action_id");
  event.logit_before = RealOrNone(line, "logit_before");
  event.logit_after = RealOrNone(line, "logit_after");
  // A kind that only a newer writer knows is a note.
  event.kind =
      KindByName<EventKind>(name, static_cast<int>(EventKind::kUnmonitored)).value_or(EventKind::kNote);
  event.action_state =
      KindByName<wire::ActionState>(TextOr(line, "action_state"), 7).value_or(wire::ActionState());
  if (const auto layers = line.find("layers"); layers != line.end() && layers->is_array()) {
    for (const json& layer : *layers) {
      if (layer.is_number_unsigned()) event.layers.push_back(layer.get<uint32_t>());
    }
  }
  return wire::RecordingItem(std::move(event));
}

}  // namespace foreshock::jsonl
