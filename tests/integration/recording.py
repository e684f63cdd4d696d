"""Reads framed recordings without any of Foreshock's code: an independent check of what the SDK wrote.

Follows docs/formats/link.md and proto/foreshock/v1/ingest.proto. Floats stay the 32 bits that they are.
"""

import pathlib
import struct

MAGIC = b"FSK1"
HELLO, FRAME, EVENT, GOODBYE = 1, 2, 3, 4


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """{number: [raw value]} of one message: int, 8 or 4 bytes, or bytes."""
    out, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        out.setdefault(number, []).append(value)
    return out


def _words(values):
    """Packed (or single) fixed32 as unsigned 32-bit words."""
    joined = b"".join(values)
    return list(struct.unpack(f"<{len(joined) // 4}I", joined))


def _varints(values):
    out = []
    for value in values:
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            out.append(number)
    return out


def _series(data):
    f = fields(data)
    first, count = f.get(3, [0])[0], f.get(4, [0])[0]
    heads = _varints(f.get(5, [])) or list(range(first, first + count))
    total = max(len(heads), 1)
    presence = f.get(6, [b""])[0]
    present = [not presence or bool(presence[i // 8] >> (i % 8) & 1) for i in range(total)]
    values, weights = _words(f.get(7, [])), _words(f.get(8, []))
    per_head = max(f.get(10, [1])[0], 1)
    assert len(values) == sum(present) * per_head, (f.get(1), len(values), present)
    out, k = [], 0
    for there in present:
        if not there:
            out.append(None)
            continue
        weight = None if not weights else weights[0] if len(weights) == 1 else weights[k]
        out.append((values[k * per_head:(k + 1) * per_head], weight))
        k += 1
    layer = f[2][0] if 2 in f else None
    return {"signal": f[1][0], "layer": layer, "heads": heads, "entries": out}


def _signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def read(path):
    """[(type, message)]: frames as {"seq", "step", "series": [...]}, the rest as raw fields. No damage is accepted."""
    data, at, out = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        assert data[at:at + 4] == MAGIC, f"offset {at}"
        kind, size = data[at + 5], struct.unpack_from("<I", data, at + 8)[0]
        payload = data[at + 12:at + 12 + size]
        assert len(payload) == size, "torn"
        at += 12 + size + 4
        f = fields(payload)
        if kind == FRAME:
            out.append((kind, {"seq": f.get(1, [0])[0], "step": _signed(f.get(2, [0])[0]),
                               "series": [_series(s) for s in f.get(9, [])]}))
        else:
            out.append((kind, f))
    return out


def frames(path):
    return [message for kind, message in read(path) if kind == FRAME]


def bits(value):
    """The 32 bits of a float32 that JSON gave as a number or as the name of what is not finite."""
    special = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    return struct.unpack("<I", struct.pack("<f", special.get(value, value)))[0]


def same(a, b):
    """Equal bit for bit; any NaN equals any other: JSON has one."""
    nan = lambda w: w & 0x7F800000 == 0x7F800000 and w & 0x7FFFFF != 0
    return a == b or (nan(a) and nan(b))


def load_value(rank, step, place):
    """What tests/load sends: rank.h's ValueOf."""
    return 1 + (rank * 131 + step * 31 + place * 7) % 4096 / 4096
