// A trainer of two layers with a guard, through the C interface.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {

class GuardFlowTest : public ::testing::Test {
 protected:
  GuardFlowTest() : model_(Shape()) {}

  static ToyShape Shape() {
    ToyShape shape;
    shape.dim = 16;  // scale * head_dim = 4, the smallest the guard takes
    shape.model = 16;
    return shape;
  }

  fs_run* Open(const std::string& address, std::vector<const char*> allowed = {}) {
    fs_options options = TestOptions(address);
    options.allowed_actions = allowed.data();
    options.allowed_action_count = static_cast<uint32_t>(allowed.size());
    options.attention_every_steps = 1;
    options.spectra_every_steps = 10;
    options.row_every = 1;
    options.world_size = world_size_;
    options.rank = 0;
    fs_run* run = nullptr;
    EXPECT_EQ(fs_open(&options, &run), FS_OK);
    EXPECT_EQ(model_.Register(run), FS_OK) << fs_last_error(run);
    return run;
  }

  // Attention of one step, q of head `head` of `layer` larger by `factor`; normalised where the guard says
  // so.
  void Step(fs_run* run, int64_t t, uint32_t layer, uint32_t head, float factor, bool obey = true) {
    model_.Move();
    fs_step_begin(run, t);
    for (uint32_t l = 0; l < 2; ++l) {
      std::vector<float> q = model_.q, k = model_.k;
      if (l == layer) {
        for (size_t i = 0; i < q.size(); ++i) {
          if ((i / 16) % 4 == head) q[i] *= factor;
        }
      }
      fs_attention a = model_.Attention();
      a.q.data = q.data();
      a.k.data = k.data();
      if (obey && fs_guard_active(run, l)) {
        EXPECT_EQ(fs_qk_norm_forward(&a.q, &a.q), FS_OK);
        EXPECT_EQ(fs_qk_norm_forward(&a.k, &a.k), FS_OK);
      }
      EXPECT_EQ(fs_attention_forward(run, l, &a), FS_OK) << fs_last_error(run);
    }
    fs_step_end(run);
  }

  int32_t world_size_ = 1;
  TempDir dir_;
  std::string file_ = "file:" + (dir_ / "run.fsk");
  ToyModel model_;
};

}  // namespace foreshock::testing
