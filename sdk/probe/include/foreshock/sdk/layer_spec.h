// What the trainer says about one attention layer, checked once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/sdk/dtype.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::sdk {

// The part of a parameter that this rank keeps and its optimizer changes: the elements [begin, end) of the
// whole one, counted from ProjectionSpec::data in the whole one's storage, one after the other in `data`.
struct ShardSpec {
  const void* data = nullptr;  // may be null where the part is empty
  kernels::DType dtype = kernels::DType::kFp32;
  int64_t begin = 0, end = 0;
  uint32_t index = 0, count = 1;  // which part of how many
};

// What a shard holds of one head: a rectangle of W, possibly empty.
struct HeadPart {
  kernels::WeightView view;
  int64_t first_row = 0, first_col = 0;
};

// W_Q or W_K of the heads that this process holds. The memory is the trainer's.
struct ProjectionSpec {
  const void* data = nullptr;
  kernels::DType dtype = kernels::DType::kFp32;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  std::vector<int64_t> head_offsets;  // in elements, one per local head
  double weight_decay = 0;            // lambda of decoupled decay
  int device = -1;                    // the CUDA device whose memory it is; -1: host memory
  std::optional<ShardSpec> shard;     // set: `data` is whole only while the trainer says so, and may be null

  bool low_resolution() const { return kernels::SizeOf(shard ? shard->dtype : dtype) == 2; }
};

// Head ranges are global indices. All counts are at least 1 once Check has passed.
struct LayerSpec {
  uint32_t layer = 0;
  std::string name;
  uint32_t model_dim = 0;
  uint32_t query_heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t first_query_head = 0;
  uint32_t local_query_heads = 0;
  uint32_t first_kv_head = 0;
  uint32_t local_kv_heads = 0;
  float scale = 0;
  float softcap = 0;
  bool causal = true;
  int64_t window_left = -1;
  int64_t window_right = -1;
  bool qk_norm = false;
  float dropout = 0;
  std::optional<ProjectionSpec> wq;
  std::optional<ProjectionSpec> wk;
  bool weights_dropped = false;  // they were given, but lie where they cannot be measured

  // The global key/value head of a global query head.
  uint32_t KvHeadOf(uint32_t query_head) const { return query_head / (query_heads / kv_heads); }

  // The view of one local head.
  kernels::WeightView View(const ProjectionSpec& projection, uint32_t local_head) const {
    return View(projection, local_head, projection.data);
  }
  // The same with the parameter at another place.
  kernels::WeightView View(const ProjectionSpec& projection, uint32_t local_head,
                           const void* data) const noexcept;
  // What the projection's shard holds of one local head. Checked specs only.
  HeadPart Part(const ProjectionSpec& projection, uint32_t local_head) const noexcept;

  // kInvalidArgument naming field, value and limit.
  Status Check() const;

 private:
  Status CheckGroups() const;
};

// Check of a projection that is to replace or fill one of `spec`.
Status CheckProjection(const LayerSpec& spec, const ProjectionSpec& projection, const char* name,
                       uint32_t local_heads);

}  // namespace foreshock::sdk
