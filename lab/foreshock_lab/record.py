"""One Foreshock run a copy: the SDK reads each copy's slice of the stacked weights and of the attention tensors in place."""

import torch
from torch import nn

import foreshock


class _Heads(nn.Module):
    """W_Q and W_K of one layer of one copy, as views of the stacked parameters."""

    def __init__(self, wq, wk):
        super().__init__()
        self.wq, self.wk = wq, wk  # plain tensors that share the parameters' memory


class Recorder:
    """Monitors (and guards) of all copies of a StackedGPT. `names` are the runs'; `guards` says for each copy if it has one."""

    def __init__(self, model, names, address_of, weight_decay, every, row_every, guards):
        shape = model.shape
        self.monitors, self.guards, self._views, self._awake = [], [], [], []
        for r, name in enumerate(names):
            view = nn.ModuleList(_Heads(model.q[i].data[r], model.k[i].data[r]) for i in range(shape.layers))
            for heads in view:
                foreshock.register(heads, query_heads=shape.heads, head_dim=shape.head_dim, wq="wq", wk="wk",
                                   scale=shape.head_dim**-0.5, causal=True, weight_decay=weight_decay)
            monitor = foreshock.watch(
                view, run=name, address=address_of(name), framework="foreshock lab", model_name="GPT", step=0, budget=1.0,
                attention_every_steps=every, spectra_every_steps=every, row_every=row_every, queue_frames=1024,
                flush_timeout_ms=30_000)  # many runs share the threads of one process
            self._views.append(view)
            self.monitors.append(monitor)
            self.guards.append(foreshock.guard(monitor, "qk_norm") if guards[r] else None)

    def begin(self):
        for monitor in self.monitors:
            monitor.begin()
        self._awake = [(r, m) for r, m in enumerate(self.monitors) if m.awake and not m.closed]

    def measure(self, layer, q, k, v, o, d_o, dq):
        """Called by Attention's backward with tensors of all copies."""
        for r, monitor in self._awake:
            monitor.taps[layer].backward(dq[r], d_o[r], q[r], k[r], v[r], o[r], None, True, True)

    def end(self, losses, norms, rates, tokens):
        """losses, norms: [copies], where they lie; nothing waits for a device."""
        for monitor, loss, norm, rate in zip(self.monitors, losses.unbind(), norms.unbind(), rates):
            monitor.step(loss=loss, tokens=tokens, grad_norm=norm, learning_rate=rate)

    def triggered(self):
        """[layers, copies]: where the guard asks for an action as of this step."""
        layers = len(self._views[0])
        out = torch.zeros(layers, len(self.monitors), dtype=torch.bool)
        for r, guard in enumerate(self.guards):
            for layer in guard.triggered_layers() if guard is not None else ():
                out[layer, r] = True
        return out

    def close(self):
        for monitor in self.monitors:
            monitor.close()
