// What the rules see of one optimizer step of one run: plain data, already merged over ranks, no I/O.
//
// Values are display values (catalogue's DisplayValue): a ratio is its quotient, with its denominator as
// weight. NaN and Inf are values of that head. Missing is different: the scalar or head is not listed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace foreshock::detect {

struct ScalarSample {
  uint16_t signal = 0;  // catalogue id, e.g. kLoss
  double value = 0;
};

// One signal of one layer.
struct SeriesSample {
  enum Flag : uint8_t {
    kRotated = 1,               // the singular pairs turned inside the window: update_* of it say nothing
    kLowResolution = 2,         // read from 16-bit weights: small updates are invisible
    kWeightNormsNotCausal = 4,  // QK normalization in this layer: rules lean on logits
  };
  uint16_t signal = 0;
  uint32_t layer = 0;
  std::vector<uint32_t> heads;  // any order; a head that is not listed is missing
  std::vector<double> values;   // one a head
  std::vector<double> weights;  // empty, or one a head: rows visited, n, or a ratio's denominator
  std::vector<double> errors;   // empty, or one a head: standard error of the value
  uint8_t flags = 0;
};

struct StepEvent {
  enum class Kind : uint8_t {
    kCheckpoint,  // a checkpoint of this step was saved
    kResume,      // training goes on from a checkpoint: a transient is expected
    kPhase,       // data, context length or learning rate changes: a transient is expected
    kEval,        // an evaluation ran
    kGuardOn,     // QK normalization was switched on (layer, or all layers when layer < 0)
    kGuardOff,
    kGuardMissing,  // resumed without the guard's state although it was on: critical
    kFinished,      // announced end, all well
    kFailed,        // announced end, not well
    kUnmonitored,   // a part of the model is not measured; text says why
    kTwoWriters,    // two live processes send as the same rank; text says which
    kOneWriter,     // not any more
    kNote,
  };
  Kind kind = Kind::kNote;
  int32_t layer = -1;  // -1: the whole model
  std::string text;
};

struct StepSample {
  int64_t step = 0;
  bool skipped = false;  // the optimizer skipped the step (loss scaling)
  std::vector<ScalarSample> scalars;
  std::vector<SeriesSample> series;
  std::vector<StepEvent> events;    // of this step, taken before its values
  std::vector<SeriesSample> spare;  // of no step: empty series, whose memory AddSeries uses again

  // Empties all for another step.
  void Restart();
  // A new series, empty, at the end of `series`. Valid until the next.
  SeriesSample& AddSeries();
};

inline void StepSample::Restart() {
  step = 0;
  skipped = false;
  scalars.clear();
  events.clear();
  for (SeriesSample& used : series) {
    used.heads.clear();
    used.values.clear();
    used.weights.clear();
    used.errors.clear();
    used.flags = 0;
    spare.push_back(std::move(used));
  }
  series.clear();
}

inline SeriesSample& StepSample::AddSeries() {
  if (spare.empty()) return series.emplace_back();
  series.push_back(std::move(spare.back()));
  spare.pop_back();
  return series.back();
}

}  // namespace foreshock::detect
