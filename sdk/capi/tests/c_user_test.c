/* A C99 program that links the library as a user's would: compiled with -std=c99 -pedantic, it fails to build when the
 * header is not C. Trains nothing; runs three steps of one layer with fixed numbers and checks every status. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "foreshock/foreshock.h"

enum { kHeads = 2, kDim = 4, kModel = 8, kSeq = 6 };

static int Check(fs_run* run, fs_status status, const char* what) {
  if (status == FS_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, fs_status_name(status), fs_last_error(run));
  return 1;
}

int main(int argc, char** argv) {
  static float wq[kHeads * kDim * kModel], wk[kHeads * kDim * kModel], q[kSeq * kHeads * kDim], k[kSeq * kHeads * kDim];
  fs_options options;
  fs_weights weights_q, weights_k;
  fs_layer layer;
  fs_stats stats;
  fs_run* run = NULL;
  int failures = 0;
  int i;
  int64_t t;

  for (i = 0; i < kHeads * kDim * kModel; ++i) wq[i] = sinf((float)i), wk[i] = cosf((float)i);
  for (i = 0; i < kSeq * kHeads * kDim; ++i) q[i] = sinf(0.7f * (float)i), k[i] = cosf(1.3f * (float)i);

  fs_options_init(&options);
  options.run = "c-user";
  options.address = argc > 1 ? argv[1] : "file:/dev/null";
  failures += Check(run, fs_open(&options, &run), "fs_open");

  fs_weights_init(&weights_q);
  weights_q.data = wq;
  weights_q.row_stride = 1;
  weights_q.col_stride = kModel;
  weights_q.head_stride = kDim * kModel;
  weights_k = weights_q;
  weights_k.data = wk;
  fs_layer_init(&layer);
  layer.model_dim = kModel;
  layer.query_heads = layer.kv_heads = kHeads;
  layer.head_dim = kDim;
  layer.wq = &weights_q;
  layer.wk = &weights_k;
  failures += Check(run, fs_add_layer(run, &layer), "fs_add_layer");

  for (t = 0; t < 3; ++t) {
    fs_attention attention;
    failures += Check(run, fs_step_begin(run, t), "fs_step_begin");
    fs_attention_init(&attention);
    attention.q = fs_tensor_bshd(q, FS_FP32, 1, kSeq, kHeads, kDim);
    attention.k = fs_tensor_bshd(k, FS_FP32, 1, kSeq, kHeads, kDim);
    failures += Check(run, fs_attention_forward(run, 0, &attention), "fs_attention_forward");
    failures += Check(run, fs_loss(run, 1.5, kSeq), "fs_loss");
    failures += Check(run, fs_step_end(run), "fs_step_end");
  }
  fs_stats_init(&stats);
  failures += Check(run, fs_get_stats(run, &stats), "fs_get_stats");
  failures += stats.steps != 3;
  failures += Check(run, fs_close(run, FS_FINISHED), "fs_close");
  failures += strcmp(fs_version(), FS_VERSION) != 0;
  return failures;
}
