#include "published_cases.h"

#include <algorithm>
#include <iterator>

namespace foreshock::report {
namespace {

constexpr PublishedCase kQkCases[] = {
    {"Dehghani et al., ViT-22B, arXiv 2302.05442",
     "Attention logits grew until the softmax was nearly one-hot and the loss diverged. LayerNorm on queries "
     "and keys "
     "kept the run stable."},
    {"Wortsman et al., arXiv 2309.14322",
     "Logit growth appears in small models too, at high learning rates. QK LayerNorm widened the range of "
     "learning "
     "rates that train."},
    {"Kimi K2, arXiv 2507.20534",
     "Largest logits passed 1,000 under Muon. Rescaling W_Q and W_K of the heads above a threshold (QK-clip) "
     "kept "
     "them bounded, and later in the run was no longer needed."},
};
constexpr PublishedCase kRoundingCases[] = {
    {"arXiv 2510.04212",
     "bf16 flash attention trained for thousands of steps, then exploded: rows with two equal maxima made "
     "the product "
     "with V round to one side, and delta carried the bias into W_Q. Shifting the maximum where it is "
     "attained twice "
     "removed it."},
    {"arXiv 2606.28116, 2608.02091",
     "Other directed errors end in the same growth of the query-key weights. Parameter-free QK "
     "normalization, switched "
     "on once logits saturated, contained each of them with the error still there."},
};
constexpr PublishedCase kEntropyCases[] = {
    {"Zhai et al., arXiv 2303.06296",
     "Attention entropy fell to almost nothing and training diverged or oscillated. Reparametrising weights "
     "by their "
     "spectral norm kept the entropy up."},
};
constexpr PublishedCase kLossCases[] = {
    {"PaLM, arXiv 2204.02311",
     "About 20 loss spikes at 540B. Restarting some 100 steps before the spike and skipping 200 to 500 "
     "batches got past "
     "each; the same batches did no harm from another state."},
    {"OPT-175B, arXiv 2205.01068",
     "When the loss diverged, the loss scale crashed and the activations of the last layer grew. A lower "
     "learning "
     "rate from "
     "an earlier checkpoint let it recover."},
};

struct Family {
  std::string_view rules[5];
  const PublishedCase* begin;
  const PublishedCase* end;
};
constexpr Family kFamilies[] = {
    {{"rounding_bias", "delta_error", "tied_rows_rising", "update_sign_coherence", "qk_runaway"},
     std::begin(kRoundingCases),
     std::end(kRoundingCases)},
    {{"qk_runaway", "logit_saturation"}, std::begin(kQkCases), std::end(kQkCases)},
    {{"entropy_collapse"}, std::begin(kEntropyCases), std::end(kEntropyCases)},
    {{"loss_spike", "loss_divergence", "loss_scale_collapse", "grad_norm_spike", "non_finite"},
     std::begin(kLossCases),
     std::end(kLossCases)},
};

}  // namespace

std::vector<PublishedCase> PublishedCasesOf(std::string_view rule) {
  std::vector<PublishedCase> cases;
  for (const Family& family : kFamilies) {
    if (rule.empty() ||
        std::find(std::begin(family.rules), std::end(family.rules), rule) == std::end(family.rules))
      continue;
    cases.insert(cases.end(), family.begin, family.end);
  }
  return cases;
}

}  // namespace foreshock::report
