/* A trainer with llm.c's buffers and none of its model: random numbers stand for activations and gradients.
 * The lines of docs/trainers/llm.c.md are included as they are printed there (lines.py takes them out), so
 * that what is documented is what is compiled and run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int num_layers, num_heads, channels;
} Config;
typedef struct {
  float* qkvw;
} Parameters;
typedef struct {
  float *qkv, *atty;
} Activations;
typedef struct {
  Config config;
  Parameters params;
  Activations acts, grads_acts;
  float mean_loss;
} GPT2;

#include "before_main.inc"

static float* random_floats(size_t n, float size) {
  float* values = malloc(n * sizeof *values);
  for (size_t i = 0; i < n; ++i) values[i] = size * ((float)rand() / (float)RAND_MAX - 0.5f);
  return values;
}

int main(void) {
  enum { kLayers = 3, kChannels = 32 };
  const int B = 2, T = 16;
  const size_t n = (size_t)kLayers * B * T * kChannels;
  GPT2 model = {.config = {kLayers, 4, kChannels}};
  model.params.qkvw = random_floats((size_t)kLayers * 3 * kChannels * kChannels, 1);
  model.acts.qkv = random_floats(3 * n, 4);
  model.acts.atty = random_floats(n, 1);
  model.grads_acts.qkv = random_floats(3 * n, 1e-3f);
  model.grads_acts.atty = random_floats(n, 1e-3f);
  /* Rows of Q, K and V differ in size, and so do layers: what is read from the wrong place shows. */
  for (int l = 0; l < kLayers; ++l)
    for (int i = 0; i < 3 * kChannels * kChannels; ++i) {
      const int part = i / (kChannels * kChannels);
      model.params.qkvw[(size_t)l * 3 * kChannels * kChannels + i] *= (float)(l + 1) * (part == 0   ? 1
                                                                                        : part == 1 ? 10
                                                                                                    : 1000);
    }
  for (size_t i = 0; i < 3 * n; ++i)
    if (i % (3 * kChannels) >= 2 * kChannels) model.acts.qkv[i] *= 1e4f;
#include "before_loop.inc"
  for (int step = 0; step < 21; ++step) {
    model.mean_loss = 4.0f - 0.1f * (float)step;
#include "in_loop.inc"
  }
  fs_close(fs, FS_FINISHED);
  return 0;
}
