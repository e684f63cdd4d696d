"""What a user does after `pip install`: run by scripts/python-wheel in a fresh environment.

usage: wheel_user.py RECORDING
"""

import ctypes
import json
import pathlib
import sys

import torch

import foreshock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import models  # noqa: E402

path = pathlib.Path(sys.argv[1])
path.unlink(missing_ok=True)
model = models.nanogpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
with foreshock.watch(model, optimizer, run="wheel", address=f"file:{path}", budget=1.0) as monitor:
    models.train(model, optimizer, 12, monitor)
installed = pathlib.Path(foreshock.__file__).parent
assert (installed / "lib" / "libforeshock.so").exists() and "site-packages" in str(installed), installed
assert monitor.unwatched == {}, monitor.unwatched
frames = [d for d in map(json.loads, path.read_text().splitlines()) if "step" in d and "event" not in d]
assert len(frames) == 12 and frames[10]["logit_max"][1][3] > 0 and frames[10]["wq_sigma1"][0][0] > 0
kernel_times = installed / "lib" / "libforeshock_cupti.so"
said = "without kernel times"
if kernel_times.exists():  # FORESHOCK_CUPTI=1 looks for it there; it measures, or says why it cannot
    library = ctypes.CDLL(str(kernel_times))
    reason = ctypes.create_string_buffer(256)
    measures = library.fs_cupti_start()
    library.fs_cupti_reason(reason, ctypes.c_size_t(len(reason)))
    assert measures or reason.value, "kernel times: neither measured nor a reason"
    said = "kernel times measured" if measures else f"kernel times: {reason.value.decode()}"
print(f"12 steps watched by {installed}; {said}")
