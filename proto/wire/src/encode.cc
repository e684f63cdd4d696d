#include <protozero/pbf_writer.hpp>

#include "fields.h"
#include "foreshock/wire/codec.h"
#include "matcher.h"
#include "put.h"
#include "series_codec.h"

namespace foreshock::wire {
namespace {

// A message that holds defaults alone is there all the same, with no bytes: protozero's own nested writer would take it back.
template <typename Message>
void PutMessage(Writer& parent, protozero::pbf_tag_type tag, const Message& message,
                void (*put)(Writer&, const Message&)) {
  std::string bytes;
  Writer child{bytes};
  put(child, message);
  parent.add_message(tag, bytes);
}

void PutLayer(Writer& w, const Layer& layer) {
  using namespace field::layer;
  PutUint(w, kLayer, layer.layer);
  PutText(w, kName, layer.name);
  PutUint(w, kQueryHeads, layer.query_heads);
  PutUint(w, kKvHeads, layer.kv_heads);
  PutUint(w, kHeadDim, layer.head_dim);
  PutFloat(w, kScale, layer.scale);
  PutFloat(w, kSoftcap, layer.softcap);
  PutUint(w, kQkNorm, layer.qk_norm);
  PutUint(w, kIsLowResolution, layer.low_resolution);
}

void PutModel(Writer& w, const Model& model) {
  using namespace field::model;
  PutText(w, kName, model.name);
  PutUint(w, kModelDim, model.model_dim);
  for (const Layer& layer : model.layers) PutMessage(w, kLayers, layer, PutLayer);
}

void PutUnmonitored(Writer& w, const Unmonitored& item) {
  PutText(w, field::unmonitored::kName, item.name);
  PutText(w, field::unmonitored::kReason, item.reason);
}

template <typename W, typename Counted>
void PutHead(W& w, const Counted& record) {
  using namespace field::head;
  PutUint(w, kSeq, record.seq);
  PutInt(w, kStep, record.step);
  PutFixed(w, kTime, record.time_unix_ns);
  PutUint(w, kDroppedBefore, record.dropped_before);
}

void PutHelloAck(Writer& w, const HelloAck& ack) {
  using namespace field::hello_ack;
  PutText(w, kAttempt, ack.attempt);
  PutUint(w, kAttemptSource, static_cast<uint64_t>(ack.attempt_source));
  PutUint(w, kDurableSeq, ack.durable_seq);
  PutUint(w, kMessageLimit, ack.max_message_bytes);
}

void PutAction(Writer& w, const Action& action) {
  using namespace field::action;
  PutText(w, kId, action.id);
  PutText(w, kKind, action.kind);
  PutText(w, kAttempt, action.attempt);
  PutText(w, kIssuer, action.issuer);
  PutInt(w, kEffectiveStep, action.effective_step);
  PutInt(w, kExpiryStep, action.expiry_step);
  PutUints(w, kLayers, action.layers);
  PutDouble(w, kValue, action.value);
  PutText(w, kReason, action.reason);
  PutUint(w, kCommitted, action.committed);
}

void PutSampling(Writer& w, const Sampling& sampling) {
  using namespace field::sampling;
  PutUint(w, kAttention, sampling.attention_every_steps);
  PutUint(w, kSpectra, sampling.spectra_every_steps);
  PutUint(w, kProjections, sampling.projections_every_steps);
  PutUint(w, kRowStride, sampling.row_stride);
}

void PutError(Writer& w, const IngestError& error) {
  using namespace field::error;
  PutUint(w, kCode, error.code);
  PutText(w, kField, error.field);
  PutText(w, kValue, error.value);
  PutText(w, kLimit, error.limit);
  PutText(w, kMessage, error.message);
  PutUint(w, kSeq, error.seq);
  PutUint(w, kFinal, error.final);
}

template <typename W>
void PutFrameHead(W& w, const Frame& frame) {
  using namespace field::frame;
  PutHead(w, frame);
  PutUint(w, kSkipped, frame.skipped);
  PutUint(w, kPart, frame.part);
  PutUint(w, kParts, frame.parts == 1 ? 0 : frame.parts);
  PutInt(w, kWindowFrom, frame.window_from);
}

// No heads at all (a rank that holds none of a layer's): nothing to say, and no receiver could read it.
bool SaysNothing(const Series& series) {
  return series.heads.empty() && series.values.empty() && series.present.empty();
}

}  // namespace

std::string Encode(const Hello& hello) {
  using namespace field::hello;
  std::string out;
  Writer w{out};
  PutUint(w, kWireVersion, hello.wire_version);
  PutText(w, kRun, hello.run);
  PutText(w, kAttempt, hello.attempt);
  PutUint(w, kAttemptSource, static_cast<uint64_t>(hello.attempt_source));
  PutUint(w, kRank, hello.rank);
  PutUint(w, kWorldSize, hello.world_size);
  PutFixed(w, kIncarnation, hello.incarnation);
  PutFixed(w, kStarted, hello.started_unix_ns);
  PutText(w, kHost, hello.host);
  PutUint(w, kPid, hello.pid);
  PutText(w, kSdkVersion, hello.sdk_version);
  PutText(w, kFramework, hello.framework);
  if (hello.model != Model{}) PutMessage(w, kModel, hello.model, PutModel);
  for (const Unmonitored& item : hello.unmonitored) PutMessage(w, kUnmonitored, item, PutUnmonitored);
  for (const std::string& action : hello.allowed_actions) w.add_string(kAllowedActions, action);
  PutUint(w, kSampleEverySteps, hello.sample_every_steps);
  for (const auto& [key, value] : hello.labels) {  // a map entry always carries both fields
    Writer entry{w, kLabels};
    entry.add_string(1, key);
    entry.add_string(2, value);
  }
  PutUint(w, kLocalWorldSize, hello.local_world_size);
  PutUint(w, kActionProtocol, hello.action_protocol);
  return out;
}

std::string Encode(const Frame& frame) {
  std::string out;
  Writer w{out};
  PutFrameHead(w, frame);
  for (const Series& series : frame.series) {
    if (SaysNothing(series)) continue;
    Writer one{w, field::frame::kSeries};  // never empty
    PutSeries(one, series);
  }
  return out;
}

bool EncodesTo(const Frame& frame, std::string_view bytes) {
  Matcher m(bytes);
  PutFrameHead(m, frame);
  for (const Series& series : frame.series) {
    if (SaysNothing(series)) continue;
    Matcher one = m.Message(field::frame::kSeries);
    if (!m.ok()) return false;
    MatchSeries(one, series);
    m.Take(one);
  }
  return m.Matches();
}

std::string Encode(const Event& event) {
  using namespace field::event;
  std::string out;
  Writer w{out};
  PutHead(w, event);
  PutUint(w, kKind, static_cast<uint64_t>(event.kind));
  PutText(w, kDetail, event.detail);
  PutUints(w, kLayers, event.layers);
  PutText(w, kActionId, event.action_id);
  PutText(w, kAction, event.action);
  PutUint(w, kActionState, static_cast<uint64_t>(event.action_state));
  if (event.logit_before) w.add_float(kLogitBefore, *event.logit_before);
  if (event.logit_after) w.add_float(kLogitAfter, *event.logit_after);
  return out;
}

std::string Encode(const Goodbye& goodbye) {
  std::string out;
  Writer w{out};
  PutHead(w, goodbye);
  PutUint(w, field::goodbye::kStatus, static_cast<uint64_t>(goodbye.status));
  PutText(w, field::goodbye::kDetail, goodbye.detail);
  return out;
}

std::string Encode(const Reply& reply) {
  using namespace field::reply;
  std::string out;
  Writer w{out};
  PutUint(w, kDurableSeq, reply.durable_seq);
  if (reply.hello) PutMessage(w, kHello, *reply.hello, PutHelloAck);
  for (const Action& action : reply.actions) PutMessage(w, kActions, action, PutAction);
  if (reply.sampling) PutMessage(w, kSampling, *reply.sampling, PutSampling);
  if (reply.error) PutMessage(w, kError, *reply.error, PutError);
  PutFixed(w, kTime, reply.time_unix_ns);
  for (const Action& action : reply.proposals) PutMessage(w, kProposals, action, PutAction);
  return out;
}

std::string Encode(const Action& action) {
  std::string out;
  Writer w{out};
  PutAction(w, action);
  return out;
}

std::string WithDroppedBefore(std::string bytes, uint64_t dropped_before) {
  Writer w{bytes};
  w.add_uint64(field::head::kDroppedBefore, dropped_before);
  return bytes;
}

}  // namespace foreshock::wire
