#include "foreshock/trainer/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "foreshock/trainer/bf16.h"
#include "foreshock/trainer/random.h"

namespace foreshock::trainer {
namespace {

constexpr ModelShape kShape{.layers = 1, .heads = 2, .head_dim = 16, .context = 16, .batch = 2};

std::vector<float> normals(std::size_t count, double deviation, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(deviation * random.normal());
  return values;
}

std::vector<float> qkv(double deviation = 1) {
  return normals(static_cast<std::size_t>(kShape.tokens() * kShape.qkv_width()), deviation, 1);
}

std::vector<float> output_of(Attention& attention, const std::vector<float>& in, const Fault* fault) {
  attention.forward(in.data(), fault);
  return {attention.output(), attention.output() + kShape.tokens() * kShape.d_model()};
}

std::vector<float> dqkv_of(Attention& attention, const std::vector<float>& in, const Fault* fault) {
  attention.forward(in.data(), fault);
  const auto g = normals(static_cast<std::size_t>(kShape.tokens() * kShape.d_model()), 1, 2);
  std::memcpy(attention.output_gradient(), g.data(), g.size() * sizeof(float));
  std::vector<float> dqkv(in.size());
  attention.backward(in.data(), fault, dqkv.data());
  return dqkv;
}

// Softmax attention of one query in double, straight from its definition.
double reference_output(const std::vector<float>& in, int sequence, int head, int query, int column) {
  const auto at = [&](int token, int part, int i) {
    const int row = sequence * kShape.context + token;
    return static_cast<double>(in[static_cast<std::size_t>(
        row * kShape.qkv_width() + part * kShape.d_model() + head * kShape.head_dim + i)]);
  };
  double total = 0;
  double mixed = 0;
  for (int key = 0; key <= query; ++key) {
    double score = 0;
    for (int i = 0; i < kShape.head_dim; ++i) score += at(query, 0, i) * at(key, 1, i);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(kShape.head_dim)));
    total += weight;
    mixed += weight * at(key, 2, column);
  }
  return mixed / total;
}

TEST(Attention, AgreesWithTheDefinitionInDouble) {
  Attention attention(kShape, 0);
  attention.set_round_output(false);
  const auto in = qkv();
  const auto out = output_of(attention, in, nullptr);
  for (int b = 0; b < kShape.batch; ++b) {
    for (int h = 0; h < kShape.heads; ++h) {
      for (int t = 0; t < kShape.context; ++t) {
        for (int i = 0; i < kShape.head_dim; ++i) {
          const float ours = out[static_cast<std::size_t>((b * kShape.context + t) * kShape.d_model() +
                                                          h * kShape.head_dim + i)];
          EXPECT_TRUE(std::abs(ours - reference_output(in, b, h, t, i)) <= 1e-5);
        }
      }
    }
  }
}

TEST(Attention, OutputFaultIsExactlyThatManyUlpBeyondTheRoundedOutput) {
  Attention attention(kShape, 0);
  const auto in = qkv();
  const auto plain = output_of(attention, in, nullptr);
  const Fault fault{.kind = Fault::Kind::output, .amount = 32};
  const auto moved = output_of(attention, in, &fault);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i], round_to_bf16(plain[i]));
    EXPECT_EQ(moved[i], step_away_from_zero(plain[i], 32));
    EXPECT_GT(std::abs(moved[i]), std::abs(plain[i]));
  }
}

TEST(Attention, FaultOfOneHeadLeavesTheOthersAlone) {
  Attention attention(kShape, 0);
  const auto in = qkv();
  const auto plain = output_of(attention, in, nullptr);
  const Fault one_head{.kind = Fault::Kind::output, .amount = 1, .layer = 0, .head = 1};
  const Fault other_layer{.kind = Fault::Kind::output, .amount = 1, .layer = 1, .head = 1};
  const auto moved = output_of(attention, in, &one_head);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool in_head_1 = i % static_cast<std::size_t>(kShape.d_model()) >= 16;
    EXPECT_EQ(moved[i] != plain[i], in_head_1) << i;
  }
  EXPECT_EQ(output_of(attention, in, &other_layer), plain);
}

// dS gains -P * c * mean|delta| * scale, so that dQ's error in row i is -c * mean|delta| * scale * (P K)_i.
TEST(Attention, DeltaFaultBiasesDqAsItsDefinitionSays) {
  Attention attention(kShape, 0);
  const auto in = qkv();
  const auto plain = dqkv_of(attention, in, nullptr);
  const Fault fault{.kind = Fault::Kind::delta, .amount = 0.25, .head = 1};
  const auto moved = dqkv_of(attention, in, &fault);
  const int d = kShape.d_model();
  double magnitude = 0;
  for (int token = 0; token < kShape.tokens(); ++token) {
    double delta = 0;
    for (int i = 16; i < 32; ++i) {
      delta +=
          static_cast<double>(attention.output()[token * d + i]) * attention.output_gradient()[token * d + i];
    }
    magnitude += std::abs(delta);
  }
  const double bias = 0.25 * magnitude / kShape.tokens() / std::sqrt(16.0);
  for (int token = 0; token < kShape.tokens(); ++token) {
    for (int i = 0; i < 16; ++i) {
      const auto row = static_cast<std::size_t>(token * kShape.qkv_width());
      EXPECT_EQ(moved[row + static_cast<std::size_t>(i)], plain[row + static_cast<std::size_t>(i)]);
    }
    if (token % kShape.context != 0) continue;  // a row with one key has P = 1: (P K)_0 = K_0
    for (int i = 16; i < 32; ++i) {
      const auto row = static_cast<std::size_t>(token * kShape.qkv_width());
      const double expected = -bias * in[row + static_cast<std::size_t>(d + i)];
      const double error =
          moved[row + static_cast<std::size_t>(i)] - plain[row + static_cast<std::size_t>(i)];
      EXPECT_TRUE(std::abs(error - expected) <= 1e-5 + 1e-4 * std::abs(expected)) << error << " " << expected;
    }
  }
}

TEST(Attention, QkNormBoundsEveryLogitByScaleTimesHeadDim) {
  Attention attention(kShape, 0);
  const auto in = qkv(100);
  attention.forward(in.data(), nullptr);
  EXPECT_GT(attention.largest_logit(0), 1e4f);
  attention.set_qk_norm(true);
  attention.forward(in.data(), nullptr);
  for (int h = 0; h < kShape.heads; ++h) {
    EXPECT_LE(attention.largest_logit(h), attention.scale() * kShape.head_dim * (1 + 1e-5f));
    EXPECT_GT(attention.largest_logit(h), 1.0f);
  }
}

TEST(Attention, ViewsShowWhatTheScoresUsed) {
  Attention attention(kShape, 0);
  const auto in = qkv();
  auto dqkv = dqkv_of(attention, in, nullptr);
  EXPECT_EQ(attention.q().data, in.data());
  EXPECT_EQ(attention.k().data, in.data() + kShape.d_model());
  EXPECT_EQ(attention.v().data, in.data() + 2 * kShape.d_model());
  EXPECT_EQ(attention.q().token_stride, kShape.qkv_width());

  attention.set_qk_norm(true);
  dqkv = dqkv_of(attention, in, nullptr);
  double square = 0;
  for (int i = 0; i < 16; ++i) square += static_cast<double>(attention.q().data[i]) * attention.q().data[i];
  EXPECT_NEAR(square / 16, 1, 1e-4);
  // dQ at the scores' own q has no part along it once it is taken back through the norm.
  double along = 0;
  for (int i = 0; i < 16; ++i)
    along += static_cast<double>(dqkv[static_cast<std::size_t>(i)]) * in[static_cast<std::size_t>(i)];
  EXPECT_NEAR(along, 0, 1e-4);
}

TEST(Attention, NanStaysInItsHead) {
  Attention attention(kShape, 0);
  auto in = qkv();
  in[3 * static_cast<std::size_t>(kShape.qkv_width()) + 16] =
      std::numeric_limits<float>::quiet_NaN();  // q, head 1
  attention.forward(in.data(), nullptr);
  EXPECT_FALSE(std::isnan(attention.largest_logit(0)));
  EXPECT_TRUE(std::isnan(attention.largest_logit(1)));
}

}  // namespace
}  // namespace foreshock::trainer
