"""Finds and loads libforeshock.so once a process."""

import ctypes
import os
import pathlib

from . import _abi

_loaded = None


def _candidates():
    given = os.environ.get("FORESHOCK_LIBRARY")
    if given:
        return [given]  # asked for: nothing else will do
    own = pathlib.Path(__file__).parent / "lib" / "libforeshock.so"
    return [str(own), "libforeshock.so"]


def load():
    """The library with its functions declared. OSError that names every place looked at when there is none."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for path in _candidates():
        try:
            _loaded = _abi.declare(ctypes.CDLL(path))
            return _loaded
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
    raise OSError("libforeshock.so was not found (FORESHOCK_LIBRARY names it): " + "; ".join(tried))


def beside(name):
    """Path of a file that came in the same package (agent, gRPC library), or None."""
    path = pathlib.Path(__file__).parent / "lib" / name
    return str(path) if path.exists() else None
