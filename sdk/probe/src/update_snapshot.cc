#include "foreshock/sdk/update_snapshot.h"

#include <algorithm>

namespace foreshock::sdk {

using kernels::DType;
using kernels::WeightView;

namespace {

// Copies and changes are dense, in fp32, which holds every 16-bit weight; fp64 stays fp64.
DType CopyType(DType dtype) { return dtype == DType::kFp64 ? DType::kFp64 : DType::kFp32; }

// Rounded up, so that whatever follows is aligned.
uint64_t HeadBytes(const LayerSpec& spec, const ProjectionSpec& projection) {
  const uint64_t bytes =
      uint64_t{spec.model_dim} * spec.head_dim * kernels::SizeOf(CopyType(projection.dtype));
  return (bytes + 7) / 8 * 8;
}

WeightView Dense(const LayerSpec& spec, const ProjectionSpec& projection, const unsigned char* data) {
  return {data, CopyType(projection.dtype), spec.model_dim, spec.head_dim, spec.head_dim, 1};
}

template <typename T>
void CopyAs(const WeightView& from, T* to) noexcept {
  for (int64_t i = 0; i < from.d_model; ++i) {
    for (int64_t j = 0; j < from.d_head; ++j) {
      *to++ = static_cast<T>(
          kernels::LoadDouble(from.data, from.dtype, i * from.row_stride + j * from.col_stride));
    }
  }
}

void Copy(const WeightView& from, unsigned char* to) noexcept {
  if (CopyType(from.dtype) == DType::kFp64) {
    CopyAs(from, reinterpret_cast<double*>(to));
  } else {
    CopyAs(from, reinterpret_cast<float*>(to));
  }
}

template <typename T>
void SubtractAs(const WeightView& now, const T* before, T* change) noexcept {
  for (int64_t i = 0; i < now.d_model; ++i) {
    for (int64_t j = 0; j < now.d_head; ++j, ++before, ++change) {
      const double w = kernels::LoadDouble(now.data, now.dtype, i * now.row_stride + j * now.col_stride);
      *change = static_cast<T>(w - static_cast<double>(*before));
    }
  }
}

void Subtract(const WeightView& now, const unsigned char* before, unsigned char* change) noexcept {
  if (CopyType(now.dtype) == DType::kFp64) {
    SubtractAs(now, reinterpret_cast<const double*>(before), reinterpret_cast<double*>(change));
  } else {
    SubtractAs(now, reinterpret_cast<const float*>(before), reinterpret_cast<float*>(change));
  }
}

bool OnDevice(const LayerSpec& spec) { return spec.wq->device >= 0 || spec.wk->device >= 0; }

std::vector<uint32_t> OwnQueryHeads(const LayerSpec& spec, uint32_t replica, uint32_t replicas) {
  std::vector<uint32_t> heads;
  for (uint32_t h = 0; h < spec.local_query_heads; ++h) {
    if ((spec.first_query_head + h) % replicas == replica) heads.push_back(h);
  }
  return heads;
}

}  // namespace

UpdateSnapshot::UpdateSnapshot(const std::vector<LayerSpec>& layers, const FrameLayout& layout,
                               uint32_t replica, uint32_t replicas, uint64_t limit_bytes)
    : layout_(layout) {
  uint64_t all = 0, change = 0, workspace = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& spec = layers[i];
    Layer layer{&spec, static_cast<int32_t>(i), BytesOf(spec, replica, replicas), {}, {}, {}};
    if (layer.bytes == 0 || layer.bytes > limit_bytes) continue;
    layer.q_heads = OwnQueryHeads(spec, replica, replicas);
    for (const uint32_t h : layer.q_heads) {
      const uint32_t k = spec.KvHeadOf(spec.first_query_head + h) - spec.first_kv_head;
      auto at = std::find(layer.k_heads.begin(), layer.k_heads.end(), k);
      if (at == layer.k_heads.end()) at = layer.k_heads.insert(at, k);
      layer.k_of_q.push_back(static_cast<uint32_t>(at - layer.k_heads.begin()));
    }
    all += layer.bytes;
    change = std::max({change, HeadBytes(spec, *spec.wq), HeadBytes(spec, *spec.wk)});
    workspace = std::max<uint64_t>(workspace, kernels::ProbeUpdateWorkspaceBytes(spec.head_dim));
    layers_.push_back(std::move(layer));
  }
  copies_.resize(std::min(all, limit_bytes));
  change_q_.resize(change);
  change_k_.resize(change);
  workspace_.resize(workspace);
}

uint64_t UpdateSnapshot::BytesOf(const LayerSpec& spec, uint32_t replica, uint32_t replicas) {
  if (!spec.wq || !spec.wk || spec.wq->shard || OnDevice(spec) ||
      kernels::ProbeUpdateWorkspaceBytes(spec.head_dim) == 0)
    return 0;
  const auto heads = OwnQueryHeads(spec, replica, replicas);
  std::vector<uint32_t> keys;
  for (const uint32_t h : heads) keys.push_back(spec.KvHeadOf(spec.first_query_head + h));
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());  // they rise with the query heads
  return heads.size() * HeadBytes(spec, *spec.wq) + keys.size() * HeadBytes(spec, *spec.wk);
}

void UpdateSnapshot::Take() noexcept {
  first_ = next_;
  taken_ = 0;
  unsigned char* to = copies_.data();
  uint64_t left = copies_.size();
  while (taken_ < layers_.size()) {
    const Layer& layer = layers_[(first_ + taken_) % layers_.size()];
    if (layer.bytes > left || OnDevice(*layer.spec)) break;  // weights may have moved since
    left -= layer.bytes;
    for (const uint32_t h : layer.q_heads) {
      Copy(layer.spec->View(*layer.spec->wq, h), to);
      to += HeadBytes(*layer.spec, *layer.spec->wq);
    }
    for (const uint32_t h : layer.k_heads) {
      Copy(layer.spec->View(*layer.spec->wk, h), to);
      to += HeadBytes(*layer.spec, *layer.spec->wk);
    }
    ++taken_;
  }
  if (!layers_.empty()) next_ = (first_ + taken_) % layers_.size();
}

void UpdateSnapshot::Report(FrameSlot* slot) noexcept {
  const unsigned char* copy = copies_.data();
  for (size_t i = 0; i < taken_; ++i) {
    const Layer& layer = layers_[(first_ + i) % layers_.size()];
    ReportLayer(layer, copy, slot);
    copy += layer.bytes;
  }
  taken_ = 0;
}

void UpdateSnapshot::ReportLayer(const Layer& layer, const unsigned char* copy, FrameSlot* slot) noexcept {
  const LayerSpec& spec = *layer.spec;
  const uint64_t q_bytes = HeadBytes(spec, *spec.wq), k_bytes = HeadBytes(spec, *spec.wk);
  const unsigned char* keys = copy + layer.q_heads.size() * q_bytes;
  ColumnWriter norm(layout_, slot, layer.index, kUpdateNorm);
  ColumnWriter entropy(layout_, slot, layer.index, kQkUpdateEntropy);
  ColumnWriter participation(layout_, slot, layer.index, kQkUpdateParticipation);
  for (size_t m = 0; m < layer.q_heads.size(); ++m) {
    const uint32_t q = layer.q_heads[m], k = layer.k_heads[layer.k_of_q[m]];
    const unsigned char* q_before = copy + m * q_bytes;
    const unsigned char* k_before = keys + layer.k_of_q[m] * k_bytes;
    Subtract(spec.View(*spec.wq, q), q_before, change_q_.data());
    Subtract(spec.View(*spec.wk, k), k_before, change_k_.data());
    kernels::UpdateSpectrum spectrum;
    const auto status =
        kernels::ProbeUpdate(Dense(spec, *spec.wq, q_before), Dense(spec, *spec.wq, change_q_.data()),
                             Dense(spec, *spec.wk, k_before), Dense(spec, *spec.wk, change_k_.data()),
                             &spectrum, {workspace_.data(), workspace_.size()});
    if (status != kernels::KernelStatus::kOk) continue;  // missing
    norm.Set(q, spectrum.update_norm);
    if (!spectrum.has_spectrum) continue;
    entropy.Set(q, spectrum.entropy);
    participation.Set(q, spectrum.participation);
  }
}

}  // namespace foreshock::sdk
