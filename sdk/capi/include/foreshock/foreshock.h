/* Foreshock's C interface: watches the attention heads of a training run from inside the trainer.
 *
 * RULES, stated once for every call
 *  - Nothing here throws, aborts, exits, blocks on I/O or takes a lock that I/O can hold. Once the second
 *    sampled step is over, a step's calls allocate nothing and make no blocking system call.
 *  - A handle may be NULL: then, as with a handle that is not attached (no address), every call returns
 *    FS_OK or 0 at once. A trainer needs no `if` around its calls.
 *  - One call at a time per handle. Threads may take turns (autograd runs backward on another one).
 *    fs_get_stats may be called from any thread at any time.
 *  - Structs that begin with `size` are set up by their fs_..._init function, which writes every default and
 *    the size that the program was compiled with. Fields are only ever added at the end, and the library
 *    writes no byte beyond `size`: an older program goes on working. Other languages call
 *    fs_..._init_size(struct, size of the struct as they know it); NULL or a size below 4 does nothing.
 *  - Pointers in arguments are read during the call only, except the weights of fs_layer, which are read
 *    at step begin and step end until fs_close or fs_layer_set_weights.
 *  - A call that fails changes nothing, and fs_last_error(handle) names field, value and limit. Training
 *    goes on whatever a call returns: ignoring every status is safe.
 *  - NaN and infinity are values, never errors. What was not given is missing, never 0.
 *  - A forked child is inert: its calls return at once, and it sends nothing.
 *  - Tensors may lie in host memory or on a CUDA device; which, is found from the pointer where it is not
 *    said. What lies on a device is read there, by kernels enqueued on the stream given (fs_set_stream,
 *    fs_attention): no call waits for a device, and a step's frame goes out when the device has got there, at
 *    most 64 steps later. Such memory must stay as it is in the order of that stream, not of the host. All
 * that one call points to lies on one device, or all in host memory: anything else is FS_ERR_ARGUMENT. An
 * error of CUDA's ends the measurements on that device, is told once, and is never the trainer's. Without a
 * usable driver such tensors are "unmonitored: driver X, needs 580", never copied to the host.
 *
 * ORDER OF CALLS
 *
 *   fs_options options;
 *   fs_options_init(&options);
 *   options.run = "gpt-small-7";
 *   options.address = "unix:/run/foreshock/agent.sock";  // or file:run.jsonl; NULL: FORESHOCK_ADDR says
 *   fs_run* fs;
 *   fs_open(&options, &fs);
 *
 *   for each layer l {                             // before the first step
 *     fs_weights wq, wk;
 *     fs_weights_init(&wq);
 *     wq.data = W_q[l];                            // torch's Linear: [heads * head_dim, model_dim]
 *     wq.dtype = FS_FP32;
 *     wq.row_stride = 1;
 *     wq.col_stride = model_dim;
 *     wq.head_stride = head_dim * model_dim;
 *     wq.weight_decay = 0.1;                       // decoupled (AdamW); 0 when there is none
 *     wk = wq;
 *     wk.data = W_k[l];
 *     fs_layer layer;
 *     fs_layer_init(&layer);
 *     layer.layer = l;
 *     layer.model_dim = model_dim;
 *     layer.query_heads = layer.kv_heads = heads;
 *     layer.head_dim = head_dim;
 *     layer.wq = &wq;
 *     layer.wk = &wk;
 *     fs_add_layer(fs, &layer);
 *   }
 *
 *   for each optimizer step t {
 *     fs_step_begin(fs, t);                        // the weights are W_t: spectra are read here
 *     for each micro-batch {
 *       for each layer l, forward {
 *         if (fs_guard_active(fs, l)) normalise q and k;   // only where the guard was enabled
 *         ... attention ...
 *         if (fs_wants_attention(fs, l)) {         // optional: saves filling the struct in other steps
 *           fs_attention a;
 *           fs_attention_init(&a);
 *           a.q = ...; a.k = ...; a.v = ...; a.o = ...;    // as the scores used them, after RoPE
 *           fs_attention_forward(fs, l, &a);
 *         }
 *       }
 *       fs_loss(fs, mean_loss, tokens);
 *       for each layer l, backward {
 *         if (fs_wants_attention_backward(fs, l)) {
 *           ... the same, and a.d_o = ...; a.dq = ...;
 *           fs_attention_backward(fs, l, &a);
 *         }
 *       }
 *     }
 *     fs_scalar(fs, FS_GRAD_NORM, norm);           // global, unscaled, before clipping
 *     fs_scalar(fs, FS_LEARNING_RATE, lr);
 *     the optimizer's step, or fs_step_skipped(fs) when loss scaling skips it
 *     fs_step_end(fs);                             // the weights are W_{t+1}: projections are read here
 *                                                  // (on a GPU perhaps as the next step begins)
 *     fs_action action;
 *     while (fs_action_poll(fs, &action) == FS_OK) {
 *       ... do it ...
 *       fs_action_report(fs, action.id, FS_ACTION_TAKEN, NULL);
 *     }
 *   }
 *   fs_close(fs, FS_FINISHED);
 *
 * Evaluation: call nothing, or pass grad_enabled = 0. Attention outside fs_step_begin .. fs_step_end is
 * ignored, and of a step's micro-batches only the first that is grad-enabled and not recomputed is sampled,
 * layer by layer.
 *
 * CUDA graphs: a call of fs_attention_forward or _backward on a stream that is being captured becomes part of
 * the graph and measures at its replays within sampled steps. fs_wants_attention knows no stream, so make
 * such a call whatever it says, after the first step has begun. Give fs_set_stream the stream on which graphs
 * are replayed. Rows visited are those of the capture; of one capture a layer's first call counts, and of
 * several replays in a step the last. A graph may outlive the handle: it then measures nothing, and what it
 * needs of Foreshock's memory (below a MiB a layer, as a rule) stays. Device time of replays is not known to
 * the budget.
 */
#ifndef FORESHOCK_FORESHOCK_H_
#define FORESHOCK_FORESHOCK_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FS_API __attribute__((visibility("default")))
#else
#define FS_API
#endif

#define FS_INLINE static inline

/* Any 32-bit value may stand in an enum that a caller fills, so that a wrong one can be refused. */
#ifdef __cplusplus
#define FS_ENUM_INT32 : int32_t
extern "C" {
#else
#define FS_ENUM_INT32
#endif

#define FS_VERSION "0.1.0"

typedef struct fs_run fs_run; /* made by fs_open, freed by fs_close */

typedef enum fs_status FS_ENUM_INT32 {
  FS_OK = 0,
  FS_NONE = 1,              /* nothing there (fs_action_poll) */
  FS_ERR_ARGUMENT = 2,      /* a value that is never right */
  FS_ERR_SHAPE = 3,         /* sizes that do not fit each other or the layer */
  FS_ERR_DTYPE = 4,         /* a dtype this tensor may not have */
  FS_ERR_UNKNOWN_LAYER = 5, /* no fs_add_layer for this index */
  FS_ERR_STATE = 6,         /* right call, wrong moment */
  FS_ERR_LIMIT = 7,         /* a limit is reached */
  FS_ERR_MEMORY = 8,        /* no memory: the handle stays as it was */
  FS_ERR_UNSUPPORTED = 9    /* cannot be done for this model; the message says why */
} fs_status;

/* "ok", "unknown layer", ...; never NULL. */
FS_API const char* fs_status_name(fs_status status);
/* What the last failing call on this handle complained about; "" when none failed. */
FS_API const char* fs_last_error(const fs_run* run);
FS_API const char* fs_version(void);

typedef enum fs_log_level FS_ENUM_INT32 {
  FS_LOG_INFO = 0,
  FS_LOG_WARNING = 1,
  FS_LOG_ERROR = 2
} fs_log_level;
/* Called from the background thread or from inside a call. Must not call back into this interface. */
typedef void (*fs_log_fn)(void* context, fs_log_level level, const char* message);

/* ---- opening and closing ---------------------------------------------------------------------- */

typedef struct fs_options {
  uint32_t size;
  /* NULL strings: from the environment where a name is given, else empty. Strings are copied. */
  const char* run;        /* 1 to 200 bytes of printable UTF-8; FORESHOCK_RUN, else "run" */
  const char* attempt;    /* FORESHOCK_ATTEMPT, else torchelastic, else Slurm, else minted */
  const char* address;    /* unix:PATH, file:PATH, grpc://host:port; FORESHOCK_ADDR; empty: not attached */
  const char* framework;  /* shown to users, e.g. "my trainer 3" */
  const char* model_name; /* shown to users */
  int32_t rank;           /* global rank; -1: RANK, SLURM_PROCID, else 0 */
  int32_t world_size;     /* -1: WORLD_SIZE, SLURM_NTASKS, else 1 */
  /* Ranks on this node; -1: LOCAL_WORLD_SIZE, SLURM_NTASKS_PER_NODE, else world_size. */
  int32_t local_world_size;
  /* Data-parallel copies of the same weights: copy r of n measures the weights of heads h, h % n == r. */
  int32_t replica;  /* 0 */
  int32_t replicas; /* 1 */

  /* Sampling. Raising an interval costs less and sees less. */
  uint32_t attention_every_steps;   /* 10; 0: never. Steps t with t % every == 0, and the first one */
  uint32_t spectra_every_steps;     /* 10; 0: never */
  uint32_t projections_every_steps; /* 1; 0: never. Single steps t -> t + 1 that count in update_* */
  uint32_t row_every;               /* 8: one attention row in 8, a different one each sample */
  uint32_t sequence_every;          /* 1: every sequence of the batch */
  /* 0.004: own time allowed as a share of step time; intervals stretch by powers of 2 to stay below it.
   * 1 or more: never stretch (small models on a CPU: 0.05 or 1). */
  double budget;
  uint64_t seed; /* 0: from the run's name, the same on all ranks */

  /* Actions the trainer is ready to take: "enable_qk_norm", "qk_clip", "checkpoint", "stop". Default none. */
  const char* const* allowed_actions;
  uint32_t allowed_action_count;

  uint32_t queue_frames;     /* 256: steps held between trainer and background thread */
  uint64_t queue_bytes;      /* 64 MiB: the same in bytes, whichever is less (at least 4 frames) */
  uint64_t window_bytes;     /* 64 MiB: records kept until the other side has acknowledged them */
  uint32_t flush_timeout_ms; /* 2000: how long fs_close waits for what is still to be sent */

  /* unix: only. Starts an agent when none listens: agent_path --listen unix:PATH, in its own session. */
  int32_t start_agent;                /* 0: off */
  const char* agent_path;             /* absolute */
  const char* const* agent_arguments; /* further arguments, e.g. "--server", "host:port" */
  uint32_t agent_argument_count;

  /* grpc:// only: path of libforeshock_grpc.so; NULL: FORESHOCK_GRPC_LIBRARY, else the loader finds it. */
  const char* grpc_library;
  const char* token; /* grpc:// only: bearer token; NULL: FORESHOCK_TOKEN */

  fs_log_fn log; /* NULL: warnings and errors go to stderr, one line each */
  void* log_context;

  /* "key=value" strings that describe the run, e.g. "team=vision"; shown by `foreshock show`. At most 64,
   * keys of 1 to 64 bytes, values of at most 512; a key that comes again replaces. */
  const char* const* labels;
  uint32_t label_count;

  /* Memory for copies of W_Q and W_K, taken at steps with spectra, from which update_norm, qk_update_entropy
   * and qk_update_participation follow. 0: off, they are not measured. Where not all layers fit they take
   * turns; one layer needs 4 bytes (fp64: 8) a weight. Each costs about as much as the spectra. Host memory
   * only. */
  uint64_t snapshot_bytes; /* 0 */
} fs_options;

FS_API void fs_options_init_size(fs_options* options, uint32_t size);
FS_INLINE void fs_options_init(fs_options* options) {
  fs_options_init_size(options, (uint32_t)sizeof *options);
}

/* Makes a handle. Opens nothing yet: the background thread, which does all I/O, starts at the first
 * fs_step_begin. options NULL: all defaults. On failure *run is NULL, which is safe to use, and the reason is
 * logged. */
FS_API fs_status fs_open(const fs_options* options, fs_run** run);
/* 1 when the handle has an address and this process is not a forked child. */
FS_API int fs_attached(const fs_run* run);

typedef enum fs_end FS_ENUM_INT32 { FS_FINISHED = 1, FS_FAILED = 2, FS_STOPPED = 3 } fs_end;
/* Says goodbye, waits up to flush_timeout_ms for what is unsent, frees the handle. NULL is fine. */
FS_API fs_status fs_close(fs_run* run, fs_end end);

/* ---- layers ----------------------------------------------------------------------------------- */

typedef enum fs_dtype FS_ENUM_INT32 { FS_BF16 = 1, FS_FP16 = 2, FS_FP32 = 3, FS_FP64 = 4 } fs_dtype;

/* One projection, W_Q or W_K, of the heads that this rank holds. Of local head h, W of shape [model_dim,
 * head_dim] with q = x W is W(i, j) = data[offset(h) + i * row_stride + j * col_stride], in elements, where
 * offset(h) is head_offsets[h], or h * head_stride when head_offsets is NULL. Give the optimizer's fp32
 * master weights where there are any: bf16 hides updates below 2^-9 of a weight, and is marked "low
 * resolution". */
typedef struct fs_weights {
  uint32_t size;
  fs_dtype dtype; /* FS_FP32 */
  const void* data;
  int64_t row_stride;
  int64_t col_stride;
  int64_t head_stride;
  const int64_t* head_offsets; /* copied */
  /* Lambda of decoupled decay, so that its pull is not taken for the gradient's; 0: none. */
  double weight_decay;
  int32_t device; /* -1; the CUDA device whose memory this is; -1: host memory, or found from the pointer */

  /* Sharded parameters (FSDP2): the optimizer changes this rank's part alone. 1: `data` is not read (NULL is fine);
   * the whole parameter is shown by fs_layer_unsharded. The part is the elements shard_begin <= e < shard_end of the
   * whole one, counted from `data` as row_stride, col_stride and head offsets are; it lies in shard_data, one after
   * the other, and must not cut a stored row. Of no rows: shard_begin = shard_end. Every rank gives all the heads
   * that the whole parameter holds here. */
  int32_t sharded; /* 0 */
  fs_dtype shard_dtype; /* FS_FP32 */
  const void* shard_data;
  int64_t shard_begin, shard_end;
  uint32_t shard, shards; /* which part of how many: the rank within its sharding group, and the group's size */
} fs_weights;
FS_API void fs_weights_init_size(fs_weights* weights, uint32_t size);
FS_INLINE void fs_weights_init(fs_weights* weights) {
  fs_weights_init_size(weights, (uint32_t)sizeof *weights);
}

typedef struct fs_layer {
  uint32_t size;
  uint32_t layer;   /* global index, unique */
  const char* name; /* NULL: "layer N" */
  uint32_t model_dim;
  uint32_t query_heads; /* of the whole layer */
  uint32_t kv_heads;    /* divides query_heads */
  uint32_t head_dim;
  /* Tensor parallelism: the heads this rank holds, as global indices. Counts of 0: all. */
  uint32_t first_query_head, local_query_heads;
  uint32_t first_kv_head, local_kv_heads;
  float scale;          /* 0: 1 / sqrt(head_dim) */
  float softcap;        /* 0: none */
  int32_t causal;       /* 1 */
  int64_t window_left;  /* -1: no limit */
  int64_t window_right; /* -1 */
  int32_t qk_norm;      /* the model normalises q and k itself: weight norms are then no cause */
  float dropout;        /* attention dropout; above 0 the rounding signals are not available */
  const fs_weights* wq; /* NULL: no weight signals for this layer */
  const fs_weights* wk; /* NULL: none for keys, and no qk_sigma1 */
} fs_layer;
FS_API void fs_layer_init_size(fs_layer* layer, uint32_t size);
FS_INLINE void fs_layer_init(fs_layer* layer) { fs_layer_init_size(layer, (uint32_t)sizeof *layer); }

/* Before the first fs_step_begin. */
FS_API fs_status fs_add_layer(fs_run* run, const fs_layer* layer);
/* The weights have moved to other memory (same shape and values). Between steps. */
FS_API fs_status fs_layer_set_weights(fs_run* run, uint32_t layer, const fs_weights* wq,
                                      const fs_weights* wk);
/* The stream (a cudaStream_t) of a CUDA device on which weights are read, from the next step on, and around
 * which captured graphs are replayed: the one on which the optimizer runs. NULL, as without this call: the
 * device's default stream. Between steps. */
FS_API fs_status fs_set_stream(fs_run* run, int32_t device, void* stream);
/* Sharded layers only. 1 when their whole parameters are wanted in this step: call fs_layer_unsharded while they are
 * there, in the forward pass (after the all-gather, before they are freed). */
FS_API int fs_wants_unsharded(const fs_run* run, uint32_t layer);
/* The whole parameters lie at wq and wk now, stored as fs_add_layer was told; read within the call alone. FS_OK
 * also when they are not wanted. */
FS_API fs_status fs_layer_unsharded(fs_run* run, uint32_t layer, const void* wq, const void* wk);
/* The weights were replaced (a checkpoint was loaded): directions and windows start anew. Between steps. */
FS_API fs_status fs_weights_replaced(fs_run* run);
/* Says that something is not measured, and why, e.g. ("layer 7", "linear attention"). At any time. */
FS_API fs_status fs_unmonitored(fs_run* run, const char* name, const char* reason);

/* ---- a step ----------------------------------------------------------------------------------- */

/* Step `step` (the trainer's own optimizer-step counter) begins; the weights are W_step. An open step is
 * ended first, as skipped. Steps may go back (a resumed run is a new attempt) and may have holes. */
FS_API fs_status fs_step_begin(fs_run* run, int64_t step);

/* [batch, seq, heads, dim] in any order of storage; strides in elements. */
typedef struct fs_tensor {
  const void* data;
  fs_dtype dtype; /* bf16, fp16 or fp32 */
  int64_t batch, seq, heads, dim;
  int64_t batch_stride, seq_stride, head_stride, dim_stride;
} fs_tensor;
/* Dense [batch, seq, heads, dim], dense [batch, heads, seq, dim]. */
FS_API fs_tensor fs_tensor_bshd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                                int64_t dim);
FS_API fs_tensor fs_tensor_bhsd(const void* data, fs_dtype dtype, int64_t batch, int64_t seq, int64_t heads,
                                int64_t dim);

/* Over [batch, query head, query, key]; broadcast with stride 0; data NULL: none. */
typedef struct fs_scores {
  const void* data;
  fs_dtype dtype; /* not used by keep_mask, whose entries are bytes */
  int64_t batch_stride, head_stride, query_stride, key_stride;
} fs_scores;

/* One attention call: q, k as the scores used them (after RoPE and any normalization), this rank's heads. */
typedef struct fs_attention {
  uint32_t size;
  int32_t grad_enabled; /* 1; 0 (evaluation) is never sampled */
  int32_t recompute;    /* 0; 1: forward runs again for activation checkpointing; never sampled */
  uint32_t micro_batch; /* 0; tells which forward a backward belongs to when they interleave (pipelines) */
  fs_tensor q, k;
  fs_tensor v, o;              /* data NULL: no rounding signals */
  fs_tensor d_o, dq;           /* backward only; dq at the attention's input, before RoPE's backward */
  const int32_t* cu_seqlens_q; /* packed sequences: n_sequences + 1 rising offsets; batch is 1 then */
  const int32_t* cu_seqlens_k; /* NULL: as cu_seqlens_q */
  int64_t n_sequences;
  int32_t top_left; /* 0: the last query meets the last key (flash attention); 1: the first the first */
  int64_t query_offset;
  fs_scores keep_mask;       /* bytes: 0 masks */
  fs_scores additive_mask;   /* <= -1e4 masks, else added */
  fs_scores bias;            /* added; only -inf masks */
  const float* alibi_slopes; /* per query head */
  const float* sinks;        /* learned sinks: n_sinks logits per query head */
  int32_t n_sinks;
  /* -1; the CUDA device of all memory above (cu_seqlens and masks too); -1: host memory, or found from q. */
  int32_t device;
  /* On a device: the cudaStream_t on which it is ready, and behind which it may change; NULL: the default
   * stream. Streams may differ from call to call. */
  void* stream;
  int32_t causal; /* -1: as its layer; 0 or 1: this call, where calls of a layer differ */
} fs_attention;
FS_API void fs_attention_init_size(fs_attention* attention, uint32_t size);
FS_INLINE void fs_attention_init(fs_attention* attention) {
  fs_attention_init_size(attention, (uint32_t)sizeof *attention);
}

/* 1 when a grad-enabled forward (backward) of this layer would be sampled now. Cheap. */
FS_API int fs_wants_attention(const fs_run* run, uint32_t layer);
FS_API int fs_wants_attention_backward(const fs_run* run, uint32_t layer);
/* FS_OK also when the step or this call is not sampled. */
FS_API fs_status fs_attention_forward(fs_run* run, uint32_t layer, const fs_attention* attention);
/* All of q, k, v, o again (recomputed ones will do), with d_o and dq. Adds delta_output_bias and delta_error.
 * From the second sample on, a layer that calls this has all its rounding signals measured here, once. */
FS_API fs_status fs_attention_backward(fs_run* run, uint32_t layer, const fs_attention* attention);

/* Mean loss of a micro-batch and its tokens, once a micro-batch: the step's loss is weighted by tokens. */
FS_API fs_status fs_loss(fs_run* run, double mean_loss, double tokens);

typedef enum fs_scalar_id FS_ENUM_INT32 {
  FS_GRAD_NORM = 2,
  FS_LEARNING_RATE = 3,
  FS_LOSS_SCALE = 4
} fs_scalar_id;
FS_API fs_status fs_scalar(fs_run* run, fs_scalar_id id, double value);

/* fs_loss and fs_scalar of a number in memory, e.g. the loss tensor on a CUDA device: copied on `stream`
 * (NULL: the default stream), so it must stay valid in that stream's order only; the step's frame goes out
 * when it is there. device -1: host memory, read now, or found from the pointer. In one step at most 64
 * numbers on devices, from at most 4 streams: FS_ERR_LIMIT beyond. A number that cannot be read is missing,
 * FS_OK all the same. A learning rate on a device comes too late for its own step's projections: the decay in
 * them is corrected with the last one that arrived. */
FS_API fs_status fs_loss_at(fs_run* run, const void* mean_loss, fs_dtype dtype, int32_t device, void* stream,
                            double tokens);
FS_API fs_status fs_scalar_at(fs_run* run, fs_scalar_id id, const void* value, fs_dtype dtype, int32_t device,
                              void* stream);

/* The optimizer does not run in this step. */
FS_API fs_status fs_step_skipped(fs_run* run);
/* The optimizer has run; the weights are W_{step+1}. Hands the frame to the background thread. */
FS_API fs_status fs_step_end(fs_run* run);

/* ---- events ----------------------------------------------------------------------------------- */

typedef enum fs_event_kind FS_ENUM_INT32 {
  FS_EVENT_CHECKPOINT = 1, /* detail: path */
  FS_EVENT_RESUME = 2,     /* step: where training goes on */
  FS_EVENT_PHASE = 3,      /* detail: name, e.g. "context 8192" */
  FS_EVENT_EVAL = 4,
  FS_EVENT_NOTE = 6
} fs_event_kind;
/* detail may be NULL; what passes 1000 bytes is cut. */
FS_API fs_status fs_event(fs_run* run, fs_event_kind kind, int64_t step, const char* detail);

/* ---- actions ---------------------------------------------------------------------------------- */

#define FS_MAX_ACTION_LAYERS 256

typedef struct fs_action {
  char id[80];
  char kind[32];   /* on the allow-list */
  char issuer[80]; /* a person, or rule:NAME */
  char reason[256];
  int64_t effective_step; /* not before this step; 0: at once */
  int64_t expiry_step;    /* void from this step on; 0: never */
  double value;           /* qk_clip: the logit to clip to */
  uint32_t layer_count;   /* 0: all layers */
  uint32_t layers[FS_MAX_ACTION_LAYERS];
} fs_action;

/* FS_OK: *action is one whose moment has come. FS_NONE: there is none. Actions that are not on the
 * allow-list, belong to another attempt or have expired are answered for the trainer and never seen here. */
FS_API fs_status fs_action_poll(fs_run* run, fs_action* action);

typedef enum fs_action_state FS_ENUM_INT32 { FS_ACTION_TAKEN = 3, FS_ACTION_REFUSED = 4 } fs_action_state;
/* What became of it. After FS_ACTION_TAKEN of enable_qk_norm or qk_clip the logits are watched for 3 samples
 * and "effective" or "no effect" is reported by itself. With the guard enabled, enable_qk_norm taken also
 * switches the guard on for the action's layers from the next step on. detail may be NULL. */
FS_API fs_status fs_action_report(fs_run* run, const char* id, fs_action_state state, const char* detail);

/* ---- guard ------------------------------------------------------------------------------------ */

typedef struct fs_guard_options {
  uint32_t size;
  int32_t automatic; /* 1: switches on by itself; 0: only by action or fs_guard_activate */
} fs_guard_options;
FS_API void fs_guard_options_init_size(fs_guard_options* options, uint32_t size);
FS_INLINE void fs_guard_options_init(fs_guard_options* options) {
  fs_guard_options_init_size(options, (uint32_t)sizeof *options);
}

/* After the layers, before the first step. FS_ERR_UNSUPPORTED for a model with scale * head_dim < 4 in some
 * layer: its logits would be bounded too tightly to train. One process only: FS_ERR_UNSUPPORTED with
 * automatic = 1 and world_size > 1, where ranks could switch at different steps. */
FS_API fs_status fs_guard_enable(fs_run* run, const fs_guard_options* options);
/* 1: normalise q and k of this layer. Constant within a step. */
FS_API int fs_guard_active(const fs_run* run, uint32_t layer);

#define FS_ALL_LAYERS 0xffffffffu
/* From the next step on. */
FS_API fs_status fs_guard_activate(fs_run* run, uint32_t layer);

/* State to keep beside the model's: save after fs_step_end, restore before the first step. *bytes: in the
 * room at `state`, out what is needed or was written. FS_ERR_LIMIT: the room is too small (state NULL asks
 * for the size). */
FS_API fs_status fs_guard_save(const fs_run* run, void* state, size_t* bytes);
FS_API fs_status fs_guard_restore(fs_run* run, const void* state, size_t bytes);

/* Parameter-free QK normalization, y = x / sqrt(mean(x^2) + 1e-6) per token and head, and its gradient:
 * dx from x and dy. y, dx may be x, dy. Shapes must agree; y and dx are written. No handle needed. */
FS_API fs_status fs_qk_norm_forward(const fs_tensor* x, const fs_tensor* y);
FS_API fs_status fs_qk_norm_backward(const fs_tensor* x, const fs_tensor* dy, const fs_tensor* dx);

/* Factors for q and k of this rank's query heads that bring the last measured logit_max down to `limit`:
 * sqrt(min(1, limit / logit_max)), 1 where nothing was measured. `count` is local_query_heads. */
FS_API fs_status fs_qk_clip_factors(const fs_run* run, uint32_t layer, double limit, float* factors,
                                    uint32_t count);

typedef enum fs_projection FS_ENUM_INT32 { FS_WQ = 0, FS_WK = 1 } fs_projection;
/* Takes an update of one local head off its three leading directions, in place:
 * dW -= sum_i u_i (u_i^T dW v_i) v_i^T. dW(i, j) = delta[i * row_stride + j * col_stride], fp32, [model_dim,
 * head_dim]. FS_ERR_STATE while no spectrum has been taken. */
FS_API fs_status fs_project_out(const fs_run* run, uint32_t layer, fs_projection which, uint32_t local_head,
                                float* delta, int64_t row_stride, int64_t col_stride);

/* ---- counters --------------------------------------------------------------------------------- */

typedef struct fs_stats {
  uint32_t size;
  uint32_t connected;      /* 1: records reach the other side (or the file) now */
  uint64_t steps;          /* fs_step_end calls */
  uint64_t sampled_steps;  /* with per-head signals */
  uint64_t queued;         /* records handed to the background thread */
  uint64_t queue_dropped;  /* of them overwritten because it fell behind */
  uint64_t window_dropped; /* records given up because the window was full, without those that arrived all the same */
  uint64_t sent;           /* records written, repetitions not counted */
  uint64_t acknowledged;   /* highest durable sequence number (file: written) */
  uint64_t bytes_sent;
  uint64_t connects; /* times a link was established */
  uint64_t errors;   /* calls that returned an error */
  uint64_t actions_received, actions_refused;
  uint64_t own_nanos;         /* time spent inside the step's calls */
  uint32_t sampling_interval; /* steps, as the governor has it now */
  uint32_t guard_layers;      /* layers with the guard on */
  char not_recording[256];    /* why nothing is recorded; "" when all is well */
} fs_stats;
FS_API void fs_stats_init_size(fs_stats* stats, uint32_t size);
FS_INLINE void fs_stats_init(fs_stats* stats) { fs_stats_init_size(stats, (uint32_t)sizeof *stats); }
FS_API fs_status fs_get_stats(const fs_run* run, fs_stats* stats);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FORESHOCK_FORESHOCK_H_ */
