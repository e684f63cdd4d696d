#include "foreshock/sdk/layer_spec.h"

#include <cmath>

namespace foreshock::sdk {
namespace {

constexpr uint32_t kMaxHeadsOfLayer = 65536;
constexpr uint32_t kMaxDim = 1u << 20;

Status Bad(const std::string& field, const std::string& value, const std::string& limit) {
  return Status(Code::kInvalidArgument, field + ": " + value + ", " + limit);
}

Status CheckRange(const std::string& field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return Bad(field, std::to_string(value), "must be " + std::to_string(low) + " to " + std::to_string(high));
}

Status CheckHeads(const char* what, uint32_t first, uint32_t local, uint32_t all) {
  const std::string name(what);
  FS_RETURN_IF_ERROR(CheckRange(name + "_heads", all, 1, kMaxHeadsOfLayer));
  FS_RETURN_IF_ERROR(CheckRange("local_" + name + "_heads", local, 1, all));
  return CheckRange("first_" + name + "_head", first, 0, all - local);
}

}  // namespace

kernels::WeightView LayerSpec::View(const ProjectionSpec& projection, uint32_t local_head) const {
  const auto* bytes = static_cast<const unsigned char*>(projection.data);
  const int64_t offset = projection.head_offsets[local_head];
  return {bytes + offset * static_cast<int64_t>(kernels::SizeOf(projection.dtype)),
          projection.dtype,
          model_dim,
          head_dim,
          projection.row_stride,
          projection.col_stride};
}

Status CheckProjection(const LayerSpec& spec, const ProjectionSpec& projection, const char* name,
                       uint32_t local_heads) {
  const std::string field = "layer " + std::to_string(spec.layer) + ": " + name;
  if (projection.data == nullptr) return Bad(field + ".data", "null", "must point to the weights");
  if (!kernels::IsKnown(projection.dtype)) {
    return Bad(field + ".dtype", std::to_string(static_cast<int>(projection.dtype)),
               "must be FS_BF16, FS_FP16, FS_FP32 or FS_FP64");
  }
  if (projection.head_offsets.size() != local_heads) {
    return Bad(field + ".head_offsets", std::to_string(projection.head_offsets.size()),
               "must be one per local head, " + std::to_string(local_heads));
  }
  if (!(projection.weight_decay >= 0 && projection.weight_decay <= 1e6)) {
    return Bad(field + ".weight_decay", std::to_string(projection.weight_decay), "must be 0 to 1e6");
  }
  return OkStatus();
}

// Local query head h must use local key/value head h / (local query heads per local key/value head), as the
// kernels take it.
Status LayerSpec::CheckGroups() const {
  for (uint32_t h = 0; h < local_query_heads; ++h) {
    const uint32_t kv = KvHeadOf(first_query_head + h);
    const bool fits = local_query_heads % local_kv_heads == 0 &&
                      kv == first_kv_head + h / (local_query_heads / local_kv_heads);
    if (fits) continue;
    return Bad("first_kv_head", std::to_string(first_kv_head),
               "query head " + std::to_string(first_query_head + h) + " uses key head " + std::to_string(kv) +
                   ", which must be among this rank's, in order");
  }
  return OkStatus();
}

Status LayerSpec::Check() const {
  const auto check = [&]() -> Status {
    FS_RETURN_IF_ERROR(CheckHeads("query", first_query_head, local_query_heads, query_heads));
    FS_RETURN_IF_ERROR(CheckHeads("kv", first_kv_head, local_kv_heads, kv_heads));
    if (query_heads % kv_heads != 0) {
      return Bad("kv_heads", std::to_string(kv_heads),
                 "must divide query_heads " + std::to_string(query_heads));
    }
    FS_RETURN_IF_ERROR(CheckGroups());
    FS_RETURN_IF_ERROR(CheckRange("head_dim", head_dim, 1, kMaxDim));
    if (wq || wk) FS_RETURN_IF_ERROR(CheckRange("model_dim", model_dim, 1, kMaxDim));
    if (!std::isfinite(scale)) return Bad("scale", std::to_string(scale), "must be finite");
    if (!(softcap >= 0) || !std::isfinite(softcap)) {
      return Bad("softcap", std::to_string(softcap), "must be 0 or more");
    }
    if (!(dropout >= 0 && dropout < 1))
      return Bad("dropout", std::to_string(dropout), "must be 0 to below 1");
    if (window_left < -1) return Bad("window_left", std::to_string(window_left), "must be -1 or more");
    if (window_right < -1) return Bad("window_right", std::to_string(window_right), "must be -1 or more");
    return OkStatus();
  };
  const Status status = check();
  if (!status.ok()) return status.Annotate("layer " + std::to_string(layer));
  if (wq) FS_RETURN_IF_ERROR(CheckProjection(*this, *wq, "wq", local_query_heads));
  if (wk) FS_RETURN_IF_ERROR(CheckProjection(*this, *wk, "wk", local_kv_heads));
  if (wq && wk && wq->device != wk->device) {
    return Bad("layer " + std::to_string(layer) + ": wk.device", std::to_string(wk->device),
               "must be wq's, " + std::to_string(wq->device));
  }
  return OkStatus();
}

}  // namespace foreshock::sdk
