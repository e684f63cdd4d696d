"""The C interface (foreshock.h) in ctypes, field by field. Nothing here knows of torch.

Every struct that begins with `size` is set up by its fs_..._init_size function, so a newer library with longer structs goes
on working: it reads only the bytes that `size` names.
"""

import ctypes as C

OK, NONE = 0, 1
ERR_UNSUPPORTED = 9
BF16, FP16, FP32, FP64 = 1, 2, 3, 4
FINISHED, FAILED, STOPPED = 1, 2, 3
GRAD_NORM, LEARNING_RATE, LOSS_SCALE = 2, 3, 4
EVENT_CHECKPOINT, EVENT_RESUME, EVENT_PHASE, EVENT_EVAL, EVENT_NOTE = 1, 2, 3, 4, 6
ACTION_TAKEN, ACTION_REFUSED = 3, 4
ALL_LAYERS = 0xFFFFFFFF

LogFn = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_char_p)


class Options(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("run", C.c_char_p),
        ("attempt", C.c_char_p),
        ("address", C.c_char_p),
        ("framework", C.c_char_p),
        ("model_name", C.c_char_p),
        ("rank", C.c_int32),
        ("world_size", C.c_int32),
        ("local_world_size", C.c_int32),
        ("replica", C.c_int32),
        ("replicas", C.c_int32),
        ("attention_every_steps", C.c_uint32),
        ("spectra_every_steps", C.c_uint32),
        ("projections_every_steps", C.c_uint32),
        ("row_every", C.c_uint32),
        ("sequence_every", C.c_uint32),
        ("budget", C.c_double),
        ("seed", C.c_uint64),
        ("allowed_actions", C.POINTER(C.c_char_p)),
        ("allowed_action_count", C.c_uint32),
        ("queue_frames", C.c_uint32),
        ("queue_bytes", C.c_uint64),
        ("window_bytes", C.c_uint64),
        ("flush_timeout_ms", C.c_uint32),
        ("start_agent", C.c_int32),
        ("agent_path", C.c_char_p),
        ("agent_arguments", C.POINTER(C.c_char_p)),
        ("agent_argument_count", C.c_uint32),
        ("grpc_library", C.c_char_p),
        ("token", C.c_char_p),
        ("log", LogFn),
        ("log_context", C.c_void_p),
        ("labels", C.POINTER(C.c_char_p)),
        ("label_count", C.c_uint32),
        ("snapshot_bytes", C.c_uint64),
    ]


class Weights(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("dtype", C.c_int),
        ("data", C.c_void_p),
        ("row_stride", C.c_int64),
        ("col_stride", C.c_int64),
        ("head_stride", C.c_int64),
        ("head_offsets", C.POINTER(C.c_int64)),
        ("weight_decay", C.c_double),
        ("device", C.c_int32),
        ("sharded", C.c_int32),
        ("shard_dtype", C.c_int),
        ("shard_data", C.c_void_p),
        ("shard_begin", C.c_int64),
        ("shard_end", C.c_int64),
        ("shard", C.c_uint32),
        ("shards", C.c_uint32),
    ]


class Layer(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("layer", C.c_uint32),
        ("name", C.c_char_p),
        ("model_dim", C.c_uint32),
        ("query_heads", C.c_uint32),
        ("kv_heads", C.c_uint32),
        ("head_dim", C.c_uint32),
        ("first_query_head", C.c_uint32),
        ("local_query_heads", C.c_uint32),
        ("first_kv_head", C.c_uint32),
        ("local_kv_heads", C.c_uint32),
        ("scale", C.c_float),
        ("softcap", C.c_float),
        ("causal", C.c_int32),
        ("window_left", C.c_int64),
        ("window_right", C.c_int64),
        ("qk_norm", C.c_int32),
        ("dropout", C.c_float),
        ("wq", C.POINTER(Weights)),
        ("wk", C.POINTER(Weights)),
    ]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("dtype", C.c_int),
        ("batch", C.c_int64),
        ("seq", C.c_int64),
        ("heads", C.c_int64),
        ("dim", C.c_int64),
        ("batch_stride", C.c_int64),
        ("seq_stride", C.c_int64),
        ("head_stride", C.c_int64),
        ("dim_stride", C.c_int64),
    ]


class Scores(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("dtype", C.c_int),
        ("batch_stride", C.c_int64),
        ("head_stride", C.c_int64),
        ("query_stride", C.c_int64),
        ("key_stride", C.c_int64),
    ]


class Attention(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("grad_enabled", C.c_int32),
        ("recompute", C.c_int32),
        ("micro_batch", C.c_uint32),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("o", Tensor),
        ("d_o", Tensor),
        ("dq", Tensor),
        ("cu_seqlens_q", C.c_void_p),
        ("cu_seqlens_k", C.c_void_p),
        ("n_sequences", C.c_int64),
        ("top_left", C.c_int32),
        ("query_offset", C.c_int64),
        ("keep_mask", Scores),
        ("additive_mask", Scores),
        ("bias", Scores),
        ("alibi_slopes", C.c_void_p),
        ("sinks", C.c_void_p),
        ("n_sinks", C.c_int32),
        ("device", C.c_int32),
        ("stream", C.c_void_p),
        ("causal", C.c_int32),
    ]


class Action(C.Structure):
    _fields_ = [
        ("id", C.c_char * 80),
        ("kind", C.c_char * 32),
        ("issuer", C.c_char * 80),
        ("reason", C.c_char * 256),
        ("effective_step", C.c_int64),
        ("expiry_step", C.c_int64),
        ("value", C.c_double),
        ("layer_count", C.c_uint32),
        ("layers", C.c_uint32 * 256),
    ]


class GuardOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("automatic", C.c_int32)]


class Stats(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("connected", C.c_uint32),
        ("steps", C.c_uint64),
        ("sampled_steps", C.c_uint64),
        ("queued", C.c_uint64),
        ("queue_dropped", C.c_uint64),
        ("window_dropped", C.c_uint64),
        ("sent", C.c_uint64),
        ("acknowledged", C.c_uint64),
        ("bytes_sent", C.c_uint64),
        ("connects", C.c_uint64),
        ("errors", C.c_uint64),
        ("actions_received", C.c_uint64),
        ("actions_refused", C.c_uint64),
        ("own_nanos", C.c_uint64),
        ("sampling_interval", C.c_uint32),
        ("guard_layers", C.c_uint32),
        ("not_recording", C.c_char * 256),
    ]


_RUN = C.c_void_p

SIGNATURES = {
    "fs_status_name": (C.c_char_p, [C.c_int]),
    "fs_last_error": (C.c_char_p, [_RUN]),
    "fs_version": (C.c_char_p, []),
    "fs_options_init_size": (None, [C.POINTER(Options), C.c_uint32]),
    "fs_open": (C.c_int, [C.POINTER(Options), C.POINTER(_RUN)]),
    "fs_attached": (C.c_int, [_RUN]),
    "fs_close": (C.c_int, [_RUN, C.c_int]),
    "fs_weights_init_size": (None, [C.POINTER(Weights), C.c_uint32]),
    "fs_layer_init_size": (None, [C.POINTER(Layer), C.c_uint32]),
    "fs_add_layer": (C.c_int, [_RUN, C.POINTER(Layer)]),
    "fs_layer_set_weights": (C.c_int, [_RUN, C.c_uint32, C.POINTER(Weights), C.POINTER(Weights)]),
    "fs_set_stream": (C.c_int, [_RUN, C.c_int32, C.c_void_p]),
    "fs_weights_replaced": (C.c_int, [_RUN]),
    "fs_unmonitored": (C.c_int, [_RUN, C.c_char_p, C.c_char_p]),
    "fs_step_begin": (C.c_int, [_RUN, C.c_int64]),
    "fs_attention_init_size": (None, [C.POINTER(Attention), C.c_uint32]),
    "fs_wants_attention": (C.c_int, [_RUN, C.c_uint32]),
    "fs_wants_attention_backward": (C.c_int, [_RUN, C.c_uint32]),
    "fs_attention_forward": (C.c_int, [_RUN, C.c_uint32, C.POINTER(Attention)]),
    "fs_attention_backward": (C.c_int, [_RUN, C.c_uint32, C.POINTER(Attention)]),
    "fs_loss": (C.c_int, [_RUN, C.c_double, C.c_double]),
    "fs_scalar": (C.c_int, [_RUN, C.c_int, C.c_double]),
    "fs_loss_at": (C.c_int, [_RUN, C.c_void_p, C.c_int, C.c_int32, C.c_void_p, C.c_double]),
    "fs_scalar_at": (C.c_int, [_RUN, C.c_int, C.c_void_p, C.c_int, C.c_int32, C.c_void_p]),
    "fs_step_skipped": (C.c_int, [_RUN]),
    "fs_step_end": (C.c_int, [_RUN]),
    "fs_event": (C.c_int, [_RUN, C.c_int, C.c_int64, C.c_char_p]),
    "fs_action_poll": (C.c_int, [_RUN, C.POINTER(Action)]),
    "fs_action_report": (C.c_int, [_RUN, C.c_char_p, C.c_int, C.c_char_p]),
    "fs_guard_options_init_size": (None, [C.POINTER(GuardOptions), C.c_uint32]),
    "fs_guard_enable": (C.c_int, [_RUN, C.POINTER(GuardOptions)]),
    "fs_guard_active": (C.c_int, [_RUN, C.c_uint32]),
    "fs_guard_activate": (C.c_int, [_RUN, C.c_uint32]),
    "fs_guard_save": (C.c_int, [_RUN, C.c_void_p, C.POINTER(C.c_size_t)]),
    "fs_guard_restore": (C.c_int, [_RUN, C.c_void_p, C.c_size_t]),
    "fs_qk_clip_factors": (C.c_int, [_RUN, C.c_uint32, C.c_double, C.POINTER(C.c_float), C.c_uint32]),
    "fs_stats_init_size": (None, [C.POINTER(Stats), C.c_uint32]),
    "fs_get_stats": (C.c_int, [_RUN, C.POINTER(Stats)]),
}


def declare(library):
    """Sets argument and result types of every function; AttributeError when the library lacks one."""
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
