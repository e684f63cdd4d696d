"""What monitors learn from torch itself: gradient clipping and loss scaling, wrapped once for all monitors."""

import functools
import operator
import weakref

import torch

monitors = weakref.WeakSet()
_patched = False


def _clip(original):
    @functools.wraps(original)
    def clip_grad_norm_(parameters, *args, **kwargs):
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        parameters = list(parameters)
        norm = original(parameters, *args, **kwargs)
        kind = args[1] if len(args) > 1 else kwargs.get("norm_type", 2.0)
        if float(kind) == 2.0:
            for monitor in list(monitors):
                monitor.clipped(parameters, norm)
        return norm

    return clip_grad_norm_


def _scaler_step(original):
    @functools.wraps(original)
    def step(self, optimizer, *args, **kwargs):
        result = original(self, optimizer, *args, **kwargs)
        for monitor in list(monitors):
            monitor.scaler_stepped(self, optimizer)
        return result

    return step


def watch_for(monitor):
    """From now on `monitor` is told of clip_grad_norm_ and GradScaler.step."""
    global _patched
    monitors.add(monitor)
    if _patched:
        return
    _patched = True
    wrapped = _clip(torch.nn.utils.clip_grad_norm_)
    torch.nn.utils.clip_grad_norm_ = wrapped
    torch.nn.utils.clip_grad.clip_grad_norm_ = wrapped
    scaler = torch.amp.GradScaler
    scaler.step = _scaler_step(scaler.step)


def decay_of(optimizers, parameter_id):
    """Decoupled weight decay of a parameter (by id()); 0.0 when there is none, or it is not decoupled (L2)."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if any(id(p) == parameter_id for p in group["params"]):
                decoupled = group.get("decoupled_weight_decay", False) or "adamw" in type(optimizer).__name__.lower()
                return float(group.get("weight_decay") or 0.0) if decoupled else 0.0
    return 0.0


class Rate:
    """The learning rate of the group that holds one of the given parameters (by id()), else of the first group. Which one it is is looked for once
    and again where an optimizer has other groups than then: asked in every step."""

    def __init__(self, optimizers, wanted):
        self._optimizers, self._wanted, self._groups, self._at = optimizers, wanted, None, None

    def now(self):
        if not self._optimizers:
            return None
        groups = [group for o in self._optimizers for group in o.param_groups]
        if self._groups is None or len(groups) != len(self._groups) or any(map(operator.is_not, groups, self._groups)):
            self._groups = groups
            self._at = next((g for g in groups if any(id(p) in self._wanted for p in g["params"])), groups[0] if groups else None)
        return None if self._at is None else self._at["lr"]


def steps_taken(optimizers):
    """The optimizer's own count: a resumed run goes on where its optimizer was. 0 when it has none."""
    most = 0
    for optimizer in optimizers:
        for state in list(optimizer.state.values())[:1]:
            step = state.get("step", 0) if isinstance(state, dict) else 0
            most = max(most, int(step))
    return most


def unwrap(optimizer):
    """torch's optimizer inside of what Accelerate or Lightning put around it."""
    while not isinstance(optimizer, torch.optim.Optimizer) or hasattr(optimizer, "accelerator_state"):
        inner = getattr(optimizer, "optimizer", None) or getattr(optimizer, "_optimizer", None)
        if inner is None:
            break
        optimizer = inner
    return optimizer
