// What the weight kernels read: one record a head, in device memory, built when the weights are known.
#pragma once

#include <cstdint>

namespace foreshock::cuda {

inline constexpr int kPairsOf = 3;     // as kernels::kPairs
inline constexpr int kBasis = 8;       // vectors of the eigen-solver's subspace
inline constexpr int kGramTile = 64;   // rows of W that pass through shared memory at a time
inline constexpr int kGramBlock = 32;  // G is kept as its upper blocks of 32 x 32
inline constexpr int kPartials = 9;    // sums at most that a projection leaves for each chunk of rows

// Blocks of an n x n Gram matrix, n a multiple of 32; block (r, c), r <= c.
constexpr int GramBlocks(int n) { return n / kGramBlock * (n / kGramBlock + 1) / 2; }
constexpr int GramFloats(int n) { return GramBlocks(n) * kGramBlock * kGramBlock; }
constexpr int GramBlockAt(int r, int c, int n) {
  const int side = n / kGramBlock;
  return r * side - r * (r - 1) / 2 + (c - r);
}

// How a head lies in memory.
enum class Order : uint8_t {
  kModelMajor,  // row_stride 1: torch.nn.Linear's [out, in]
  kHeadMajor,   // col_stride 1: Conv1D's [in, out]
  kStrided,     // neither
};

struct HeadRecord {
  const void* data;
  int64_t row_stride, col_stride;
  int32_t d_model, d_head;
  uint8_t dtype;  // kernels::DType
  Order order;
  uint8_t vector;       // lines begin at multiples of 16 bytes
  uint8_t always_slow;  // the tensor cores have no such type (fp64)
  int32_t padded;       // d_head rounded up to 32, 64, 128 or 256
  int32_t pairs;        // min(3, d_model, d_head)
  int64_t gram_at;  // floats into the Gram buffer: `splits` partial matrices of GramFloats(padded), then G in
                    // the first's place
  int32_t splits;
  int32_t first_chunk, chunks;  // of the projection's partial sums
  int64_t u_at, v_at;           // floats into the u and v buffers: kPairsOf vectors each
  int64_t basis_at;             // floats into the basis buffer: kBasis vectors of `padded`, and kBasis values
  double decay;                 // lambda of decoupled weight decay
};

// Rows [first, first + rows) of one head, for one thread block.
struct RowChunk {
  int32_t head;
  int32_t first;
  int32_t rows;
  int32_t part;  // Gram: which partial matrix; projection: index among the head's chunks
};

// Copied by kernels in pieces of 16 bytes.
struct alignas(16) QkRecord {
  int32_t q, k;  // heads
  int32_t d_head;
  int32_t out;                   // index of the pair's result
  int64_t basis_at;              // floats into the basis buffer
  int64_t gram_q_at, gram_k_at;  // floats into the Gram buffer
};

// What the probe finds for one head; sigma in units of 1.
struct SpectrumRecord {
  double sigma[kPairsOf];
  double stable_rank, frobenius;
  int32_t pairs;
  int32_t has_stable_rank;
  int32_t finite;
  int32_t rounds;  // of the eigen-solver
};

// Growth along the pairs in use, between two reports.
struct UpdateRecord {
  double sum_c[kPairsOf], sum_abs_c[kPairsOf], sum_sign[kPairsOf];
  uint32_t nonzero[kPairsOf];
  uint32_t rotated[kPairsOf];
  double r[kPairsOf];  // of the present weights
  double last_c[kPairsOf];
};

// What the eigen-solver knows of a head beside its vectors.
struct GramRecord {
  double trace;      // of G / 4^exponent, G's own scale taken out
  int32_t exponent;  // weights were multiplied by 2^-exponent before they met
  int32_t finite;
  int32_t rounds;
};

}  // namespace foreshock::cuda
