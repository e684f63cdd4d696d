// Derivatives against central differences. The loss is a sum in double of fp32 logits, so the difference
// along a random direction is good to about 1e-3 of its size.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "foreshock/trainer/model.h"
#include "foreshock/trainer/random.h"

namespace foreshock::trainer {
namespace {

class Gradient : public testing::TestWithParam<bool> {
 protected:
  Gradient() : model_(shape(), 3), inputs_(tokens()), targets_(tokens()) {
    Random random(5);
    for (std::size_t i = 0; i < tokens(); ++i) {
      inputs_[i] = static_cast<unsigned char>(random.below(256));
      targets_[i] = static_cast<unsigned char>(random.below(256));
    }
    // Weights large enough that softmax and GELU are far from their linear middle.
    for (std::size_t i = 0; i < model_.layout().decayed; ++i) model_.weights()[i] *= 8.0f;
    for (std::size_t i = model_.layout().decayed; i < model_.layout().count; ++i) {
      model_.weights()[i] = static_cast<float>(1 + 0.3 * random.normal());
    }
    for (int layer = 0; layer < shape().layers; ++layer) {
      model_.attention(layer).set_round_output(false);
      model_.attention(layer).set_qk_norm(GetParam());
    }
  }

  static ModelShape shape() { return {.layers = 2, .heads = 2, .head_dim = 16, .context = 16, .batch = 2}; }
  static std::size_t tokens() { return static_cast<std::size_t>(shape().tokens()); }
  double loss() { return model_.forward(inputs_.data(), targets_.data(), nullptr); }

  // Checks the derivative along three random directions within weights [from, from + count).
  void check(const char* name, std::size_t from, std::size_t count) {
    loss();
    model_.backward();
    const std::vector<float> gradient(model_.gradients().data() + from,
                                      model_.gradients().data() + from + count);
    double norm = 0;
    for (float g : gradient) norm += static_cast<double>(g) * g;
    ASSERT_GT(norm, 1e-12) << name;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      // Half along the gradient, half at random: the difference stays well above fp32's noise.
      Random random(seed);
      std::vector<double> direction(count);
      double along = 0;
      for (std::size_t i = 0; i < count; ++i) {
        direction[i] =
            gradient[i] / std::sqrt(norm) + random.normal() / std::sqrt(static_cast<double>(count));
        along += direction[i] * gradient[i];
      }
      const double numeric = difference(from, direction);
      EXPECT_TRUE(std::abs(numeric - along) <= 4e-3 * std::sqrt(norm) + 2e-6)
          << name << " seed " << seed << ": numeric " << numeric << ", backward " << along;
    }
  }

  double difference(std::size_t from, const std::vector<double>& direction) {
    constexpr double kStep = 4e-3;
    const std::vector<float> kept(model_.weights().data() + from,
                                  model_.weights().data() + from + direction.size());
    const auto at = [&](double step) {
      for (std::size_t i = 0; i < direction.size(); ++i) {
        model_.weights()[from + i] = static_cast<float>(kept[i] + step * direction[i]);
      }
      return loss();
    };
    const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
    std::copy(kept.begin(), kept.end(), model_.weights().data() + from);
    return slope;
  }

  Model model_;
  std::vector<unsigned char> inputs_, targets_;
};

TEST_P(Gradient, EveryParameterAgreesWithFiniteDifferences) {
  const ParameterLayout& at = model_.layout();
  const auto d = static_cast<std::size_t>(shape().d_model());
  check("token embedding", at.token_embedding, 256 * d);
  check("position embedding", at.position_embedding, 16 * d);
  for (std::size_t i = 0; i < at.layers.size(); ++i) {
    SCOPED_TRACE(i);
    check("qkv", at.layers[i].qkv, 3 * d * d);
    check("attention out", at.layers[i].attention_out, d * d);
    check("mlp in", at.layers[i].mlp_in, 4 * d * d);
    check("mlp out", at.layers[i].mlp_out, 4 * d * d);
    check("attention gain", at.layers[i].attention_gain, d);
    check("mlp gain", at.layers[i].mlp_gain, d);
  }
  check("unembedding", at.unembedding, 256 * d);
  check("final gain", at.final_gain, d);
}

INSTANTIATE_TEST_SUITE_P(QkNorm, Gradient, testing::Bool(),
                         [](const auto& version) { return version.param ? "on" : "off"; });

}  // namespace
}  // namespace foreshock::trainer
