#include "series_json.h"

#include <algorithm>
#include <optional>
#include <string>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/types.h"

namespace foreshock::json {
namespace {

bool Bit(const std::string& bitmap, size_t i) {
  return i / 8 < bitmap.size() && (static_cast<unsigned char>(bitmap[i / 8]) >> (i % 8) & 1) != 0;
}

// Reads a Series along its heads: arrays of a message hold present heads only.
class View {
 public:
  explicit View(const v1::Series& series)
      : series_(series), info_(FindSignal(static_cast<uint16_t>(series.signal()))) {}

  const SignalInfo* info() const { return info_; }
  bool ratio() const { return info_ != nullptr && info_->merge == SignalMerge::kRatio; }
  size_t per_head() const { return series_.values_per_head() > 1 ? series_.values_per_head() : 1; }
  // Scalars have one entry and no heads.
  size_t count() const {
    if (series_.heads_size() > 0) return static_cast<size_t>(series_.heads_size());
    return std::clamp<size_t>(series_.head_count(), 1, wire::kMaxHeads);
  }
  bool scalar() const { return series_.heads_size() == 0 && series_.head_count() == 0; }
  uint32_t head(size_t i) const {
    return series_.heads_size() > 0 ? series_.heads(static_cast<int>(i))
                                    : series_.first_head() + static_cast<uint32_t>(i);
  }
  bool present(size_t i) const { return series_.presence().empty() || Bit(series_.presence(), i); }

  // Of the k-th present head; nullopt where the message is too short.
  std::optional<float> value(size_t k, size_t j) const { return At(series_.values(), k * per_head() + j); }
  std::optional<float> weight(size_t k) const {
    return At(series_.weights(), series_.weights_size() == 1 ? 0 : k);
  }
  std::optional<float> moment(size_t k, size_t j) const {
    return At(series_.moments(), k * wire::kMomentsPerHead + j);
  }

 private:
  static std::optional<float> At(const google::protobuf::RepeatedField<float>& list, size_t i) {
    if (i >= static_cast<size_t>(list.size())) return std::nullopt;
    return list.Get(static_cast<int>(i));
  }

  const v1::Series& series_;
  const SignalInfo* info_;
};

void PutOptional(std::optional<float> value, Writer* out) {
  if (value) {
    out->Float(*value);
  } else {
    out->Null();
  }
}

void PutRatio(const SignalInfo& info, float numerator, std::optional<float> weight, Writer* out) {
  const std::optional<double> shown =
      DisplayValue(info, numerator, weight ? std::optional<double>(*weight) : std::nullopt);
  out->BeginObject().Key("value");
  if (shown) {
    out->Double(*shown);
  } else {
    out->Null();
  }
  out->Key("numerator").Float(numerator).Key("weight");
  PutOptional(weight, out);
  out->EndObject();
}

void PutOne(const View& view, size_t k, size_t j, Writer* out) {
  const std::optional<float> value = view.value(k, j);
  if (value && view.ratio()) {
    PutRatio(*view.info(), *value, view.weight(k), out);
  } else {
    PutOptional(value, out);
  }
}

// Entry of a present head.
void PutEntry(const View& view, size_t k, Writer* out) {
  if (view.per_head() == 1) return PutOne(view, k, 0, out);
  out->BeginArray();
  for (size_t j = 0; j < view.per_head(); ++j) PutOne(view, k, j, out);
  out->EndArray();
}

// An array along all heads: `put(k)` for the k-th present one, null for a missing one.
template <typename Put>
void PutAlong(const View& view, Writer* out, Put put) {
  out->BeginArray();
  for (size_t i = 0, k = 0; i < view.count(); ++i) {
    if (!view.present(i)) {
      out->Null();
    } else {
      put(k++);
    }
  }
  out->EndArray();
}

void PutMoments(const View& view, size_t k, Writer* out) {
  out->BeginArray();
  for (size_t j = 0; j < wire::kMomentsPerHead; ++j) PutOptional(view.moment(k, j), out);
  out->EndArray();
}

void PutFlags(uint32_t flags, Writer* out) {
  out->Key("flags").BeginArray();
  if (flags & wire::kLowResolution) out->String("low_resolution");
  if (flags & wire::kNotCausal) out->String("not_causal");
  if (flags & wire::kPartial) out->String("partial");
  out->EndArray();
}

void PutSteps(const v1::Series& series, Writer* out) {
  if (series.step_offsets_size() == 0) return;
  out->Key("step_offsets").BeginArray();
  for (const uint32_t offset : series.step_offsets()) out->Uint(offset);
  out->EndArray();
}

void PutName(const v1::Series& series, const View& view, Writer* out) {
  // A signal of a newer sender: its number is all that is known.
  out->Key("signal");
  if (view.info() != nullptr) {
    out->String(view.info()->name).Key("unit").String(view.info()->unit);
  } else {
    out->String("signal_" + std::to_string(series.signal())).Key("unit").Null();
  }
}

void PutScalarBody(const v1::Series& series, const View& view, Writer* out) {
  const bool present = view.present(0);
  if (view.ratio() && present && view.value(0, 0)) {
    out->Key("value");
    if (const auto shown = DisplayValue(*view.info(), *view.value(0, 0), view.weight(0))) {
      out->Double(*shown);
    } else {
      out->Null();
    }
    out->Key("numerator").Float(*view.value(0, 0));
  } else {
    out->Key("value");
    PutOptional(present ? view.value(0, 0) : std::nullopt, out);
  }
  if (series.weights_size() > 0) {
    out->Key("weight");
    PutOptional(view.weight(0), out);
  }
}

}  // namespace

void WriteSeries(const v1::Series& series, Writer* out) {
  const View view(series);
  out->BeginObject();
  PutName(series, view, out);
  out->Key("layer");
  if (series.has_layer()) {
    out->Uint(series.layer());
  } else {
    out->Null();
  }
  out->Key("heads").BeginArray();
  for (size_t i = 0; !view.scalar() && i < view.count(); ++i) out->Uint(view.head(i));
  out->EndArray();
  out->Key("values");
  PutAlong(view, out, [&](size_t k) { PutEntry(view, k, out); });
  if (series.weights_size() > 0) {
    out->Key("weights");
    PutAlong(view, out, [&](size_t k) { PutOptional(view.weight(k), out); });
  }
  if (series.moments_size() > 0) {
    out->Key("moments");
    PutAlong(view, out, [&](size_t k) { PutMoments(view, k, out); });
  }
  if (!series.rotated().empty()) {
    out->Key("rotated").BeginArray();
    for (size_t i = 0; i < view.count(); ++i) out->Bool(Bit(series.rotated(), i));
    out->EndArray();
  }
  if (series.direction_hash_size() > 0) {
    out->Key("direction_hash");
    PutAlong(view, out, [&](size_t k) {
      const bool there = k < static_cast<size_t>(series.direction_hash_size());
      if (!there) return (void)out->Null();
      out->String(std::to_string(series.direction_hash(static_cast<int>(k))));
    });
  }
  PutSteps(series, out);
  PutFlags(series.flags(), out);
  out->EndObject();
}

void WriteFrame(const v1::Frame& frame, Writer* out) {
  out->BeginObject();
  out->Key("seq").Uint(frame.seq()).Key("step").Int(frame.step()).Key("time");
  if (frame.time_unix_ns() == 0) {
    out->Null();
  } else {
    out->String(Rfc3339(static_cast<int64_t>(frame.time_unix_ns())));
  }
  out->Key("dropped_before").Uint(frame.dropped_before());
  out->Key("skipped").Bool(frame.skipped()).Key("window_from").Int(frame.window_from());
  out->Key("scalars").BeginObject();
  for (const v1::Series& series : frame.series()) {
    const View view(series);
    if (series.has_layer() || !view.scalar() || view.info() == nullptr) continue;
    out->Key(view.info()->name).BeginObject();
    PutScalarBody(series, view, out);
    out->EndObject();
  }
  out->EndObject().Key("series").BeginArray();
  for (const v1::Series& series : frame.series()) {
    const View view(series);
    if (series.has_layer() || !view.scalar() || view.info() == nullptr) WriteSeries(series, out);
  }
  out->EndArray().EndObject();
}

}  // namespace foreshock::json
