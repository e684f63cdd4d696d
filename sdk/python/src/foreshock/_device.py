"""What differs where tensors lie on a CUDA device: streams, captures, and numbers that nobody may wait for."""

import torch

from . import _abi

DTYPES = {torch.bfloat16: _abi.BF16, torch.float16: _abi.FP16, torch.float32: _abi.FP32, torch.float64: _abi.FP64}

# With the device's index; a class of torch.cuda.Stream a call would cost ten times as much.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream)
_is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


def why_not(device):
    """Why tensors on `device` are not measured; "" where the library decides."""
    return "" if device.type in ("cpu", "cuda") else f"on {device}: tensors in host memory and on CUDA devices are measured"


def stream_of(index):
    """The current stream of a CUDA device as a pointer; 0 is the default stream."""
    return _raw_stream(index)


def capturing():
    """This thread records a CUDA graph. Never starts CUDA, and asks nothing of it in a child of a process that has."""
    return torch.cuda.is_initialized() and _is_capturing()


def on_device(value):
    """A tensor of one number whose reading would make the trainer wait."""
    return isinstance(value, torch.Tensor) and value.is_cuda and value.numel() == 1 and value.dtype in DTYPES


def number(value):
    """A Python float of a number or a tensor of one element in host memory; None of None and of what lies elsewhere."""
    if isinstance(value, torch.Tensor):
        return float(value.item()) if value.is_cpu else None
    return None if value is None else float(value)


class Streams:
    """Tells the library on which stream of each device the weights change. One a monitor."""

    def __init__(self, library, handle, indices):
        self._library, self._handle, self._known = library, handle, {i: None for i in sorted(indices)}

    def follow(self):
        """Between steps."""
        for index, known in self._known.items():
            stream = _raw_stream(index)
            if stream != known:
                self._known[index] = stream
                self._library.fs_set_stream(self._handle, index, stream or None)


def put_loss(library, handle, value, tokens):
    """A micro-batch's mean loss, wherever it lies; a device's is read when the device has got there."""
    if on_device(value):
        index = value.get_device()
        library.fs_loss_at(handle, value.data_ptr(), DTYPES[value.dtype], index, _raw_stream(index) or None, tokens)
    elif (known := number(value)) is not None:
        library.fs_loss(handle, known, tokens)


def put_scalar(library, handle, scalar, value):
    """The same of a scalar of the step."""
    if on_device(value):
        index = value.get_device()
        library.fs_scalar_at(handle, scalar, value.data_ptr(), DTYPES[value.dtype], index, _raw_stream(index) or None)
    elif (known := number(value)) is not None:
        library.fs_scalar(handle, scalar, known)
