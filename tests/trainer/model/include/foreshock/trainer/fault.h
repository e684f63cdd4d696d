#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshock::trainer {

// A directed perturbation of attention, for experiments with training collapse. It is real arithmetic in the
// real forward or backward pass, but it is not what hardware does by itself: natural rounding to bf16 errs by
// at most half an ulp and in both directions.
//
//   output:K  the attention output, rounded to bf16, is moved K bf16 ulp away from zero
//   delta:C   delta = rowsum(dO * O) of the softmax backward pass gets C times its mean magnitude (over the
//             rows of that head in the batch) added
struct Fault {
  enum class Kind { none, output, delta };

  Kind kind = Kind::none;
  double amount = 0;            // ulp, or fraction of the mean |delta|
  std::int64_t first_step = 0;  // active from this optimizer step on
  int layer = -1;               // -1: every layer
  int head = -1;                // -1: every head

  bool active(std::int64_t step) const { return kind != Kind::none && step >= first_step; }
  bool hits(int at_layer, int at_head) const {
    return (layer < 0 || layer == at_layer) && (head < 0 || head == at_head);
  }
};

// Reads "none", "output:K" or "delta:C" into kind and amount of `fault`. False and a sentence in `error` when
// the kind is unknown, K is not a whole number in 1..1024, or C is not a finite number in [-10, 10] other
// than 0.
bool parse_fault(std::string_view text, Fault* fault, std::string* error);

// "delta:0.01", "output:32 in layer 0, head 2"; "none".
std::string describe(const Fault& fault);

// Reads "LAYER.HEAD" into layer and head of `fault`; bounds are not checked here.
bool parse_fault_head(std::string_view text, Fault* fault, std::string* error);

}  // namespace foreshock::trainer
