// The running statistics of score rows, kept in registers: what one warp does with a tile of scores.
//
// Tensor cores leave a 16-row tile so that lane l holds, of rows l/4 and l/4 + 8, columns 8j + 2(l%4) and
// the next; four lanes (a quad) share a row. Every engine hands its scores over in this order:
// y[4j + 2r + b] is row l/4 + 8r, column 8j + 2(l%4) + b.
//
// A row's scores are held as y = score - ref, ref being a little above the row's largest score so far. Three
// things follow. e^y never overflows and seldom needs rescaling. All y are negative, and negative floats
// order as unsigned integers do (backwards), so that one three-input instruction (VIMNMX3) folds two scores
// into a running extreme. And near the maximum, where gaps are judged, y is small and therefore precise.
//
// The two largest of a row, at half an instruction a score each: a tile's scores are grouped by parity of
// column, and, across all tiles, by column pair. Two scores of one parity group lie in different column
// pairs or different tiles; so the second largest of the row is the runner-up among the group maxima of
// one grouping or the other.
#pragma once

#include <cstdint>

namespace foreshock::cuda {

// y of a masked entry: no score comes out as exactly this, and e^y is 0.
inline constexpr uint32_t kMaskedBits = 0xf9a1b2c3u;  // about -1e35
// The neutral element of `lowest`: -0.
inline constexpr uint32_t kNoLowest = 0x80000000u;
inline constexpr uint32_t kInfBits = 0x7f800000u;
inline constexpr unsigned kWarp = 0xffffffffu;

__device__ __forceinline__ uint32_t Bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float Float(uint32_t x) { return __uint_as_float(x); }
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What one y counts in. Scores are scaled for exp2 where that is all that happens to them.
struct Log2Units {
  static constexpr float kToLog2 = 1.0f;
  static constexpr float kToNats = 0.693147180559945309f;
};
struct NatUnits {
  static constexpr float kToLog2 = 1.44269504088896341f;
  static constexpr float kToNats = 1.0f;
};

// One thread's share of one row; ref and flags are the same in all four lanes of the quad.
template <int kColumns>
struct Row {
  float ref;
  float sum;       // of e^y
  float weighted;  // of e^y y
  uint32_t best;   // largest y and runner-up over parity groups
  uint32_t second;
  uint32_t lowest;            // smallest y
  uint32_t column[kColumns];  // largest y of a pair of columns, over all tiles
  float first_key;            // the score of key 0, in y's units without ref
  int count;                  // valid keys, where they must be counted
  unsigned has_ref : 1;       // or needs none: the row has no keys
  unsigned has_nan : 1;
  unsigned has_low_inf : 1;  // -infinity among the scores
  unsigned high_infs : 2;    // +infinity: none, one, more

  __device__ __forceinline__ void Start(bool needs_ref) {
    // A row without keys gets a ref that its zeros stay below: they then take no time.
    ref = needs_ref ? 0 : 1;
    sum = weighted = first_key = 0;
    best = second = kMaskedBits;
    lowest = kNoLowest;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) column[i] = kMaskedBits;
    count = 0;
    has_ref = !needs_ref;
    has_nan = has_low_inf = high_infs = 0;
  }
};

// Extremes of one row's share of a tile.
struct TileExtremes {
  uint32_t even = kMaskedBits;
  uint32_t odd = kMaskedBits;
  uint32_t lowest = kNoLowest;
  // A y that is not below ref, or not finite.
  __device__ __forceinline__ bool Unusual() const {
    return static_cast<int>(min(even, odd)) >= 0 || lowest >= (kInfBits | kNoLowest);
  }
};

// Index of score e (rising columns) of row r.
__device__ constexpr int At(int r, int e) { return (e >> 1) * 4 + 2 * r + (e & 1); }

// valid(e): whether score e is not masked. Masked ones hold kMaskedBits: of the largest they drop out by
// themselves, of `lowest` they are left out.
template <int kScores, typename Valid>
__device__ __forceinline__ TileExtremes ExtremesOf(const float (&y)[2 * kScores], int r, Valid&& valid) {
  TileExtremes x;
#pragma unroll
  for (int e = 0; e < kScores; e += 4) {
    uint32_t u[4];
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      u[i] = Bits(y[At(r, e + i)]);
      v[i] = valid(e + i) ? u[i] : kNoLowest;
    }
    x.even = __vimin3_u32(x.even, u[0], u[2]);
    x.odd = __vimin3_u32(x.odd, u[1], u[3]);
    x.lowest = __vimax3_u32(__vimax3_u32(x.lowest, v[0], v[1]), v[2], v[3]);
  }
  return x;
}
// The same where only the scores themselves tell what is masked.
template <int kScores>
__device__ __forceinline__ TileExtremes ExtremesOfMasked(const float (&y)[2 * kScores], int r) {
  return ExtremesOf<kScores>(y, r, [&](int e) { return Bits(y[At(r, e)]) != kMaskedBits; });
}

// Notes NaN and infinities in the row's flags and masks them.
template <int kScores, int kColumns>
__device__ __forceinline__ void TakeOutNonFinite(float (&y)[2 * kScores], int r, Row<kColumns>* row) {
  unsigned nan = 0;
  unsigned low = 0;
  int high = 0;
#pragma unroll
  for (int e = 0; e < kScores; ++e) {
    const float v = y[At(r, e)];
    const bool bad = (Bits(v) & kInfBits) == kInfBits;
    nan |= v != v;
    low |= v == -INFINITY;
    high += v == INFINITY;
    if (bad) y[At(r, e)] = Float(kMaskedBits);
  }
#pragma unroll
  for (int lane = 1; lane <= 2; lane *= 2) {
    nan |= __shfl_xor_sync(kWarp, nan, lane);
    low |= __shfl_xor_sync(kWarp, low, lane);
    high += __shfl_xor_sync(kWarp, high, lane);
  }
  row->has_nan |= nan;
  row->has_low_inf |= low;
  row->high_infs = min(2, static_cast<int>(row->high_infs) + high);
}

// y, or the largest of several y, relative to a ref that is higher by `by`.
__device__ __forceinline__ uint32_t Lower(uint32_t y, float by) {
  const uint32_t lower = Bits(Float(y) - by);
  return y == kMaskedBits ? y : lower;
}

// How far above the largest score so far a new ref is put: as far as that is from 0, within limits. It then
// seldom needs raising again.
__device__ __forceinline__ float Headroom(float largest) {
  constexpr float kMost = 24;
  return fminf(fabsf(largest) + 1e-30f, kMost);
}

// Raises ref above `largest` (a y, the quad's; -infinity: nothing valid) where it is not, and moves the sums
// and this tile along.
template <typename Units, int kScores, int kColumns>
__device__ __forceinline__ void RaiseRef(float largest, float (&y)[2 * kScores], int r, Row<kColumns>* row) {
  const bool raise = largest > -INFINITY && (!row->has_ref || largest >= 0);
  const float ref = raise ? row->ref + (largest + Headroom(largest + row->ref)) : row->ref;
  const float by = ref - row->ref;
  const float factor = row->has_ref ? Exp2(-by * Units::kToLog2) : 0;
  row->weighted = factor == 0 ? 0 : factor * (row->weighted - by * row->sum);
  row->sum *= factor;
  row->ref = ref;
  row->has_ref |= raise;
  row->best = Lower(row->best, by);
  row->second = Lower(row->second, by);
  row->lowest = row->lowest == kNoLowest ? kNoLowest : Lower(row->lowest, by);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) row->column[i] = Lower(row->column[i], by);
#pragma unroll
  for (int e = 0; e < kScores; ++e) y[At(r, e)] = Float(Lower(Bits(y[At(r, e)]), by));
}

// The largest of this lane's scores of row r, by its bits as a signed integer: NaN and infinity are the
// largest, and any y >= 0 is above every negative one.
template <int kScores>
__device__ __forceinline__ int Most(const float (&y)[2 * kScores], int r) {
  int most = 0x80000000;
#pragma unroll
  for (int e = 0; e < kScores; e += 2) {
    most = __vimax3_s32(most, static_cast<int>(Bits(y[At(r, e)])), static_cast<int>(Bits(y[At(r, e + 1)])));
  }
  return most;
}

// First refs, the quick way: of rows that have none and meet valid keys in this tile. False, and nothing
// done, where one of the warp's rows is not ordinary (its largest score negative, huge, or not finite):
// Settle then finds out. Converged warps only.
template <int kScores, int kColumns>
__device__ __forceinline__ bool ChooseRefs(float (&y)[2 * kScores], const bool (&meets)[2],
                                           Row<kColumns> (&rows)[2], bool* settled) {
  constexpr int kHuge = 0x5d000000;  // about 6e17: less than that leaves a masked y where it is
  int most[2];
  bool ordinary = true;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r] = Most<kScores>(y, r);
    most[r] = max(most[r], __shfl_xor_sync(kWarp, most[r], 1));
    most[r] = max(most[r], __shfl_xor_sync(kWarp, most[r], 2));
    const bool begins = meets[r] && !rows[r].has_ref;
    ordinary = ordinary && (begins ? most[r] >= 0 && most[r] < kHuge : most[r] < 0);
  }
  if (!__all_sync(kWarp, ordinary)) return false;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool begins = meets[r] && !rows[r].has_ref;
    const float by = begins ? Float(most[r]) + Headroom(Float(most[r])) : 0;
    rows[r].ref += by;
    rows[r].has_ref |= begins;
#pragma unroll
    for (int e = 0; e < kScores; ++e) y[At(r, e)] -= by;
  }
  *settled = __all_sync(kWarp, rows[0].has_ref && rows[1].has_ref);
  return true;
}

// The slow way round: values that are not finite, a first or an outgrown ref. Converged warps only.
template <typename Units, int kScores, int kColumns>
__device__ __forceinline__ void Settle(float (&y)[2 * kScores], Row<kColumns> (&rows)[2],
                                       TileExtremes (&x)[2], bool* settled) {
  int most[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r] = Most<kScores>(y, r);
  }
  const bool bad = max(most[0], most[1]) >= static_cast<int>(kInfBits) ||
                   max(x[0].lowest, x[1].lowest) >= (kInfBits | kNoLowest);
  if (__any_sync(kWarp, bad)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      TakeOutNonFinite<kScores>(y, r, &rows[r]);
      x[r] = ExtremesOfMasked<kScores>(y, r);
      most[r] = 0x80000000;
#pragma unroll
      for (int e = 0; e < kScores; ++e) most[r] = max(most[r], static_cast<int>(Bits(y[At(r, e)])));
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const uint32_t negative = min(x[r].even, x[r].odd);
    float largest = most[r] >= 0 ? Float(most[r]) : (negative == kMaskedBits ? -INFINITY : Float(negative));
    largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 2));
    RaiseRef<Units, kScores>(largest, y, r, &rows[r]);
    x[r] = ExtremesOfMasked<kScores>(y, r);
  }
  *settled = __all_sync(kWarp, rows[0].has_ref && rows[1].has_ref);
}

// Adds a tile whose y are below ref or masked.
template <typename Units, int kScores, int kColumns>
__device__ __forceinline__ void AddSettled(const float (&y)[2 * kScores], const TileExtremes& x, int r,
                                           Row<kColumns>* row) {
  static_assert(kScores == 2 * kColumns);
  row->second = min(row->second, max(row->best, x.even));
  row->best = min(row->best, x.even);
  row->second = min(row->second, max(row->best, x.odd));
  row->best = min(row->best, x.odd);
  row->lowest = max(row->lowest, x.lowest);
  float sum[2] = {0, 0};
  float weighted[2] = {0, 0};
#pragma unroll
  for (int e = 0; e < kScores; e += 2) {
    const float a = y[At(r, e)];
    const float b = y[At(r, e + 1)];
    row->column[e / 2] = __vimin3_u32(row->column[e / 2], Bits(a), Bits(b));
    const float pa = Exp2(a * Units::kToLog2);
    const float pb = Exp2(b * Units::kToLog2);
    sum[0] += pa;
    sum[1] += pb;
    weighted[0] = fmaf(pa, a, weighted[0]);
    weighted[1] = fmaf(pb, b, weighted[1]);
  }
  row->sum += sum[0] + sum[1];
  row->weighted += weighted[0] + weighted[1];
}

// Adds a tile of any y (masked ones hold kMaskedBits) to the warp's rows. Converged warps only.
template <typename Units, int kScores, int kColumns>
__device__ __forceinline__ void AddAny(float (&y)[2 * kScores], Row<kColumns> (&rows)[2], bool* settled) {
  TileExtremes x[2] = {ExtremesOfMasked<kScores>(y, 0), ExtremesOfMasked<kScores>(y, 1)};
  if (__any_sync(kWarp, !*settled || x[0].Unusual() || x[1].Unusual())) {
    Settle<Units, kScores>(y, rows, x, settled);
  }
  AddSettled<Units, kScores>(y, x[0], 0, &rows[0]);
  AddSettled<Units, kScores>(y, x[1], 1, &rows[1]);
}

// A finished row, the same in all four lanes of its quad; y's units.
struct RowSummary {
  float ref;
  float sum;
  float weighted;
  uint32_t best;
  uint32_t second;
  uint32_t lowest;
  float first_key;
  int count;
  bool has_nan;
  bool has_low_inf;
  int high_infs;
};

template <int kColumns>
__device__ __forceinline__ RowSummary Summarize(const Row<kColumns>& row) {
  // The runner-up of the other grouping.
  uint32_t best = kMaskedBits;
  uint32_t second = row.second;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    second = min(second, max(best, row.column[i]));
    best = min(best, row.column[i]);
  }
  best = min(best, row.best);
  RowSummary s{row.ref,
               row.sum,
               row.weighted,
               best,
               second,
               row.lowest,
               row.first_key,
               row.count,
               row.has_nan != 0,
               row.has_low_inf != 0,
               static_cast<int>(row.high_infs)};
#pragma unroll
  for (int lane = 1; lane <= 2; lane *= 2) {
    s.sum += __shfl_xor_sync(kWarp, s.sum, lane);
    s.weighted += __shfl_xor_sync(kWarp, s.weighted, lane);
    s.count += __shfl_xor_sync(kWarp, s.count, lane);
    s.lowest = max(s.lowest, __shfl_xor_sync(kWarp, s.lowest, lane));
    const uint32_t other_best = __shfl_xor_sync(kWarp, s.best, lane);
    const uint32_t other_second = __shfl_xor_sync(kWarp, s.second, lane);
    s.second = min(min(s.second, other_second), max(s.best, other_best));
    s.best = min(s.best, other_best);
  }
  s.first_key = __shfl_sync(kWarp, s.first_key, threadIdx.x % 32 / 4 * 4);
  return s;
}

// Moves a summary to another ref.
template <typename Units>
__device__ __forceinline__ RowSummary MovedTo(float ref, RowSummary s) {
  const float by = ref - s.ref;
  const float factor = s.best == kMaskedBits ? 0 : Exp2(-by * Units::kToLog2);
  s.weighted = factor == 0 ? 0 : factor * (s.weighted - by * s.sum);
  s.sum *= factor;
  s.best = Lower(s.best, by);
  s.second = Lower(s.second, by);
  s.lowest = s.lowest == kNoLowest ? kNoLowest : Lower(s.lowest, by);
  s.ref = ref;
  return s;
}

// Of the same row over other keys; only one of the two has seen key 0.
template <typename Units>
__device__ __forceinline__ RowSummary Merge(const RowSummary& a, const RowSummary& b) {
  const float ref = a.best == kMaskedBits ? b.ref : b.best == kMaskedBits ? a.ref : fmaxf(a.ref, b.ref);
  RowSummary s = MovedTo<Units>(ref, a);
  const RowSummary other = MovedTo<Units>(ref, b);
  s.sum += other.sum;
  s.weighted += other.weighted;
  s.second = min(min(s.second, other.second), max(s.best, other.best));
  s.best = min(s.best, other.best);
  s.lowest = max(s.lowest, other.lowest);
  s.first_key += other.first_key;
  s.count += other.count;
  s.has_nan |= other.has_nan;
  s.has_low_inf |= other.has_low_inf;
  s.high_infs += other.high_infs;
  return s;
}

}  // namespace foreshock::cuda
