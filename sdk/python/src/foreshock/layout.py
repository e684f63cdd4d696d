"""How the heads of an attention layer lie in its parameters, and what is known of the layer."""

import dataclasses
import weakref

from ._dtensor import local


@dataclasses.dataclass
class Projection:
    """W_Q or W_K of all local heads inside one parameter.

    `starts[h]` is the first output feature of local head h. `transposed`: the parameter is [model_dim, features] (Conv1D)
    and not torch's Linear, [features, model_dim].
    """

    owner: "weakref.ref"
    name: str
    starts: tuple
    transposed: bool = False

    def raw(self):
        """The parameter as the module and the optimizer have it; None when the module is gone."""
        owner = self.owner()
        return None if owner is None else getattr(owner, self.name, None)

    def parameter(self):
        """The tensor with this rank's heads, where it is now; None when the module is gone."""
        found = self.raw()
        return None if found is None else local(found)

    def strides(self, parameter):
        """(row_stride over model_dim, col_stride over head_dim, offsets of heads), in elements."""
        a, b = parameter.stride()
        rows, cols = (a, b) if self.transposed else (b, a)
        return rows, cols, [start * cols for start in self.starts]

    def sizes(self, parameter):
        """(model_dim, features)."""
        a, b = parameter.shape
        return (a, b) if self.transposed else (b, a)


@dataclasses.dataclass
class AttentionLayer:
    """One watched layer. Heads counts are of the whole layer; local ones are this rank's."""

    name: str
    module: "weakref.ref"
    model_dim: int
    query_heads: int
    kv_heads: int
    head_dim: int
    wq: Projection | None
    wk: Projection | None
    layout: str  # said to users: "separate", "fused, concatenated", "fused, interleaved per group", "Conv1D, ..."
    index: int = -1
    qk_norm: bool = False
    first_query_head: int = 0
    local_query_heads: int = 0  # 0: all
    first_kv_head: int = 0
    local_kv_heads: int = 0
    scale: float | None = None  # None: as the call says, else 1 / sqrt(head_dim)
    softcap: float = 0.0
    softcap_said: bool = False  # by hand: a call that says otherwise does not count
    causal: bool | None = None  # None: as the call says
    dropout: float = 0.0
    weight_decay: float | None = None  # decoupled; None: as the optimizer says
    attention_reason: str = ""  # why attention signals are not there; "": they are
    weights_reason: str = ""  # the same of weight signals

    def query_heads_here(self):
        return self.local_query_heads or self.query_heads

    def kv_heads_here(self):
        return self.local_kv_heads or self.kv_heads


@dataclasses.dataclass
class Unmonitored:
    """Something that looks like attention and is not watched."""

    name: str
    reason: str


def starts_of(heads, head_dim, first=0):
    return tuple(first + h * head_dim for h in range(heads))


def interleaved_starts(heads, kv_heads, head_dim):
    """(q, k) starts of [q of group 0, k0, v0, q of group 1, k1, v1, ...]."""
    group = heads // kv_heads
    width = (group + 2) * head_dim
    q = tuple((h // group) * width + (h % group) * head_dim for h in range(heads))
    k = tuple(g * width + group * head_dim for g in range(kv_heads))
    return q, k
