#include "foreshock/sdk/weight_tracker.h"

#include <algorithm>

#include "device_weights.h"
#include "weight_columns.h"

namespace foreshock::sdk {

using kernels::HeadSpectrum;
using kernels::kPairs;

struct WeightTracker::Layer {
  Layer(int32_t layer_index, const LayerSpec& spec, const std::vector<uint32_t>& q_heads,
        const std::vector<uint32_t>& k_heads, uint32_t partial_room)
      : index(layer_index),
        d_model(spec.model_dim),
        d_head(spec.head_dim),
        q(q_heads, spec.model_dim, spec.head_dim, partial_room),
        k(k_heads, spec.model_dim, spec.head_dim, partial_room),
        sharded(partial_room > 0) {}

  int32_t index = 0;
  size_t d_model = 0, d_head = 0;
  ProjectionTracker q, k;
  double q_decay = 0, k_decay = 0;
  bool has_q = false, has_k = false;
  bool sharded = false;
  bool awaited = false;  // spectra are due once the parameters are whole
  // What ProbeWeights is asked: the measured query heads, and every key head that they or this replica need.
  std::vector<uint32_t> probed_k;  // local
  std::vector<kernels::WeightView> probed_k_views;
  std::vector<int32_t> kv_of_query;
  std::vector<float> probed_u_k, probed_v_k;
  std::vector<HeadSpectrum> q_spectra, k_spectra;
  std::vector<double> qk_sigma1;
  // Weights on a GPU: the vectors above stay empty, and these are the numbers there, by local head.
  DeviceWeights* device = nullptr;
  std::vector<std::pair<uint32_t, int32_t>> device_q, device_k;

  kernels::WeightSet Set() const {
    kernels::WeightSet set;
    set.wq = q.views();
    set.n_q = has_q ? static_cast<int32_t>(q.count()) : 0;
    set.wk = probed_k_views.data();
    set.n_k = has_k ? static_cast<int32_t>(probed_k.size()) : 0;
    set.kv_of_query = set.n_q > 0 && set.n_k > 0 ? kv_of_query.data() : nullptr;
    return set;
  }
};

namespace {

std::vector<uint32_t> OwnHeads(uint32_t first, uint32_t local, uint32_t replica, uint32_t replicas) {
  std::vector<uint32_t> heads;
  for (uint32_t h = 0; h < local; ++h) {
    if ((first + h) % replicas == replica) heads.push_back(h);
  }
  return heads;
}

}  // namespace

WeightTracker::WeightTracker(const std::vector<LayerSpec>& layers, const FrameLayout& layout,
                             uint32_t replica, uint32_t replicas)
    : layout_(layout) {
  size_t workspace = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& spec = layers[i];
    // Every rank of a sharded layer derives the directions of all its heads.
    const bool sharded = (spec.wq && spec.wq->shard) || (spec.wk && spec.wk->shard);
    const uint32_t share = sharded ? 0 : replica, shares = sharded ? 1 : replicas;
    auto q_heads = OwnHeads(spec.first_query_head, spec.local_query_heads, share, shares);
    auto k_heads = OwnHeads(spec.first_kv_head, spec.local_kv_heads, share, shares);
    if (!spec.wq) q_heads.clear();
    if (!spec.wk) k_heads.clear();
    const bool on_device = (spec.wq && spec.wq->device >= 0) || (spec.wk && spec.wk->device >= 0);
    if (on_device) {
      auto layer = std::make_unique<Layer>(static_cast<int32_t>(i), spec, std::vector<uint32_t>(),
                                           std::vector<uint32_t>(), 0);
      AddToDevice(*layer, spec, q_heads, k_heads);
      layers_.push_back(std::move(layer));
      continue;
    }
    auto layer = std::make_unique<Layer>(static_cast<int32_t>(i), spec, q_heads, k_heads,
                                         sharded ? layout.partial_room() : 0);
    layer->has_q = spec.wq.has_value();
    layer->has_k = spec.wk.has_value();
    layer->probed_k = k_heads;
    if (layer->has_k) {
      // Key heads that only qk_sigma1 needs come after the ones of this replica.
      for (const uint32_t h : q_heads) {
        const uint32_t local = spec.KvHeadOf(spec.first_query_head + h) - spec.first_kv_head;
        auto& probed = layer->probed_k;
        auto at = std::find(probed.begin(), probed.end(), local);
        if (at == probed.end()) at = probed.insert(probed.end(), local);
        layer->kv_of_query.push_back(static_cast<int32_t>(at - probed.begin()));
      }
    }
    const size_t pairs = layer->probed_k.size() * kPairs;
    layer->probed_k_views.resize(layer->probed_k.size());
    layer->probed_u_k.resize(pairs * spec.model_dim);
    layer->probed_v_k.resize(pairs * spec.head_dim);
    layer->q_spectra.resize(q_heads.size());
    layer->k_spectra.resize(layer->probed_k.size());
    layer->qk_sigma1.resize(q_heads.size());
    layers_.push_back(std::move(layer));
    SetViews(i, spec);
    workspace = std::max(workspace, kernels::ProbeWeightsWorkspaceBytes(layers_.back()->Set()));
  }
  workspace_.resize(workspace);
  for (auto& device : devices_) {
    const Status made = device->Make();
    if (made.ok()) continue;
    failures_.push_back({"weights on CUDA device " + std::to_string(device->device()), made.message()});
    for (auto& layer : layers_) {
      if (layer->device == device.get()) layer->device = nullptr;
    }
    device.reset();
  }
  devices_.erase(std::remove(devices_.begin(), devices_.end(), nullptr), devices_.end());
}

DeviceWeights& WeightTracker::OnDevice(int device) {
  for (auto& known : devices_) {
    if (known->device() == device) return *known;
  }
  devices_.push_back(std::make_unique<DeviceWeights>(device, layout_));
  return *devices_.back();
}

void WeightTracker::AddToDevice(Layer& layer, const LayerSpec& spec, const std::vector<uint32_t>& q_heads,
                                const std::vector<uint32_t>& k_heads) {
  const auto at = static_cast<size_t>(layer.index);
  layer.device = &OnDevice(spec.wq ? spec.wq->device : spec.wk->device);
  const auto key = [&](uint32_t local, bool reported) {
    for (const auto& [head, number] : layer.device_k) {
      if (head == local) return number;
    }
    const int32_t number =
        layer.device->AddHead({at, local, true, reported}, spec.View(*spec.wk, local), spec.wk->weight_decay);
    layer.device_k.emplace_back(local, number);
    return number;
  };
  for (const uint32_t h : k_heads) key(h, true);
  for (const uint32_t h : q_heads) {
    const int32_t number =
        layer.device->AddHead({at, h, false, true}, spec.View(*spec.wq, h), spec.wq->weight_decay);
    layer.device_q.emplace_back(h, number);
    if (!spec.wk) continue;
    // Key heads that only qk_sigma1 needs are another replica's to report.
    layer.device->AddPair(number, key(spec.KvHeadOf(spec.first_query_head + h) - spec.first_kv_head, false));
  }
}

WeightTracker::~WeightTracker() = default;

void WeightTracker::SetViews(size_t layer_index, const LayerSpec& spec) {
  Layer& layer = *layers_[layer_index];
  if (layer.device != nullptr) {
    for (const auto& [head, number] : layer.device_q)
      layer.device->SetView(number, spec.View(*spec.wq, head));
    for (const auto& [head, number] : layer.device_k)
      layer.device->SetView(number, spec.View(*spec.wk, head));
    return;
  }
  if (spec.wq) {
    layer.q.SetViews(spec, *spec.wq);
    layer.q_decay = spec.wq->weight_decay;
  }
  if (!spec.wk) return;
  layer.k.SetViews(spec, *spec.wk);
  layer.k_decay = spec.wk->weight_decay;
  for (size_t i = 0; i < layer.probed_k.size(); ++i) {
    layer.probed_k_views[i] = spec.View(*spec.wk, layer.probed_k[i]);
  }
}

void WeightTracker::ProbeLayer(Layer& layer, FrameSlot* slot) noexcept {
  const kernels::WeightSet set = layer.Set();
  if (set.n_q == 0 && set.n_k == 0) return;
  kernels::WeightProbeResult result;
  result.q = layer.q_spectra.data();
  result.k = layer.k_spectra.data();
  result.qk_sigma1 = set.kv_of_query != nullptr ? layer.qk_sigma1.data() : nullptr;
  result.u_q = layer.q.next_u();
  result.v_q = layer.q.next_v();
  result.u_k = layer.probed_u_k.data();
  result.v_k = layer.probed_v_k.data();
  const auto status = kernels::ProbeWeights(set, result, {workspace_.data(), workspace_.size()});
  if (status != kernels::KernelStatus::kOk) return;  // missing, as everything that is not written

  for (size_t m = 0; m < layer.q.count(); ++m) {
    const uint32_t head = layer.q.heads()[m];
    WriteSpectrum(layout_, slot, layer.index, kQuerySide, head, layer.q_spectra[m]);
    if (result.qk_sigma1 == nullptr) continue;
    ColumnWriter qk(layout_, slot, layer.index, kQkSigma1);
    qk.Set(head, layer.qk_sigma1[m]);
  }
  for (size_t m = 0; m < layer.k.count(); ++m) {
    WriteSpectrum(layout_, slot, layer.index, kKeySide, layer.k.heads()[m], layer.k_spectra[m]);
  }
  if (layer.k.count() > 0) {
    // This replica's key heads come first among the probed ones.
    const size_t vectors = layer.k.count() * kPairs;
    std::copy_n(layer.probed_u_k.begin(), vectors * layer.d_model, layer.k.next_u());
    std::copy_n(layer.probed_v_k.begin(), vectors * layer.d_head, layer.k.next_v());
    layer.k.PairsTaken();
  }
  if (layer.q.count() > 0) layer.q.PairsTaken();
}

bool WeightTracker::WantsUnsharded(size_t layer_index) const noexcept {
  return layers_[layer_index]->awaited;
}

void WeightTracker::Unsharded(size_t layer_index, const LayerSpec& spec, const void* wq, const void* wk,
                              FrameSlot* slot) noexcept {
  Layer& layer = *layers_[layer_index];
  if (!layer.awaited) return;
  layer.awaited = false;
  layer.q.PointAt(spec, wq);
  layer.k.PointAt(spec, wk);
  for (size_t i = 0; i < layer.probed_k.size(); ++i) {
    layer.probed_k_views[i] = spec.View(*spec.wk, layer.probed_k[i], wk);
  }
  ProbeLayer(layer, slot);
  if (!tracking_) return;
  layer.q.OpenStep();
  layer.k.OpenStep();
}

void WeightTracker::BeginStep(int64_t step, bool spectra, bool track, FrameSlot* slot) noexcept {
  step_ = step;
  for (auto& layer : layers_) {
    layer->awaited = spectra && layer->sharded;
    if (spectra && !layer->sharded) ProbeLayer(*layer, slot);
  }
  tracking_ = track;
  for (auto& device : devices_) device->BeginStep(spectra, track);
  if (!track) return;
  for (auto& layer : layers_) {
    layer->q.OpenStep();
    layer->k.OpenStep();
  }
}

void WeightTracker::EndStep(bool skipped, double learning_rate) noexcept {
  for (auto& device : devices_) device->EndStep(skipped, learning_rate);
  for (auto& layer : layers_) {
    layer->awaited = false;
    layer->q.CloseStep(step_, tracking_, skipped, learning_rate * layer->q_decay);
    layer->k.CloseStep(step_, tracking_, skipped, learning_rate * layer->k_decay);
  }
}

void WeightTracker::Report(FrameSlot* slot) noexcept {
  for (int ticket = 0; ticket < DeviceWeights::kTickets && !devices_.empty(); ++ticket) {
    const bool free = std::all_of(devices_.begin(), devices_.end(),
                                  [ticket](auto& device) { return device->Free(ticket); });
    if (!free) continue;
    for (auto& device : devices_) device->Report(ticket);
    slot->weights_ticket = ticket;
    break;
  }
  for (auto& layer : layers_) {
    for (const bool key_side : {false, true}) {
      ProjectionTracker& tracker = key_side ? layer->k : layer->q;
      const SideSignals& side = key_side ? kKeySide : kQuerySide;
      if (layer->sharded) {
        WritePartials(layout_, slot, layer->index, side, tracker);
        continue;
      }
      for (size_t m = 0; m < tracker.count(); ++m) {
        WriteUpdates(layout_, slot, layer->index, side, tracker.heads()[m], tracker.Take(m));
      }
    }
  }
}

void WeightTracker::SetStream(int device, void* stream) {
  for (auto& known : devices_) {
    if (known->device() == device) known->SetStream(stream);
  }
}

bool WeightTracker::Ready(const FrameSlot& slot) noexcept {
  if (slot.weights_ticket < 0) return true;
  return std::all_of(devices_.begin(), devices_.end(),
                     [&](auto& device) { return device->Ready(slot.weights_ticket); });
}

void WeightTracker::Complete(FrameSlot* slot, bool give_up) noexcept {
  if (slot->weights_ticket < 0) return;
  for (auto& device : devices_) {
    if (!give_up || device->Ready(slot->weights_ticket)) {
      device->Write(slot->weights_ticket, slot);
    } else {
      device->Abandon(slot->weights_ticket);
    }
  }
  slot->weights_ticket = -1;
}

std::vector<TrackerFailure> WeightTracker::TakeFailures() {
  std::vector<TrackerFailure> failures = std::move(failures_);
  failures_.clear();
  for (auto& device : devices_) {
    if (device->failure().empty() || device->told()) continue;
    device->SetTold();
    failures.push_back({"weights on CUDA device " + std::to_string(device->device()), device->failure()});
  }
  return failures;
}

double WeightTracker::device_spectra_nanos() const noexcept {
  double nanos = 0;
  for (const auto& device : devices_) nanos += device->spectra_nanos();
  return nanos;
}

double WeightTracker::device_projection_nanos() const noexcept {
  double nanos = 0;
  for (const auto& device : devices_) nanos += device->projection_nanos();
  return nanos;
}

void WeightTracker::Invalidate() noexcept {
  for (auto& device : devices_) device->Invalidate();
  for (auto& layer : layers_) {
    layer->q.Invalidate();
    layer->k.Invalidate();
  }
}

bool WeightTracker::Pairs(size_t layer_index, bool key_side, uint32_t local_head, const float** u,
                          const float** v) const noexcept {
  const ProjectionTracker& tracker = key_side ? layers_[layer_index]->k : layers_[layer_index]->q;
  if (!tracker.has_pairs()) return false;
  const auto at = std::find(tracker.heads().begin(), tracker.heads().end(), local_head);
  if (at == tracker.heads().end()) return false;
  const auto i = static_cast<size_t>(at - tracker.heads().begin());
  *u = tracker.u(i);
  *v = tracker.v(i);
  return true;
}

}  // namespace foreshock::sdk
