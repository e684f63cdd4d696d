// Launches of the weight kernels: each returns a cudaError_t, waits for nothing and allocates nothing.
#pragma once

#include <cstdint>

#include "weight_tables.h"

namespace foreshock::cuda {

using DeviceStream = void*;

// Device pointers of one probe.
struct WeightBuffers {
  const HeadRecord* heads;
  const RowChunk* gram_chunks;
  const RowChunk* project_chunks;
  const int32_t* head_list;  // heads sorted by padded size
  const QkRecord* qk;        // sorted by padded size
  float* gram;
  float* basis;
  GramRecord* records;
  SpectrumRecord* spectra;
  double* qk_sigma1;
  double* partial;
  unsigned* arrived;
  UpdateRecord* updates;
};

struct Pairs {
  float* u;
  float* v;
};

enum class Counting : int32_t { kStart, kStep, kNothing };

// Chunks [first, first + count) of one dtype and order of lines: one launch.
struct ProjectGroup {
  int dtype;
  bool head_major;
  int first, count;
};

// Largest d_head that the kernels take.
inline constexpr int kMaxHeadDim = 256;

// Once per device, before anything is captured: the kernels' shared memory limits.
int PrepareWeightKernels();
int PrepareEigenKernels();

// Whether this build has the kernels for Hopper and a device of this compute capability runs them.
bool HasHopperKernels(int major, int minor);
// Which kernel makes G.
enum class GramKind : uint8_t {
  kPortable,
  kHopper,           // 64 or 128 columns, lines along d_model
  kHopperHeadMajor,  // the same of 16 bits, lines along d_head
};
// Gram matrices of `count` chunks from `first` on, all of one padded size, dtype and kind.
int LaunchGram(const WeightBuffers& b, int padded, int dtype, GramKind kind, int first, int count,
               const int* flag, DeviceStream stream);
// For all heads: what the fast kernel could not do. `padded` is the largest one's.
int LaunchGramSlow(const WeightBuffers& b, int heads, int padded, const int* flag, DeviceStream stream);
int LaunchSpectrum(const WeightBuffers& b, int padded, int first, int count, float* v, const int* flag,
                   DeviceStream stream);
int LaunchQk(const WeightBuffers& b, int padded, int first, int count, const int* flag, DeviceStream stream);
// y = W v into next.u, for the chunks of one group. `d_head` is the largest of all heads. now: r along these
// pairs in the same read, which LaunchFinish counts.
int LaunchSpectraPass(const WeightBuffers& b, const ProjectGroup& group, int d_head, Pairs next,
                      const Pairs* now, const int* flag, DeviceStream stream);
// Sigma, u and v of y. counts: r was taken too, one optimizer step after the last.
int LaunchFinish(const WeightBuffers& b, int heads, Pairs next, bool counts, double learning_rate,
                 const int* flag, DeviceStream stream);
// r along `now`, and along `next` too where it is given: the pairs change at this step.
int LaunchProject(const WeightBuffers& b, const ProjectGroup& group, int d_head, Pairs now, const Pairs* next,
                  Counting counting, double learning_rate, const int* flag, DeviceStream stream);
// Zeroes the windows' sums, r stays. `forget`: r too.
int LaunchClear(const WeightBuffers& b, int heads, bool forget, DeviceStream stream);

}  // namespace foreshock::cuda
