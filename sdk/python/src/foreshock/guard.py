"""foreshock.guard: what may be done when a run begins to run away. Off until asked for.

    guard = foreshock.guard(model, mode="qk_norm")      # right after foreshock.watch()

Modes: "qk_norm" (QK-Guard), "qk_clip", "projection", "dynamic_max", "actions". Each says in the run's events what it did and what came
of it (dynamic_max in code that is not compiled). Save `guard.state_dict()` with every checkpoint.
"""

import ctypes as C
import math
import sys

import torch

from . import _abi
from ._projection import UpdateProjection

MODES = ("qk_norm", "qk_clip", "projection", "dynamic_max", "actions")
ACTIONS = ("enable_qk_norm", "qk_clip", "checkpoint", "stop")


def _several_ranks():
    from .watch import ranks_of_process

    return ranks_of_process().get("world_size", 1) > 1


def _say(text):
    print(f"foreshock: {text}", file=sys.stderr)


class Guard:
    """Made by foreshock.guard(). Lives as long as its monitor."""

    def __init__(self, monitor, mode, automatic, limit, beta, allow, on_checkpoint, retrace):
        self.monitor, self.mode, self.automatic, self.limit, self.beta = monitor, mode, automatic, limit, beta
        self.on_checkpoint = on_checkpoint
        self.refused = ""  # why it cannot be switched on
        self.clips = 0  # heads clipped so far
        self.removed = {}  # projection: {layer: norm taken off the last update with new directions}
        self._said = {}  # {layer: what was last noted of its effect}
        self._active, self._restore, self._projection, self._watched = {}, None, None, []
        if monitor.closed:
            self.refused = "nothing is watched: give foreshock.watch() an address (file:PATH will do)"
            _say(f"the guard is off: {self.refused}")
            return
        if mode == "projection":
            self._projection = UpdateProjection(monitor.layers)
        if self.mode not in ("qk_norm", "actions") and _several_ranks():
            allow = [a for a in allow if a != "enable_qk_norm"]  # refused when it is proposed, not when the others switch
        monitor.reopen(allowed_actions=list(allow))
        monitor.guard = self
        for kind, handler in (("enable_qk_norm", self._norm_action), ("qk_clip", self._clip_action),
                              ("checkpoint", self._checkpoint_action), ("stop", self._stop_action)):
            if kind in allow:
                monitor.handle_action(kind, handler)
        if not retrace and mode in ("qk_norm", "actions"):
            for layer in monitor.layers:
                weight = layer.wq.parameter() if layer.wq is not None else None
                device = "cpu" if weight is None else weight.device
                enter = monitor.taps[layer.index].enter
                enter.switch = torch.zeros((), dtype=torch.bool, device=device)
                enter.act()
        if mode == "dynamic_max":
            for tap in monitor.taps.values():
                tap.enter.dynamic_max, tap.enter.tally = beta, []
                tap.enter.act()

    # ---- called by the monitor

    def enable(self):
        """After the layers, before the first step."""
        if self.mode not in ("qk_norm", "actions"):
            return
        m, options = self.monitor, _abi.GuardOptions()
        m.library.fs_guard_options_init_size(C.byref(options), C.sizeof(options))
        options.automatic = int(self.automatic and self.mode == "qk_norm")
        if m.library.fs_guard_enable(m.handle, C.byref(options)) != _abi.OK:
            self.refused = m.last_error()
            _say(f"the guard is off: {self.refused}")
            return
        if self._restore is not None:
            if m.library.fs_guard_restore(m.handle, self._restore, len(self._restore)) != _abi.OK:
                _say(f"the guard's state was not restored: {m.last_error()}")
        elif at := self._resumed():
            text = "resumed without the guard's state: layers that it had switched on are off now"
            _say(text)
            m.event(_abi.EVENT_NOTE, None, text)
            m.event(_abi.EVENT_RESUME, at)  # the library adds that the guard is missing: an alert of its own

    def _resumed(self):
        """The step that training goes on from; 0: it begins."""
        from . import _hooks

        return int(self.monitor.next_step or _hooks.steps_taken(self.monitor.optimizers))

    def refresh(self):
        """A step has begun."""
        m = self.monitor
        self._active = {i: m.library.fs_guard_active(m.handle, i) == 1 for i in m.taps} if not self.refused else {}

    def apply(self):
        """Between steps, or before a step's forward: never between a forward and its backward."""
        for index, on in self._active.items():
            self.monitor.taps[index].enter.set_normalise(on)

    def before_optimizer(self):
        if self._projection is not None:
            self._projection.before()

    def after_optimizer(self):
        if self._projection is not None:
            if self._projection.left_out:
                self.monitor.unmonitored("projection", "the optimizer's step is recorded in a CUDA graph: its updates stay whole")
            if self.monitor.skipped:
                self._projection.forget()
            else:
                self._projection.after()

    def step_ended(self):
        self.apply()
        if self._projection is not None:
            self._note_projections()
        if self._watched:
            self._check_effects()
        if self.mode == "dynamic_max" and self.monitor.awake:
            self._note_shifts()
        if self.mode == "qk_clip" and self.monitor.awake:
            for layer in self.monitor.layers:
                self._clip(layer, self.limit)

    # ---- projection

    def _note_projections(self):
        """At a layer's first measurement, and whenever the share has doubled or halved since it was said."""
        for index, (removed, whole, left) in self._projection.effects().items():
            self.removed[index] = removed
            share = removed / whole if whole > 0 else 0.0
            if share > 0 and not 0.5 < share / self._said.get(index, math.inf) < 2:
                self._said[index] = share
                word = "effective" if left < 0.1 * removed else "no effect"
                self.monitor.note(f"projection layer {index}: {100 * share:.3g} % of the update's norm taken off, {left:.3g} of "
                                  f"{removed:.3g} left along these directions, {word}")

    # ---- the dynamic maximum

    def _note_shifts(self):
        """What the forwards since the last sample counted, where reading it makes nobody wait; as rarely as _note_projections."""
        for index, tap in self.monitor.taps.items():
            tally, tap.enter.tally = tap.enter.tally or [], []
            if not tally or tally[0][0].device.type != "cpu":
                continue
            shifted, left = (int(sum(x)) for x in zip(*tally))
            if (shifted, left) == (0, 0) or 0.5 < (shifted + 1) / self._said.get(index, math.inf) < 2:
                continue
            self._said[index] = shifted + 1
            word = "no effect" if shifted == 0 else "effective" if left == 0 else "effective in part"
            self.monitor.note(f"dynamic_max layer {index}: {shifted} tied rows shifted, {left} left alone, {word}")

    # ---- QK-clip

    def logit_max(self, layer):
        """Largest logit of each of this rank's query heads in the last sample; None where none above 1e-6 was measured."""
        tiny, count = 1e-6, layer.query_heads_here()
        factors = self._factors(layer, tiny, count)
        return [tiny / f**2 if f < 1 else None for f in factors]

    def _factors(self, layer, limit, count):
        factors, m = (C.c_float * count)(), self.monitor
        if m.library.fs_qk_clip_factors(m.handle, layer.index, limit, factors, count) != _abi.OK:
            return [1.0] * count
        return list(factors)

    def _clip(self, layer, limit):
        """Scales W_Q and W_K (and biases) of heads whose logits passed `limit`. Returns the heads."""
        if layer.qk_norm or layer.wq is None:
            return []
        factors = self._factors(layer, limit, layer.query_heads_here())
        heads = [h for h, f in enumerate(factors) if f < 1]
        if not heads:
            return []
        shared = layer.kv_heads != layer.query_heads or layer.wk is None
        before = self.logit_max(layer)
        with torch.no_grad():
            for h in heads:  # a shared key head serves other queries as well: its whole factor goes into W_Q
                self._scale(layer.wq, h, layer.head_dim, factors[h] ** 2 if shared else factors[h])
                if not shared:
                    self._scale(layer.wk, h, layer.head_dim, factors[h])
        self.clips += len(heads)
        self.monitor.weights_replaced()
        self._watched.append((layer, {h: before[h] for h in heads}))
        return heads

    @staticmethod
    def _scale(projection, head, head_dim, factor):
        weight, first = projection.parameter(), projection.starts[head]
        part = slice(first, first + head_dim)
        (weight[:, part] if projection.transposed else weight[part]).mul_(factor)
        bias = getattr(projection.owner(), "in_proj_bias" if projection.name == "in_proj_weight" else "bias", None)
        if isinstance(bias, torch.Tensor) and projection.name in ("weight", "in_proj_weight"):
            bias[part].mul_(factor)

    def _check_effects(self):
        """After the next sample: did the clipped heads' logits fall?"""
        if not self.monitor.awake:
            return
        for layer, before in self._watched:
            now = self.logit_max(layer)
            for head, then in before.items():
                after = now[head]
                if then is None or after is None:
                    continue
                word = "effective" if after < 0.9 * then else "no effect"
                self.monitor.note(f"qk_clip layer {layer.index} head {head}: logits {then:.4g} to {after:.4g}, {word}")
        self._watched = []

    # ---- actions from the server

    def _layers(self, indices):
        return [x for x in self.monitor.layers if not indices or x.index in indices]

    def _norm_action(self, action, layers):
        if self.refused or self.mode not in ("qk_norm", "actions"):
            raise RuntimeError(self.refused or f"the guard's mode is {self.mode}")
        return None  # the library switches the layers on from the next step

    def _clip_action(self, action, layers):
        if _several_ranks():
            raise RuntimeError("qk_clip needs one process: ranks measure different logits and would clip differently")
        clipped = sum(len(self._clip(x, action.value)) for x in self._layers(layers))
        return f"{clipped} heads clipped to {action.value:g}"

    def _checkpoint_action(self, action, layers):
        if self.on_checkpoint is None:
            raise RuntimeError("no on_checkpoint was given to foreshock.guard()")
        path = self.on_checkpoint()
        if path:
            self.monitor.checkpoint(path)
        return str(path) if path else "checkpoint written"

    def _stop_action(self, action, layers):
        self.monitor.should_stop = True
        return "the trainer was asked to stop"

    # ---- state

    def activate(self, layer=None):
        """Switches QK normalization on by hand from the next step on; layer None: everywhere."""
        m = self.monitor
        status = m.library.fs_guard_activate(m.handle, _abi.ALL_LAYERS if layer is None else layer)
        if status != _abi.OK:
            raise RuntimeError(m.last_error())

    def active_layers(self):
        """Indices of layers whose q and k are normalised now."""
        return [i for i, tap in self.monitor.taps.items() if tap.enter.normalise]

    def triggered_layers(self):
        """Indices of layers that the guard has switched on as of this step, for trainers that act on it themselves."""
        return [i for i, on in self._active.items() if on]

    def state_dict(self):
        """To be saved beside the model's."""
        m, size = self.monitor, C.c_size_t(0)
        if m.handle is None or not m.frozen:
            return {"version": 1, "state": self._restore or b""}
        m.library.fs_guard_save(m.handle, None, C.byref(size))
        room = C.create_string_buffer(max(size.value, 1))
        if m.library.fs_guard_save(m.handle, room, C.byref(size)) != _abi.OK:
            return {"version": 1, "state": b""}
        return {"version": 1, "state": room.raw[: size.value]}

    def load_state_dict(self, state):
        """Before the first step."""
        if self.monitor.frozen:
            raise RuntimeError("the first step has begun: load the guard's state before it")
        self._restore = bytes(state["state"]) or None


def guard(watched, mode="qk_norm", *, automatic=True, limit=100.0, beta=2.0, allow=ACTIONS, on_checkpoint=None, retrace=True):
    """Arms a guard for a watched model (or its Monitor). Call right after foreshock.watch(). Returns a Guard.

    mode:
      "qk_norm"      QK-Guard: parameter-free QK normalization, by itself where logits begin to run away (automatic; one process),
                     or by the action enable_qk_norm
      "qk_clip"      after a sample, W_Q and W_K of heads whose largest logit passed `limit` are scaled down to it
      "projection"   updates of W_Q and W_K are taken off their three leading directions (the causal probe)
      "dynamic_max"  attention with the dynamic-maximum softmax, `beta`; slow
      "actions"      nothing by itself
    allow: actions that the server may ask for; any of enable_qk_norm, qk_clip, checkpoint, stop. on_checkpoint() writes a
    checkpoint and returns its path. After "stop", monitor.should_stop is True; nothing stops by force. retrace: a switch of qk_norm compiles a
    compiled model once more and costs nothing until then; False: compiled code (and CUDA graphs) holds both ways and a flag on the device
    chooses, for the price of one more pass over q and k in every step.
    """
    from .watch import monitor_of

    if mode not in MODES:
        raise ValueError(f"mode: '{mode}', must be one of {', '.join(MODES)}")
    wrong = [a for a in allow if a not in ACTIONS]
    if wrong:
        raise ValueError(f"allow: {wrong[0]!r}, must be of {', '.join(ACTIONS)}")
    monitor = monitor_of(watched)
    if _several_ranks():
        if automatic and mode == "qk_norm":
            _say("several ranks: the guard switches by the action enable_qk_norm alone, on all of them at one step")
            automatic = False
        if mode == "qk_clip":
            raise ValueError("mode: qk_clip by itself needs one process: ranks measure different logits")
        if mode == "projection":
            raise ValueError("mode: projection needs one process: ranks that shard weights or data have directions of their own")
    return Guard(monitor, mode, automatic, limit, beta, allow, on_checkpoint, retrace)
