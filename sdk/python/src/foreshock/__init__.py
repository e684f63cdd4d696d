"""Foreshock warns before a transformer training run collapses.

    import foreshock
    monitor = foreshock.watch(model, optimizer)
    ...
    monitor.step(loss=loss)

docs/python.md in the repository is the guide; `python -m foreshock.doctor MODEL` says what would be watched.
"""

from .attention import dynamic_max_attention
from .guard import Guard, guard
from .layout import AttentionLayer, Unmonitored
from .monitor import Monitor
from .watch import plan, register, watch

_BRIDGES = ("lightning", "torchtitan", "transformers", "wandb")  # each for a package that may not be there


def __getattr__(name):
    if name in _BRIDGES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__version__ = "0.1.0"
__all__ = ["AttentionLayer", "Guard", "Monitor", "Unmonitored", "dynamic_max_attention", "guard", "plan", "register",
           "watch"]
