"""One watched layer at run time: fills the C structs in from torch tensors and gives them to the library."""

import ctypes as C

import torch

from . import _abi, _device
from ._device import DTYPES


def put_tensor(out, t, heads_first):
    """Fills an fs_tensor from a [batch, heads, seq, dim] tensor (or [batch, seq, heads, dim])."""
    s, h = (2, 1) if heads_first else (1, 2)
    out.data, out.dtype = t.data_ptr(), DTYPES[t.dtype]
    out.batch, out.seq, out.heads, out.dim = t.shape[0], t.shape[s], t.shape[h], t.shape[3]
    out.batch_stride, out.seq_stride, out.head_stride, out.dim_stride = t.stride(0), t.stride(s), t.stride(h), t.stride(3)


def put_scores(out, mask, shape):
    """Fills an fs_scores from a mask that broadcasts to `shape` = (batch, heads, queries, keys)."""
    full = mask.expand(shape)
    out.data = mask.data_ptr()
    if mask.dtype is not torch.bool:
        out.dtype = DTYPES[mask.dtype]
    out.batch_stride, out.head_stride, out.query_stride, out.key_stride = full.stride()


def fit(t):
    """As the library takes it: fp64 is measured as fp32."""
    return t.float() if t.dtype is torch.float64 else t


class Gate:
    """`open`: calls of this monitor's taps have something to do. Shared by its taps; closed in most steps."""

    __slots__ = ("open",)

    def __init__(self):
        self.open = True


class Tap:
    """The measuring end of a layer's tap. Called from forward and backward of the trainer; never raises into them."""

    def __init__(self, monitor, layer):
        self.monitor, self.layer, self.index, self.gate = monitor, layer, layer.index, monitor.gate
        self.observed = False
        self.seen = False  # an attention call of this layer went through backward
        self.here, self.missed = False, 0  # the same in this sampled step; sampled steps since the last one
        self.off = ""  # why attention is not measured (any more)
        self.call_says_causal = False  # nobody said it by hand
        self.counts_tokens = False
        self._attention = _abi.Attention()

    @property
    def counts_in_backward(self):
        """In compiled code nobody counts tokens in forward, and where no forward of the model is seen nobody knows which are its own."""
        return self.counts_tokens and (self.monitor.count_next or not self.monitor.forward_seen)

    # ---- forward

    def observe(self, scale, causal, dropout, softcap):
        """How attention is called, from its first call. Where it was said by hand, that stays. softcap: 0 none, None the call does not say."""
        if self.observed:
            return
        self.observed = True
        layer = self.layer
        if layer.scale is None:
            layer.scale = scale
        if layer.causal is None:
            layer.causal, self.call_says_causal = bool(causal), True
        if softcap is not None and not layer.softcap_said:  # a module may have a cap that its call does not apply
            layer.softcap = float(softcap)
        layer.dropout = float(dropout)
        if dropout > 0:  # the library tells the server the same of its own accord
            self.monitor.unwatched.setdefault(f"{layer.name} (rounding)", f"attention dropout {dropout:g}: O and dO are of other weights")

    def called(self, scale, causal, dropout, softcap, q):
        """Outside of compiled code, each time attention is called, with or without grad."""
        if not self.observed:
            self.observe(scale, causal, dropout, softcap)
        if self.counts_tokens and self.monitor.count_next:
            self.monitor.count(q)

    def forward(self):
        """Outside of compiled code: shall this call be tapped?"""
        monitor = self.monitor
        if self.off or monitor.closed:
            return False
        if monitor.begins_in_backward:
            return True
        monitor.begin()
        return monitor.awake and monitor.wants(self.index)

    # ---- backward

    def backward(self, dq, d_o, q, k, v, o, mask, heads_first, causal):
        monitor = self.monitor
        if monitor.closed or self.off:
            return
        self.seen = self.here = True
        try:
            with monitor.lock:  # backward runs on one thread a device
                if dq.is_cuda and _device.capturing():  # recorded once: a flag on the device wakes what is recorded
                    monitor.captured = True
                    return self._measure(dq, d_o, q, k, v, o, mask, heads_first, causal)
                if self.counts_in_backward:
                    monitor.count(q, compiled=True)
                elif self.counts_tokens:
                    monitor.recount(q)
                monitor.begin()
                if monitor.awake and monitor.wants(self.index):
                    self._measure(dq, d_o, q, k, v, o, mask, heads_first, causal)
        except Exception as error:  # noqa: BLE001: training goes on whatever happens here
            self.give_up(f"{type(error).__name__}: {error}")

    def give_up(self, reason):
        self.off = reason
        self.monitor.unmonitored(f"{self.layer.name} (attention)", reason)

    def _kv(self, t):
        """Keys or values of this rank's KV heads: repeat_kv's copies are skipped, nothing is copied."""
        here = self.layer.kv_heads_here()
        if t.shape[1] != here and t.shape[1] % here == 0:
            t = t[:, :: t.shape[1] // here]
        return t

    def _measure(self, dq, d_o, q, k, v, o, mask, heads_first, causal):
        if reason := _device.why_not(q.device):
            return self.give_up(reason)
        dq, d_o, q, k, v, o = map(fit, (dq, d_o, q, k, v, o))
        k, v = self._kv(k), self._kv(v)
        a, lib, handle = self._attention, self.monitor.library, self.monitor.handle
        lib.fs_attention_init_size(C.byref(a), C.sizeof(a))
        a.top_left = 1
        a.causal = int(causal) if self.call_says_causal else -1
        if q.is_cuda:
            a.device = q.get_device()
            a.stream = _device.stream_of(a.device) or None
        for name, t, first in (("q", q, True), ("k", k, True), ("v", v, True), ("o", o, heads_first),
                               ("d_o", d_o, heads_first), ("dq", dq, True)):
            put_tensor(getattr(a, name), t, first)
        if mask is not None:
            mask = fit(mask)
            shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
            put_scores(a.keep_mask if mask.dtype is torch.bool else a.additive_mask, mask, shape)
        for call in (lib.fs_attention_forward, lib.fs_attention_backward):
            if call(handle, self.index, C.byref(a)) != _abi.OK:
                return self.give_up(lib.fs_last_error(handle).decode(errors="replace"))
        return None
