"""The monitor of one model: opens and closes steps, reads the optimizer, tells the library.

A step begins at the first tapped attention call (or the optimizer's), because the weights are W_t until the
optimizer runs, and ends with monitor.step(), or when the next one begins. Nothing in here raises into the trainer.
"""

import atexit
import contextlib
import ctypes as C
import itertools
import os
import sys
import threading
import weakref

import torch

from . import _abi, _codegen, _device, _hooks, _patch, _run, _taps
from ._places import Places
from ._staging import Staging, sharded
from ._tap import Gate, Tap

_numbers = itertools.count()
_open_monitors = weakref.WeakSet()


@atexit.register
def _close_all():
    for monitor in list(_open_monitors):
        monitor.close(_abi.FAILED if getattr(sys, "last_value", None) is not None else _abi.FINISHED)


def _call(monitor, method, *arguments):
    """Calls a method of a monitor that may be gone; what goes wrong there ends the watch and not the training."""
    monitor = monitor()
    if monitor is not None and not monitor.closed:
        try:
            getattr(monitor, method)(*arguments)
        except Exception as error:  # noqa: BLE001: training goes on whatever happens here
            monitor.broken(error)


class _Forward(_patch.Hook):
    """Forward pre-hook of the whole model: a step begins before its first layer, so that it is of one kind throughout. Of a model that is
    compiled as a whole it runs as it is, before the compiled code; inside of a larger one that is compiled it does nothing."""

    def __init__(self, monitor):
        self.monitor = monitor

    def __call__(self, module, args, kwargs):
        if not torch.compiler.is_compiling():
            _patch.context.key = ""  # what a forward that raised may have left
            if torch.is_grad_enabled() and module.training:
                _call(self.monitor, "forward_begins", args, kwargs)


_codegen.run_as_it_is(_Forward.__call__)


class _Loaded(_patch.Hook):
    """Hook of load_state_dict()."""

    def __init__(self, monitor):
        self.monitor = monitor

    def __call__(self, module, incompatible_keys):
        _call(self.monitor, "weights_replaced")


class Monitor:
    """Made by foreshock.watch(). One a model and process; not for use by several threads at once.

    `layers`: what is watched (foreshock.layout.AttentionLayer); `unwatched`: {name: reason} of what is not.
    """

    def __init__(self, model, optimizers, layers, unwatched, start_step, options):
        self.layers, self.unwatched, self.optimizers = layers, {}, optimizers
        self.closed = self.awake = self._open = self._frozen = self._skipped = False
        self._named = self._retraced = self._retrace_due = self._by_hand = self._compiles = False
        self._hooked = True  # layers have their hooks
        self._by_model = None  # the last sampled step, the first one aside, was begun by the model's forward; None: there was none
        self.captured = False  # attention was recorded into a CUDA graph, whose replays call nobody
        self.gate, self.lock = Gate(), threading.RLock()
        self.tokens = 0  # counted since the step began
        self.count_next = self.forward_seen = False  # the next call of the first layer counts; forwards are seen at all
        # In compiled code: tokens of a forward by its inputs' shapes; those of this forward; how many it is taken to have. None: not by shapes.
        self._counted, self._shapes, self._taken = {}, (), None
        self.next_step = start_step  # None: as the optimizer says at the first step
        self.grad_norm = None
        self.should_stop = False
        self.on_checkpoint = self.guard = None
        self._stepped, self._removers, self._keep, self._places = set(), [], [], Places()
        # As the optimizer knows them. FSDP2 puts others in their place during forward.
        self._ids = {(layer.index, which): id(projection.raw()) for layer in layers
                     for which, projection in (("wq", layer.wq), ("wk", layer.wk)) if projection is not None}
        self._mine = frozenset(self._ids.values())
        self._rate = _hooks.Rate(optimizers, self._mine)
        self._action_handlers, self._listeners, self._action = {}, [], _abi.Action()
        self._action_at = C.byref(self._action)
        self._options = dict(options)
        self.library, self.handle = _run.open_run(options)
        self.closed = self.handle is None or not self.library.fs_attached(self.handle)
        self._prefix = f"{next(_numbers)}:"
        self.taps = {layer.index: Tap(self, layer) for layer in layers}
        self.staging = (Staging(self, options.get("replica") or 0, options.get("replicas") or 1)
                        if any(sharded(layer) for layer in layers) else None)
        self._streams = _device.Streams(self.library, self.handle, self._prepare_devices())
        for finding in unwatched:
            self.unmonitored(finding.name, finding.reason)
        if self.closed:
            return
        self._attach(model)
        _open_monitors.add(self)

    # ---- attaching

    def _prepare_devices(self):
        """Indices of the CUDA devices that watched weights lie on."""
        found = set()
        for layer in self.layers:
            for projection in (layer.wq, layer.wk):
                parameter = projection.parameter() if projection is not None else None
                if parameter is not None and parameter.is_cuda:
                    found.add(parameter.get_device())
        return found

    def _attach(self, model):
        for layer in self.layers:
            module, tap = layer.module(), self.taps[layer.index]
            key = self._prefix + str(layer.index)
            _taps.add(key, tap)
            tap.enter = _patch.Enter(key, self.staging.hook(layer) if self.staging else None)
            tap.pair = _patch.Pair(module, tap.enter)
            self._removers += [tap.pair.remove, lambda key=key: _taps.remove(key)]
            if layer.attention_reason:
                tap.off = layer.attention_reason
                self.unmonitored(layer.name + " (attention)", layer.attention_reason)
        if self.staging is not None:
            self._removers += self.staging.attach(model, self.layers)
        if self.layers:
            self.taps[self.layers[0].index].counts_tokens = True
        _patch.patch([layer.module() for layer in self.layers])
        me = weakref.ref(self)
        for optimizer in self.optimizers:
            self._removers += [
                optimizer.register_step_pre_hook(lambda o, a, k: _call(me, "_before_optimizer", o, a, k)).remove,
                optimizer.register_step_post_hook(lambda o, a, k: _call(me, "_after_optimizer", o)).remove]
        self._removers.append(model.register_load_state_dict_post_hook(_Loaded(me)).remove)
        self._removers.append(model.register_forward_pre_hook(_Forward(me), with_kwargs=True).remove)
        _hooks.watch_for(self)

    def detach(self):
        """Takes every hook off the model and the optimizer. The run stays open until close()."""
        while self._removers:
            with contextlib.suppress(Exception):
                self._removers.pop()()
        _hooks.monitors.discard(self)

    # ---- declaring layers

    def _weights(self, layer):
        """(fs_weights or None of W_Q, of W_K), as the parameters lie now."""
        out = []
        for which, projection in (("wq", layer.wq), ("wk", layer.wk)):
            parameter = self.staging.parameter(layer, which) if self.staging else (
                projection.parameter() if projection else None)
            if parameter is None:
                out.append(None)
                continue
            decay = layer.weight_decay
            if decay is None:
                decay = _hooks.decay_of(self.optimizers, self._ids[layer.index, which])
            use = self.staging.projection(layer, which) if self.staging else projection
            out.append(_run.weights_struct(use, parameter, decay, self._keep))
        return out

    def _why_no_weights(self, layer):
        for projection in (layer.wq, layer.wk):
            parameter = projection.parameter() if projection else None
            if parameter is None:
                continue
            if reason := _device.why_not(parameter.device):
                return reason
            if parameter.dtype not in _device.DTYPES:
                return f"weights of {parameter.dtype}"
        return self.staging.why_not(layer) if self.staging else layer.weights_reason

    def _declare(self):
        self._frozen = True
        for layer in self.layers:
            reason = self._why_no_weights(layer)
            wq, wk = (None, None) if reason and layer.wk is not None else self._weights(layer)
            if reason:
                self.unmonitored(f"{layer.name} (weights)", reason)
            struct = _run.layer_struct(layer, wq, wk)
            if self.library.fs_add_layer(self.handle, C.byref(struct)) != _abi.OK:
                self.taps[layer.index].off = error = self.last_error()
                self.unmonitored(layer.name, error)
            elif self.staging is None:
                self._places.add(layer)
        if self.guard is not None:
            self.guard.enable()

    def _follow_weights(self):
        """Parameters whose memory was replaced (p.data = ..., EMA swaps) are read where they are now."""
        for layer in self._places.moved():
            wq, wk = self._weights(layer)
            self.library.fs_layer_set_weights(self.handle, layer.index, wq and C.byref(wq), wk and C.byref(wk))

    # ---- where the record goes

    @property
    def run(self):
        """The run's name."""
        return str(self._options.get("run") or os.environ.get("FORESHOCK_RUN") or "")

    @property
    def rank(self):
        """This process among those of the run."""
        given = self._options.get("rank")
        return int(given if given is not None else os.environ.get("RANK") or 0)

    @property
    def has_server(self):
        """The record goes to an agent or a server, and not into a file."""
        address = str(self._options.get("address") or os.environ.get("FORESHOCK_ADDR") or "unix:")
        return not address.startswith("file:")

    # ---- steps

    @property
    def begins_in_backward(self):
        """The first step waits until every layer was called once; staged weights are whole after forward."""
        if not self._frozen and not all(t.off for t in self.taps.values()):
            return True
        return self.staging is not None

    def count(self, q, compiled=False):
        """Tokens of one forward, from the first watched layer's queries [batch, heads, seq, dim]."""
        found = q.shape[0] * q.shape[2]
        self.tokens += found
        self.count_next = False
        if compiled and self._shapes:
            if len(self._counted) >= 256:  # sequences of every length
                self._counted.clear()
            self._counted[self._shapes] = found

    def recount(self, q):
        """Of a forward whose tokens were taken to be known, where its first layer is looked at all the same (sampled steps)."""
        taken, self._taken = self._taken, None
        if taken is not None and taken != q.shape[0] * q.shape[2]:  # a model that drops padding: its inputs' shapes do not tell
            self.tokens += q.shape[0] * q.shape[2] - taken
            self._counted = None

    def _known(self, args, kwargs):
        """Tokens of a forward of such inputs, where compiled code has counted one before; None: not known."""
        self._shapes = ()
        if self._counted is None:
            return None
        seen = []
        for name, x in (*enumerate(args), *kwargs.items()):
            if isinstance(x, torch.Tensor):
                if x.is_nested:
                    return None
                seen.append((name, x.shape))
            elif x is None or isinstance(x, (bool, int, float, str)):
                seen.append((name, x))
            else:
                return None  # what is in there may be of any size
        self._shapes = tuple(seen)
        return self._counted.get(self._shapes)

    def begin(self, by_model=False):
        """Begins the step unless it has begun. Called by taps and hooks; by hand where neither sees the step begin. by_model: no layer's
        forward has run in it yet."""
        if self._open and not self._stepped:
            return
        if self.closed:
            return
        if self._open:
            counted = self.tokens if self.staging is not None else 0  # there this step's forward has run: the last one's loss took its own
            self._finish()
            self.tokens = counted
        if not self._frozen:
            self._declare()
        if self.next_step is None:
            self.next_step = _hooks.steps_taken(self.optimizers)
        self._streams.follow()
        self._follow_weights()
        self._open = True
        self.library.fs_step_begin(self.handle, self.next_step)
        watched = next((index for index, tap in self.taps.items() if not tap.off), None)
        self.awake = self.gate.open = watched is not None and self.wants(watched)  # all layers are sampled in one step
        if self.guard is not None:
            self.guard.refresh()
        if not by_model:
            self._put_hooks(True)
        if self.awake:
            self._by_model = self._by_model is None or by_model

    @property
    def skipped(self):
        """The optimizer does not run in this step (loss scaling)."""
        return self._skipped

    @property
    def frozen(self):
        """The layers are declared: the first step has begun."""
        return self._frozen

    def reopen(self, **options):
        """Before the first step: the same with other options."""
        if self._frozen or self.handle is None:
            raise RuntimeError("the first step has begun: call this right after foreshock.watch()")
        self._open_again(options)

    def restart(self, **options):
        """Between steps: ends the run and begins another with other options. Hooks stay, and so does compiled code."""
        if self.handle is None:
            raise RuntimeError("the monitor is closed")
        if self._open:
            self._finish()
        self._frozen = False
        self._places = Places()
        self._open_again(options)

    def _open_again(self, options):
        self._options.update(options)
        self.library.fs_close(self.handle, _abi.FINISHED)
        self.library, self.handle = _run.open_run(self._options)
        self.closed = self.handle is None or not self.library.fs_attached(self.handle)
        self._streams = _device.Streams(self.library, self.handle, self._prepare_devices())
        for name, reason in self.unwatched.items():
            self.library.fs_unmonitored(self.handle, name.encode()[:200], reason.encode()[:1000])

    def wants(self, index):
        return self.library.fs_wants_attention(self.handle, index) == 1

    def _make_room(self):
        """Blocks compiled one by one share their code, and each watched layer needs its own: past dynamo's limit they would run uncompiled."""
        config = sys.modules.get("torch._dynamo.config")
        for name in ("recompile_limit", "cache_size_limit"):  # one setting; the second is its older name
            if config is not None and hasattr(config, name):
                setattr(config, name, max(getattr(config, name), len(self.layers) + 8))
                break

    def forward_begins(self, args, kwargs):
        self._retrace_now()
        if not self.forward_seen:
            self._make_room()
        self.forward_seen = True
        self._taken = self._known(args, kwargs)
        self.count_next = self._taken is None
        if not self.begins_in_backward:
            self.begin(by_model=True)
        self.tokens += self._taken or 0
        if self.guard is not None:
            self.guard.apply()
        # Where the last sampled step was begun by a layer, the next one may be, too: who calls parts of the model gives no other sign.
        self._put_hooks(self.gate.open or not self._by_model or self.guard is not None or self.staging is not None or self._met_compiler())

    def _put_hooks(self, on):
        """In steps that are not sampled eager layers go without their hooks, but for the one that counts tokens. They are back before a
        sampled step's first layer runs. Compiled code has them in it: where there is any they stay."""
        if on != self._hooked:
            self._hooked = on
            for tap in self.taps.values():
                if tap.observed and not tap.counts_tokens:
                    tap.pair.put(on)

    def _met_compiler(self):
        self._compiles = self._compiles or self._compiled()
        return self._compiles

    def _before_optimizer(self, optimizer, args, kwargs):
        if self._open and id(optimizer) in self._stepped and self.staging is None:
            self._finish()
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)  # args[0] is the optimizer
        if closure is not None and self.begins_in_backward:
            return  # forward and backward are still to come, inside of the optimizer's step
        if not self._open or (self.staging is not None and self._stepped & {id(optimizer), "step"}):
            self.begin()
        if self.guard is not None:
            self.guard.before_optimizer()

    def _after_optimizer(self, optimizer):
        if not self._open:
            self.begin()
        if self.grad_norm is None and self.awake:
            self.grad_norm = self._own_grad_norm()
        rate = self._rate.now()
        if rate is not None:
            _device.put_scalar(self.library, self.handle, _abi.LEARNING_RATE, rate)
        found = getattr(optimizer, "found_inf", None)  # fused optimizers skip inside of their kernel
        if found is not None and found.device.type == "cpu" and float(found) > 0:
            self._skipped = True
        self._has_stepped(id(optimizer))
        if self.staging is not None:
            self.staging.optimizer_ran()
        if self.guard is not None:
            self.guard.after_optimizer()
        if self.captured and not self._by_hand and self.staging is None and len(self._stepped) == len(self.optimizers):
            self._finish()
            self._begin_early()
        self._retrace_now()

    def _has_stepped(self, what):
        """The step has had its optimizer. The next call of any tap ends it and begins another, so none may sleep through that."""
        self._stepped.add(what)
        self.gate.open = True

    def scaler_stepped(self, scaler, optimizer):
        """GradScaler.step(optimizer) returned: it may have left the optimizer out."""
        optimizer = _hooks.unwrap(optimizer)
        if self.closed or all(optimizer is not o for o in self.optimizers):
            return
        if not self._open:
            self.begin()
        scale = getattr(scaler, "_scale", None)  # get_scale() waits for the device
        _device.put_scalar(self.library, self.handle, _abi.LOSS_SCALE,
                           scale if isinstance(scale, torch.Tensor) else scaler.get_scale())
        if id(optimizer) not in self._stepped:
            self._skipped = True
            self._has_stepped(id(optimizer))

    def clipped(self, parameters, norm):
        """clip_grad_norm_ returned the norm of these parameters."""
        if not self.closed and type(norm) is torch.Tensor and any(id(p) in self._mine for p in parameters):
            self.grad_norm = norm

    def _own_grad_norm(self):
        """Nobody clips: the norm of this step's gradients, in sampled steps only."""
        grads = [p.grad for o in self.optimizers for g in o.param_groups for p in g["params"] if p.grad is not None]
        if not grads or any(type(g) is not torch.Tensor or g.device != grads[0].device or g.is_sparse for g in grads):
            return None
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))

    def step(self, loss=None, tokens=None, grad_norm=None, step=None, learning_rate=None):
        """Ends the step. After the optimizer's step; without one in between, the step counts as skipped.

        loss: mean loss of the step (number or tensor; nat). tokens: tokens trained on; counted at the first watched layer
        when left out. grad_norm: global, unscaled, before clipping; taken from clip_grad_norm_ when left out. step: the
        trainer's number of this step, where it differs from Foreshock's own count. learning_rate: where no optimizer was given.
        """
        if self.closed:
            return
        self._by_hand = True
        try:
            if not self._open:
                if step is not None:
                    self.next_step = int(step)
                self.begin()
            self.loss(loss, tokens)
            if grad_norm is not None:
                self.grad_norm = grad_norm
            if learning_rate is not None:
                _device.put_scalar(self.library, self.handle, _abi.LEARNING_RATE, learning_rate)
            if self.optimizers and not self._stepped:
                self._skipped = True
            if self.staging is not None and not self._skipped:
                self._has_stepped("step")  # ends when the next forward has brought W_{t+1}
            else:
                self._finish()
            if step is not None:
                self.next_step = int(step) + 1 if not self._open else int(step)
            if self.captured:
                self._begin_early()
            self._retrace_now()
        except Exception as error:  # noqa: BLE001: training goes on whatever happens here
            self.broken(error)

    def loss(self, loss, tokens=None):
        """Mean loss of one micro-batch, where a step has several: they are weighted by their tokens."""
        if loss is None or self.closed:
            return
        if not self._open:
            self.begin()
        _device.put_loss(self.library, self.handle, loss, _device.number(tokens) or self.tokens or 1.0)
        self.tokens = 0

    def _begin_early(self):
        """As soon as the last step has ended: replayed graphs call nobody, and what wakes their probes is set here."""
        if not self._open:
            self.begin()
            if self.guard is not None:
                self.guard.apply()

    def _finish(self):
        if self.grad_norm is not None:
            _device.put_scalar(self.library, self.handle, _abi.GRAD_NORM, self.grad_norm)
        if self._skipped:
            self.library.fs_step_skipped(self.handle)
        self._follow_weights()
        self.library.fs_step_end(self.handle)
        self._open = self._skipped = False
        self.gate.open = True  # the next call of a tap begins a step
        self._stepped.clear()
        self.grad_norm = None
        self.tokens = 0
        self.next_step += 1
        self._name_unseen()
        self._name_vanished()
        self._take_actions()
        if self.guard is not None:
            self.guard.step_ended()
        for listener in self._listeners:
            listener(self)

    def _name_unseen(self):
        """After the first sampled step: layers whose attention call nobody saw."""
        if not self.awake or self._named:
            return
        unseen = [t for t in self.taps.values() if not t.seen and not t.off]
        if unseen and not self._retraced and self._compiled():
            self._retrace_due = True  # compiled before the hooks were there
            return
        self._named = True
        for tap in unseen:
            tap.off = "no attention call was seen: neither scaled_dot_product_attention, flex_attention, flash_attn_func nor Transformers' eager function"
            self.unmonitored(f"{tap.layer.name} (attention)", tap.off)

    def _name_vanished(self):
        """Layers that were seen once and are not any more: silence would look like health."""
        if not self.awake or self.captured:
            return
        for tap in self.taps.values():
            tap.missed = 0 if tap.here or not tap.seen else tap.missed + 1
            tap.here = False
            if tap.missed == 1 and not self._retraced and self._compiled():
                self._retrace_due = True
            if tap.missed == 3 and not tap.off:
                self.unmonitored(f"{tap.layer.name} (attention)", "its attention call was not seen in the last three samples. Is another "
                                 "model of the same class compiled as well? torch.compile may have taken that one's code")

    def _retrace_now(self):
        """Once a run, where it is due: compiled code is made anew, with the hooks. It is kept by function and not by model, so code of
        another model of the same class could pass for ours: from now on it is told apart by its hooks.
        Called where no compiled code runs: a step may end inside of a compiled backward, which must not lose its code under its feet."""
        if self._retraced or not self._retrace_due:
            return
        self._retraced = True
        with contextlib.suppress(AttributeError):
            torch._dynamo.config.skip_nnmodule_hook_guards = False
        torch.compiler.reset()

    @staticmethod
    def _compiled():
        dynamo = sys.modules.get("torch._dynamo")
        return dynamo is not None and dynamo.utils.counters["frames"]["ok"] > 0

    def broken(self, error):
        print(f"foreshock: {type(error).__name__}: {error}; not watching any more", file=sys.stderr)
        self.close(_abi.FINISHED)

    # ---- actions

    def _take_actions(self):
        while self.library.fs_action_poll(self.handle, self._action_at) == _abi.OK:
            action = _abi.Action.from_buffer_copy(self._action)  # a handler may end a step, which asks again
            kind = action.kind.decode()
            handler = self._action_handlers.get(kind)
            layers = [action.layers[i] for i in range(action.layer_count)]
            try:
                detail = handler(action, layers) if handler else None
                taken = handler is not None
            except Exception as error:  # noqa: BLE001: said to the server
                taken, detail = False, f"{type(error).__name__}: {error}"
            if not taken and detail is None:
                detail = f"nothing in this trainer takes '{kind}'"
            self.library.fs_action_report(self.handle, action.id,
                                          _abi.ACTION_TAKEN if taken else _abi.ACTION_REFUSED,
                                          detail.encode() if detail else None)

    def handle_action(self, kind, handler):
        """handler(action, layers) -> text or None takes actions of `kind`; it may raise to refuse."""
        self._action_handlers[kind] = handler

    # ---- events and state

    def event(self, kind, step=None, detail=None):
        if not self.closed:
            at = step if step is not None else self.next_step or 0
            self.library.fs_event(self.handle, kind, at, None if detail is None else str(detail).encode())

    def checkpoint(self, path, step=None):
        """A checkpoint was written: alerts name the last one before their first evidence."""
        self.event(_abi.EVENT_CHECKPOINT, step, path)

    def note(self, text, step=None):
        self.event(_abi.EVENT_NOTE, step, text)

    def phase(self, name, step=None):
        """A new phase, e.g. another context length: baselines know."""
        self.event(_abi.EVENT_PHASE, step, name)

    def weights_replaced(self):
        """The weights were loaded or set anew. Called by itself after model.load_state_dict()."""
        if self.closed or not self._frozen:
            return
        if self._open:
            self._skipped = self._skipped or not self._stepped
            self._finish()
        self.library.fs_weights_replaced(self.handle)

    def unmonitored(self, name, reason):
        """Says that something is not measured, so that nobody takes silence for health."""
        if self.unwatched.get(name) == reason:
            return
        self.unwatched[name] = reason
        if self.handle is not None and not self.closed:
            self.library.fs_unmonitored(self.handle, name.encode()[:200], reason.encode()[:1000])

    def stats(self):
        """Counters of the library as a dict; {} when nothing is watched."""
        if self.handle is None:
            return {}
        stats = _abi.Stats()
        self.library.fs_stats_init_size(C.byref(stats), C.sizeof(stats))
        self.library.fs_get_stats(self.handle, C.byref(stats))
        out = {name: getattr(stats, name) for name, _ in _abi.Stats._fields_[1:]}
        out["not_recording"] = out["not_recording"].decode(errors="replace")
        return out

    def last_error(self):
        return "" if self.handle is None else self.library.fs_last_error(self.handle).decode(errors="replace")

    # ---- the end

    def close(self, end=_abi.FINISHED):
        """Sends what is left and says goodbye. Called by itself when the process exits. May be called twice."""
        handle, self.handle = self.handle, None
        if handle is None:
            self.closed = True
            return
        self.handle = handle
        if self._open and not self.closed:
            if self.staging is not None:
                self._skipped = True  # W_{t+1} was never seen whole
            with contextlib.suppress(Exception):
                self._finish()
        self.closed = True
        self.handle = None
        self.detach()
        self.library.fs_close(handle, end)
        _open_monitors.discard(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close(_abi.FINISHED if kind is None else _abi.FAILED)
