// How a set of heads is cut into thread blocks: chunks of rows for each kernel, heads grouped by what one
// launch can take, and every head's places in the shared buffers.
#include "weight_plan.h"

#include <algorithm>
#include <string>

namespace foreshock::cuda {
namespace {

constexpr int kChunkAlign = 64;

int PaddedSize(int64_t d_head) {
  int padded = 32;
  while (padded < d_head) padded *= 2;
  return padded;
}

int RoundUp(int64_t x, int to) { return static_cast<int>((x + to - 1) / to * to); }

// Rows of each chunk when d_model is cut into equal ones of at most `most` rows.
int EvenRows(int64_t d_model, int64_t most) {
  const int64_t chunks = std::max<int64_t>(1, (d_model + most - 1) / most);
  return RoundUp(std::max<int64_t>(1, (d_model + chunks - 1) / chunks), kChunkAlign);
}

// Rows that one block of the projection takes: all of its threads have work. Lines along d_head are read by
// fewer rows a block where all of the model's blocks are on the device at once (`few`), by more where blocks
// follow each other.
int64_t ProjectRows(const HeadRecord& h, bool few) {
  const auto bytes = static_cast<int64_t>(kernels::SizeOf(static_cast<kernels::DType>(h.dtype)));
  return h.order == Order::kHeadMajor ? (few ? 256 : 512) : 128 * 16 / bytes;
}

void AddChunks(int32_t head, int32_t d_model, int rows, std::vector<RowChunk>* chunks) {
  int32_t part = 0;
  for (int32_t first = 0; first < std::max(d_model, 1); first += rows) {
    chunks->push_back({head, first, std::min(rows, d_model - first), part++});
  }
}

int CountChunks(int32_t d_model, int rows) { return std::max(1, (d_model + rows - 1) / rows); }

// Splits indices by the padded size that `size` gives, smallest first.
template <typename Size>
void GroupBySize(int32_t count, Size size, std::vector<int32_t>* list, std::vector<SizeGroup>* groups) {
  for (const int padded : {32, 64, 128, 256}) {
    const int first = static_cast<int>(list->size());
    for (int32_t i = 0; i < count; ++i) {
      if (size(i) == padded) list->push_back(i);
    }
    const int found = static_cast<int>(list->size()) - first;
    if (found > 0) groups->push_back({padded, first, found});
  }
}

Status CheckHead(const kernels::WeightView& w, size_t index) {
  const std::string name = "head " + std::to_string(index);
  if (!kernels::IsKnown(w.dtype)) return Status(Code::kInvalidArgument, name + ": dtype is unknown");
  if (w.d_head < 1 || w.d_head > kMaxHeadDimOnDevice) {
    return Status(Code::kInvalidArgument, name + ": head_dim: " + std::to_string(w.d_head) +
                                              ", on a GPU at most " + std::to_string(kMaxHeadDimOnDevice));
  }
  if (w.d_model < 1 || w.d_model > (int64_t{1} << 24)) {
    return Status(Code::kInvalidArgument,
                  name + ": model_dim: " + std::to_string(w.d_model) + ", must be 1 to 16777216");
  }
  if (w.data == nullptr) return Status(Code::kInvalidArgument, name + ": data is null");
  return OkStatus();
}

}  // namespace

void PlaceHead(const kernels::WeightView& view, HeadRecord* record) {
  record->data = view.data;
  record->row_stride = view.row_stride;
  record->col_stride = view.col_stride;
  record->order = view.row_stride == 1   ? Order::kModelMajor
                  : view.col_stride == 1 ? Order::kHeadMajor
                                         : Order::kStrided;
  const auto bytes = static_cast<int64_t>(kernels::SizeOf(view.dtype));
  const int64_t line = record->order == Order::kModelMajor ? view.col_stride : view.row_stride;
  const bool aligned = reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && line * bytes % 16 == 0;
  record->vector = record->order != Order::kStrided && aligned;
}

Result<WeightPlan> PlanWeights(const std::vector<DeviceHead>& heads, const std::vector<QkPair>& pairs,
                               int multiprocessors, bool hopper) {
  WeightPlan plan;
  const auto count = static_cast<int32_t>(heads.size());
  // Chunks of the Gram kernel: enough for every multiprocessor to hold a few.
  const int64_t wanted = int64_t{4} * multiprocessors;
  const int64_t per_head = std::max<int64_t>(1, wanted / std::max<int64_t>(count, 1));
  int64_t all_rows = 0;
  for (const DeviceHead& head : heads) all_rows += head.view.d_model;
  const bool few = all_rows < int64_t{512} * 8 * multiprocessors;
  std::vector<int> gram_rows, project_rows;
  int32_t all_chunks = 0;
  for (int32_t i = 0; i < count; ++i) {
    const kernels::WeightView& w = heads[static_cast<size_t>(i)].view;
    FS_RETURN_IF_ERROR(CheckHead(w, static_cast<size_t>(i)));
    HeadRecord h{};
    h.d_model = static_cast<int32_t>(w.d_model);
    h.d_head = static_cast<int32_t>(w.d_head);
    h.dtype = static_cast<uint8_t>(w.dtype);
    PlaceHead(w, &h);
    h.always_slow = w.dtype == kernels::DType::kFp64;
    h.padded = PaddedSize(w.d_head);
    h.pairs = static_cast<int32_t>(std::min<int64_t>({kPairsOf, w.d_model, w.d_head}));
    h.decay = heads[static_cast<size_t>(i)].weight_decay;
    int64_t most = std::max<int64_t>(256, (w.d_model + per_head - 1) / per_head);
    if (h.padded == 256) most = std::min<int64_t>(most, 512);  // its running sums are single
    if (h.always_slow) most = w.d_model;
    gram_rows.push_back(EvenRows(w.d_model, most));
    h.splits = CountChunks(h.d_model, gram_rows.back());
    h.gram_at = plan.gram_floats;
    plan.gram_floats += int64_t{h.splits} * GramFloats(h.padded);
    h.u_at = plan.u_floats;
    plan.u_floats += kPairsOf * w.d_model;
    h.v_at = plan.v_floats;
    plan.v_floats += kPairsOf * w.d_head;
    h.basis_at = plan.basis_floats;
    plan.basis_floats += kBasis * (h.padded + 1);
    const int rows = EvenRows(w.d_model, ProjectRows(h, few));
    project_rows.push_back(rows);
    h.first_chunk = all_chunks;
    h.chunks = CountChunks(h.d_model, rows);
    all_chunks += h.chunks;
    plan.largest_padded = std::max(plan.largest_padded, h.padded);
    plan.largest_head = std::max(plan.largest_head, h.d_head);
    plan.heads.push_back(h);
  }
  for (const QkPair& pair : pairs) {
    if (pair.q < 0 || pair.k < 0 || pair.q >= count || pair.k >= count ||
        plan.heads[static_cast<size_t>(pair.q)].d_head != plan.heads[static_cast<size_t>(pair.k)].d_head) {
      return Status(Code::kInvalidArgument, "a query and a key head do not fit each other");
    }
    const HeadRecord &q = plan.heads[static_cast<size_t>(pair.q)],
                     &k = plan.heads[static_cast<size_t>(pair.k)];
    plan.qk.push_back({pair.q, pair.k, q.d_head, static_cast<int32_t>(plan.qk.size()), plan.basis_floats,
                       q.gram_at, k.gram_at});
    plan.basis_floats += kBasis * (q.padded + 1);
  }
  const auto kind_of = [hopper](const HeadRecord& h) {
    if (!hopper || (h.padded != 64 && h.padded != 128)) return GramKind::kPortable;
    if (h.order == Order::kModelMajor) return GramKind::kHopper;
    const bool half = h.dtype == 1 || h.dtype == 2;
    return h.order == Order::kHeadMajor && half ? GramKind::kHopperHeadMajor : GramKind::kPortable;
  };
  for (const int padded : {32, 64, 128, 256}) {
    for (const int dtype : {1, 2, 3}) {
      for (const GramKind kind : {GramKind::kPortable, GramKind::kHopper, GramKind::kHopperHeadMajor}) {
        const int first = static_cast<int>(plan.gram_chunks.size());
        for (int32_t i = 0; i < count; ++i) {
          const HeadRecord& h = plan.heads[static_cast<size_t>(i)];
          if (h.padded == padded && h.dtype == dtype && kind_of(h) == kind) {
            AddChunks(i, h.d_model, gram_rows[static_cast<size_t>(i)], &plan.gram_chunks);
          }
        }
        const int found = static_cast<int>(plan.gram_chunks.size()) - first;
        if (found > 0) plan.gram_groups.push_back({padded, dtype, kind, first, found});
      }
    }
  }
  for (const int dtype : {1, 2, 3, 4}) {
    for (const bool head_major : {false, true}) {
      const int first = static_cast<int>(plan.project_chunks.size());
      for (int32_t i = 0; i < count; ++i) {
        const HeadRecord& h = plan.heads[static_cast<size_t>(i)];
        if (h.dtype == dtype && (h.order == Order::kHeadMajor) == head_major) {
          AddChunks(i, h.d_model, project_rows[static_cast<size_t>(i)], &plan.project_chunks);
        }
      }
      const int found = static_cast<int>(plan.project_chunks.size()) - first;
      if (found > 0) plan.project_groups.push_back({dtype, head_major, first, found});
    }
  }
  const auto head_size = [&](int32_t i) { return plan.heads[static_cast<size_t>(i)].padded; };
  GroupBySize(count, head_size, &plan.head_list, &plan.head_groups);
  std::vector<int32_t> qk_list;
  GroupBySize(
      static_cast<int32_t>(plan.qk.size()),
      [&](int32_t i) { return head_size(plan.qk[static_cast<size_t>(i)].q); }, &qk_list, &plan.qk_groups);
  const std::vector<QkRecord> in_order = plan.qk;
  for (size_t i = 0; i < qk_list.size(); ++i) plan.qk[i] = in_order[static_cast<size_t>(qk_list[i])];
  return plan;
}

}  // namespace foreshock::cuda
