"""What torch.compile makes of Foreshock's own code.

**The tap's operator.** Inductor writes a look at whether anyone wants it, before its arguments are made:

    torch.ops.foreshock.wants('0:1|2hc') and torch.ops.foreshock.measure.default(buf42, reinterpret_tensor(...), ...)

In a step that is not sampled the operator's tensors (four views of others, as a rule) and its way through the dispatcher cost 10 to 20 us a
layer; the look costs one. By Inductor's own registry of such code, which PyTorch has from 2.10 on; without it, or where Inductor writes C++,
the operator is called and finds out by itself that it sleeps. Whoever changes what is written changes _taps._CODE.
"""

import torch

_OPERATOR = "torch.ops.foreshock.measure.default"


def _write(node, writeline):
    arguments = [*node.codegen_args(), *node.codegen_kwargs()]
    writeline(f"torch.ops.foreshock.wants({arguments[-1]}) and {_OPERATOR}({', '.join(arguments)})")


def register():
    """While a model is traced, before Inductor writes its code. Idempotent."""
    try:
        from torch._inductor import config
        from torch._inductor.codegen.custom_extern_kernel_codegen import CUSTOM_EXTERN_KERNEL_CODEGEN, CustomCodegen
    except ImportError:
        return
    if getattr(config, "fx_wrapper", False):  # makes a graph of its code, and knows no line but its own
        return
    CUSTOM_EXTERN_KERNEL_CODEGEN.setdefault(_OPERATOR, CustomCodegen(python=_write))


def run_as_it_is(function):
    """Dynamo, which would look for compiled code of this function wherever compiled code calls it, does not: not for what it calls, either. Where
    it is inlined nothing changes. Of PyTorch without such strategies (before 2.7): it looks."""
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    try:
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    except AttributeError:
        return
