#include "foreshock/sdk/layer_spec.h"

#include <algorithm>
#include <cmath>

namespace foreshock::sdk {
namespace {

constexpr uint32_t kMaxHeadsOfLayer = 65536;
constexpr uint32_t kMaxDim = 1u << 20;
constexpr uint32_t kMaxShards = 1u << 20;

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

// A head's lines along the dimension that is stored apart (its columns in a Linear, its rows in a Conv1D):
// line n begins at offset + n * stride and takes `extent` elements.
struct Lines {
  int64_t offset = 0, stride = 0, extent = 0, count = 0;
  bool columns = false;
  bool ok = false;  // one dimension is stored inside the other
};

Lines LinesOf(const LayerSpec& spec, const ProjectionSpec& projection, uint32_t head) {
  const int64_t rows = spec.model_dim, columns = spec.head_dim;
  const int64_t row = projection.row_stride, column = projection.col_stride;
  Lines lines;
  lines.offset = projection.head_offsets[head];
  lines.columns = row > 0 && column >= (rows - 1) * row + 1;
  lines.ok = lines.columns || (column > 0 && row >= (columns - 1) * column + 1);
  lines.stride = lines.columns ? column : row;
  lines.extent = lines.columns ? (rows - 1) * row + 1 : (columns - 1) * column + 1;
  lines.count = lines.columns ? columns : rows;
  return lines;
}

int64_t FloorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The lines that lie within [begin, end): first and the one behind the last. `cut`: the shard ends inside
// one.
struct Held {
  int64_t first = 0, last = 0;
  bool cut = false;
};

Held HeldLines(const Lines& lines, const ShardSpec& shard) {
  Held held;
  const auto clamp = [&](int64_t n) { return std::clamp<int64_t>(n, 0, lines.count); };
  held.first = clamp(FloorDivide(shard.begin - lines.offset + lines.stride - 1, lines.stride));
  held.last = clamp(FloorDivide(shard.end - lines.offset - lines.extent, lines.stride) + 1);
  if (held.last < held.first) held.last = held.first;
  // Lines that hold an element of the shard, whole or not.
  const int64_t touched_first =
      clamp(FloorDivide(shard.begin - lines.offset - lines.extent, lines.stride) + 1);
  const int64_t touched_last = clamp(FloorDivide(shard.end - 1 - lines.offset, lines.stride) + 1);
  const bool any = shard.begin < shard.end && touched_first < touched_last;
  held.cut = any && (touched_first != held.first || touched_last != held.last);
  return held;
}

Status CheckShard(const LayerSpec& spec, const ProjectionSpec& projection, const std::string& field) {
  const ShardSpec& shard = *projection.shard;
  if (shard.count < 1 || shard.count > kMaxShards || shard.index >= shard.count) {
    return Bad(field + ".shard", std::to_string(shard.index) + " of " + std::to_string(shard.count),
               "must be 0 to below shards, at most " + std::to_string(kMaxShards));
  }
  if (shard.begin > shard.end) {
    return Bad(field + ".shard_begin", std::to_string(shard.begin),
               "must be at most shard_end " + std::to_string(shard.end));
  }
  if (!kernels::IsKnown(shard.dtype)) {
    return Bad(field + ".shard_dtype", std::to_string(static_cast<int>(shard.dtype)),
               "must be FS_BF16, FS_FP16, FS_FP32 or FS_FP64");
  }
  if (shard.data == nullptr && shard.begin < shard.end) {
    return Bad(field + ".shard_data", "null", "must point to this rank's part");
  }
  for (uint32_t head = 0; head < projection.head_offsets.size(); ++head) {
    const Lines lines = LinesOf(spec, projection, head);
    if (!lines.ok) {
      return Bad(field + ".row_stride", std::to_string(projection.row_stride),
                 "rows and columns must not interleave where the parameter is sharded");
    }
    if (HeldLines(lines, shard).cut) {
      return Bad(field + ".shard_begin", std::to_string(shard.begin) + ".." + std::to_string(shard.end),
                 "must not cut a " + std::string(lines.columns ? "column" : "row") + " of head " +
                     std::to_string(head));
    }
  }
  return OkStatus();
}

}  // namespace

HeadPart LayerSpec::Part(const ProjectionSpec& projection, uint32_t local_head) const noexcept {
  const ShardSpec& shard = *projection.shard;
  const Lines lines = LinesOf(*this, projection, local_head);
  const Held held = HeldLines(lines, shard);
  HeadPart part;
  part.view = {nullptr, shard.dtype, 0, 0, projection.row_stride, projection.col_stride};
  if (held.first == held.last) return part;
  const int64_t at = lines.offset + held.first * lines.stride - shard.begin;
  part.view.data =
      static_cast<const unsigned char*>(shard.data) + at * static_cast<int64_t>(kernels::SizeOf(shard.dtype));
  part.view.d_model = lines.columns ? model_dim : held.last - held.first;
  part.view.d_head = lines.columns ? held.last - held.first : head_dim;
  (lines.columns ? part.first_col : part.first_row) = held.first;
  return part;
}

kernels::WeightView LayerSpec::View(const ProjectionSpec& projection, uint32_t local_head,
                                    const void* data) const noexcept {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const int64_t offset = projection.head_offsets[local_head];
  const auto element = static_cast<int64_t>(kernels::SizeOf(projection.dtype));
  return {bytes == nullptr ? nullptr : bytes + offset * element,
          projection.dtype,
          model_dim,
          head_dim,
          projection.row_stride,
          projection.col_stride};
}

Status CheckProjection(const LayerSpec& spec, const ProjectionSpec& projection, const char* name,
                       uint32_t local_heads) {
  const std::string field = "layer " + std::to_string(spec.layer) + ": " + name;
  if (projection.data == nullptr && !projection.shard) {
    return Bad(field + ".data", "null", "must point to the weights");
  }
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
  return projection.shard ? CheckShard(spec, projection, field) : OkStatus();
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
  if (wq && wk && wq->shard.has_value() != wk->shard.has_value()) {
    return Bad("layer " + std::to_string(layer) + ": wk.sharded", wk->shard ? "1" : "0",
               "must be that of wq");
  }
  return OkStatus();
}

}  // namespace foreshock::sdk
