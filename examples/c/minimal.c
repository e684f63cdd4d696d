/* The smallest trainer that Foreshock can watch: one attention layer of two heads, trained by gradient
 * descent to look up what a token was two places ago. Everything marked FORESHOCK is what you add to your
 * own.
 *
 *   cc minimal.c -I .../sdk/capi/include -L .../build/lib -lforeshock -lm -o minimal
 *   FORESHOCK_ADDR=file:minimal.jsonl ./minimal
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foreshock/foreshock.h"

enum { kTokens = 32, kModel = 16, kHeads = 2, kDim = 8, kSteps = 1000 };

static float wq[kModel][kModel], wk[kModel][kModel]; /* y = x W; head h owns columns h * kDim .. */
static float x[kTokens][kModel], q[kTokens][kModel], k[kTokens][kModel], o[kTokens][kModel];
static float p[kHeads][kTokens][kTokens], d_o[kTokens][kModel], dq[kTokens][kModel], dk[kTokens][kModel];

static float uniform(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

static void multiply(float y[kTokens][kModel], float in[kTokens][kModel], float w[kModel][kModel]) {
  for (int t = 0; t < kTokens; ++t)
    for (int j = 0; j < kModel; ++j) {
      y[t][j] = 0;
      for (int i = 0; i < kModel; ++i) y[t][j] += in[t][i] * w[i][j];
    }
}

/* o = softmax(q k^T / sqrt(dim)) x, causal; the values are the inputs themselves. Returns the mean loss. */
static double forward(void) {
  double loss = 0;
  multiply(q, x, wq);
  multiply(k, x, wk);
  for (int h = 0; h < kHeads; ++h)
    for (int t = 0; t < kTokens; ++t) {
      float top = -INFINITY, total = 0;
      for (int s = 0; s <= t; ++s) {
        p[h][t][s] = 0;
        for (int i = h * kDim; i < (h + 1) * kDim; ++i) p[h][t][s] += q[t][i] * k[s][i];
        p[h][t][s] /= sqrtf(kDim);
        top = fmaxf(top, p[h][t][s]);
      }
      for (int s = 0; s <= t; ++s) total += p[h][t][s] = expf(p[h][t][s] - top);
      for (int i = h * kDim; i < (h + 1) * kDim; ++i) {
        o[t][i] = 0;
        for (int s = 0; s <= t; ++s) o[t][i] += (p[h][t][s] / total) * x[s][i];
        const float error = o[t][i] - (t >= 2 ? x[t - 2][i] : 0);
        d_o[t][i] = 2 * error / (kTokens * kModel);
        loss += (double)error * error / (kTokens * kModel);
      }
      for (int s = 0; s <= t; ++s) p[h][t][s] /= total;
    }
  return loss;
}

static void backward(void) {
  memset(dq, 0, sizeof dq);
  memset(dk, 0, sizeof dk);
  for (int h = 0; h < kHeads; ++h)
    for (int t = 0; t < kTokens; ++t) {
      float delta = 0;
      for (int i = h * kDim; i < (h + 1) * kDim; ++i) delta += d_o[t][i] * o[t][i];
      for (int s = 0; s <= t; ++s) {
        float dp = 0;
        for (int i = h * kDim; i < (h + 1) * kDim; ++i) dp += d_o[t][i] * x[s][i];
        const float ds = p[h][t][s] * (dp - delta) / sqrtf(kDim);
        for (int i = h * kDim; i < (h + 1) * kDim; ++i) {
          dq[t][i] += ds * k[s][i];
          dk[s][i] += ds * q[t][i];
        }
      }
    }
}

/* w -= rate * x^T dy; returns the squared norm of the gradient. */
static double update(float w[kModel][kModel], float dy[kTokens][kModel], float rate) {
  double squares = 0;
  for (int i = 0; i < kModel; ++i)
    for (int j = 0; j < kModel; ++j) {
      float g = 0;
      for (int t = 0; t < kTokens; ++t) g += x[t][i] * dy[t][j];
      w[i][j] -= rate * g;
      squares += (double)g * g;
    }
  return squares;
}

/* FORESHOCK: names the weights, before the first step. */
static void declare_layer(fs_run* fs) {
  fs_weights q_weights, k_weights;
  fs_weights_init(&q_weights);
  q_weights.data = wq;
  q_weights.row_stride = kModel;
  q_weights.col_stride = 1;
  q_weights.head_stride = kDim;
  k_weights = q_weights;
  k_weights.data = wk;

  fs_layer layer;
  fs_layer_init(&layer);
  layer.model_dim = kModel;
  layer.query_heads = layer.kv_heads = kHeads;
  layer.head_dim = kDim;
  layer.wq = &q_weights;
  layer.wk = &k_weights;
  if (fs_add_layer(fs, &layer) != FS_OK) fprintf(stderr, "not watched: %s\n", fs_last_error(fs));
}

/* FORESHOCK: shows what the attention of this step was, where it would be sampled. */
static void show_attention(fs_run* fs) {
  if (!fs_wants_attention(fs, 0) && !fs_wants_attention_backward(fs, 0)) return;
  fs_attention a;
  fs_attention_init(&a);
  a.q = fs_tensor_bshd(q, FS_FP32, 1, kTokens, kHeads, kDim);
  a.k = fs_tensor_bshd(k, FS_FP32, 1, kTokens, kHeads, kDim);
  a.v = fs_tensor_bshd(x, FS_FP32, 1, kTokens, kHeads, kDim);
  a.o = fs_tensor_bshd(o, FS_FP32, 1, kTokens, kHeads, kDim);
  a.d_o = fs_tensor_bshd(d_o, FS_FP32, 1, kTokens, kHeads, kDim);
  a.dq = fs_tensor_bshd(dq, FS_FP32, 1, kTokens, kHeads, kDim);
  fs_attention_forward(fs, 0, &a);
  fs_attention_backward(fs, 0, &a);
}

int main(void) {
  const float rate = 5;
  double loss = 0;
  for (int i = 0; i < kModel * kModel; ++i)
    (&wq[0][0])[i] = uniform() * 0.5f, (&wk[0][0])[i] = uniform() * 0.5f;

  fs_options options; /* FORESHOCK: the address comes from FORESHOCK_ADDR; without one nothing is recorded */
  fs_run* fs;
  fs_options_init(&options);
  options.run = "minimal-c";
  options.budget = 1; /* a step this small would leave no room for 0.4 % */
  fs_open(&options, &fs);
  declare_layer(fs);

  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kTokens * kModel; ++i) (&x[0][0])[i] = uniform();
    for (int t = 0; t < kTokens; ++t)
      x[t][kModel - 1] = sinf(0.4f * (float)t), x[t][0] = cosf(0.4f * (float)t);

    fs_step_begin(fs, step); /* FORESHOCK */
    loss = forward();
    backward();
    show_attention(fs);         /* FORESHOCK */
    fs_loss(fs, loss, kTokens); /* FORESHOCK */
    const double squares = update(wq, dq, rate) + update(wk, dk, rate);
    fs_scalar(fs, FS_GRAD_NORM, sqrt(squares)); /* FORESHOCK */
    fs_scalar(fs, FS_LEARNING_RATE, rate);      /* FORESHOCK */
    fs_step_end(fs);                            /* FORESHOCK */
  }

  printf("%d steps, loss %.4f\n", kSteps, loss);
  fs_close(fs, FS_FINISHED); /* FORESHOCK */
  return 0;
}
