"""FSDP2's copies: which heads a rank copies, and where they lie in the copy."""

import weakref

import pytest
import torch

from foreshock import _staging
from foreshock.layout import AttentionLayer, Projection, interleaved_starts, starts_of

HEAD_DIM, MODEL_DIM = 4, 24


def layer_of(heads, kv_heads, wq=None, wk=None, **share):
    return AttentionLayer("attn", None, MODEL_DIM, heads, kv_heads, HEAD_DIM, wq, wk, "separate", **share)


@pytest.mark.parametrize("heads, kv_heads, replica, replicas, share, queries, keys", [
    (4, 4, 0, 1, {}, (0, 1, 2, 3), (0, 1, 2, 3)),
    (6, 6, 1, 3, {}, (1, 4), (1, 4)),
    (8, 2, 1, 4, {}, (1, 5), (0, 1)),  # key head 1 is its own; query 1 meets key head 0
    (8, 4, 3, 8, {}, (3,), (1, 3)),  # key head 3 is its own, its query meets 1
    (8, 4, 6, 8, {}, (6,), (3,)),  # more ranks than key heads
    (4, 4, 5, 8, {}, (), ()),  # more ranks than heads
    (8, 4, 1, 2, {"first_query_head": 4, "local_query_heads": 4, "first_kv_head": 2, "local_kv_heads": 2}, (1, 3), (0, 1)),
    (9, 9, 0, 2, {"first_query_head": 3, "local_query_heads": 3, "first_kv_head": 3, "local_kv_heads": 3}, (1,), (1,)),
])
def test_heads_that_the_library_measures_and_their_keys(heads, kv_heads, replica, replicas, share, queries, keys):
    projection = Projection(None, "weight", starts_of(heads, HEAD_DIM))
    assert _staging.measured_heads(layer_of(heads, kv_heads, projection, projection, **share), replica, replicas) == (queries, keys)


def test_without_queries_no_key_is_copied_for_them():
    projection = Projection(None, "weight", starts_of(2, HEAD_DIM))
    assert _staging.measured_heads(layer_of(8, 2, None, projection), 1, 4) == ((1, 5), (1,))


Q_OF_GROUPS, K_OF_GROUPS = interleaved_starts(6, 2, HEAD_DIM)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("starts, heads, copies", [
    (starts_of(6, HEAD_DIM), (0, 1, 2, 3, 4, 5), 1),
    (starts_of(6, HEAD_DIM), (1, 4), 1),
    (starts_of(6, HEAD_DIM), (0, 1, 3), 2),
    (starts_of(6, HEAD_DIM, 6 * HEAD_DIM), (0, 3), 1),  # keys in a fused parameter
    (Q_OF_GROUPS, (0, 2, 4), 2),
    (K_OF_GROUPS, (0, 1), 1),
    (starts_of(6, HEAD_DIM), (), 0),
])
def test_heads_lie_in_the_copy_as_in_the_parameter(starts, heads, copies, transposed):
    whole = torch.randn(18 * HEAD_DIM + 5, MODEL_DIM)  # [features, model_dim]
    parameter = whole.t().contiguous() if transposed else whole
    projection = Projection(weakref.ref(torch.nn.Module()), "weight", starts, transposed)
    copy = _staging._Copy(projection, HEAD_DIM, heads, parameter)
    assert len(copy.runs) == copies
    for _ in range(2):  # the same memory at the next step
        parameter.mul_(2.0)
        memory = copy.tensor.data_ptr()
        copy.take(parameter)
        assert copy.tensor.data_ptr() == memory and copy.tensor.numel() == max(len(heads), 1) * HEAD_DIM * MODEL_DIM
        row, column, offsets = copy.as_projection().strides(copy.tensor)
        assert len(offsets) == len(starts) and all(0 <= o <= copy.tensor.numel() - HEAD_DIM * MODEL_DIM for o in offsets)
        for head in heads:
            found = copy.tensor.as_strided((HEAD_DIM, MODEL_DIM), (column, row), offsets[head])
            rows = slice(starts[head], starts[head] + HEAD_DIM)
            assert torch.equal(found, parameter[:, rows].t() if transposed else parameter[rows])
