#include "convert.h"

#include "foreshock/wire/codec.h"

namespace foreshock::query {
namespace {

// Bit i of entry i, least significant first.
std::string Bitmap(const std::vector<uint8_t>& bits) {
  std::string out((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) out[i / 8] = static_cast<char>(static_cast<unsigned char>(out[i / 8]) | (1u << (i % 8)));
  }
  return out;
}

bool IsRange(const std::vector<uint32_t>& heads) {
  for (size_t i = 1; i < heads.size(); ++i) {
    if (heads[i] != heads[0] + i) return false;
  }
  return true;
}

void PutHeads(const std::vector<uint32_t>& heads, v1::Series* out) {
  if (heads.empty()) return;
  if (IsRange(heads)) {
    out->set_first_head(heads[0]);
    out->set_head_count(static_cast<uint32_t>(heads.size()));
  } else {
    out->mutable_heads()->Add(heads.begin(), heads.end());
  }
}

// In memory arrays run along all heads, in a message along the present ones.
template <typename T, typename Field>
void PutPresent(const wire::Series& series, const std::vector<T>& all, size_t per_head, Field* field) {
  if (series.present.empty()) {
    field->Add(all.begin(), all.end());
    return;
  }
  for (size_t i = 0; i < series.count(); ++i) {
    if (series.has(i)) field->Add(all.begin() + i * per_head, all.begin() + (i + 1) * per_head);
  }
}

}  // namespace

void ToProto(const wire::Series& series, v1::Series* out) {
  out->set_signal(series.signal);
  if (series.layer) out->set_layer(*series.layer);
  PutHeads(series.heads, out);
  if (!series.present.empty()) out->set_presence(Bitmap(series.present));
  PutPresent(series, series.values, series.values_per_head, out->mutable_values());
  if (series.weights.size() == 1) {
    out->add_weights(series.weights[0]);
  } else if (!series.weights.empty()) {
    PutPresent(series, series.weights, 1, out->mutable_weights());
  }
  if (!series.moments.empty())
    PutPresent(series, series.moments, wire::kMomentsPerHead, out->mutable_moments());
  if (series.values_per_head != 1) out->set_values_per_head(series.values_per_head);
  if (!series.direction_hash.empty()) {
    PutPresent(series, series.direction_hash, 1, out->mutable_direction_hash());
  }
  out->set_flags(series.flags);
  out->mutable_step_offsets()->Add(series.step_offsets.begin(), series.step_offsets.end());
  if (!series.rotated.empty()) out->set_rotated(Bitmap(series.rotated));
}

void ToProto(const wire::Frame& frame, v1::Frame* out) {
  out->set_seq(frame.seq);
  out->set_step(frame.step);
  out->set_time_unix_ns(frame.time_unix_ns);
  out->set_dropped_before(frame.dropped_before);
  out->set_skipped(frame.skipped);
  out->set_window_from(frame.window_from);
  for (const wire::Series& series : frame.series) ToProto(series, out->add_series());
}

// Both codecs write the same bytes.
void ToProto(const wire::Event& event, v1::Event* out) { (void)out->ParseFromString(wire::Encode(event)); }

void ToProto(const store::AttemptInfo& attempt, v1::Attempt* out) {
  out->set_attempt(attempt.attempt);
  out->set_source(static_cast<v1::AttemptSource>(attempt.source));
  out->set_world_size(attempt.world_size);
  out->set_first_step(attempt.first_step.value_or(0));
  out->set_last_step(attempt.last_step.value_or(0));
  for (const store::SourceInfo& source : attempt.sources) {
    v1::Source& s = *out->add_sources();
    s.set_rank(source.id.rank);
    s.set_incarnation(source.hello->incarnation);
    s.set_host(source.hello->host);
    s.set_durable_seq(source.durable_seq);
    s.set_frames(source.frames);
    s.set_duplicates(source.duplicates);
    s.set_dropped(source.dropped);
    s.set_quarantined(source.quarantined);
    s.set_last_step(source.last_step.value_or(0));
    s.set_clock_skew_ns(source.clock_skew_ns);
    if (source.goodbye && !source.goodbye->detail.empty()) out->set_goodbye_detail(source.goodbye->detail);
  }
}

void AddHello(const wire::Hello& hello, v1::Run* out) {
  v1::Hello message;
  (void)message.ParseFromString(wire::Encode(hello));
  out->mutable_model()->Swap(message.mutable_model());
  out->mutable_unmonitored()->Swap(message.mutable_unmonitored());
  out->mutable_labels()->swap(*message.mutable_labels());
}

v1::RunState ToProto(store::RunState state) { return static_cast<v1::RunState>(state); }

}  // namespace foreshock::query
