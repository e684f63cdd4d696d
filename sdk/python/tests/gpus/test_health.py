"""The health of this machine's GPUs as the agent has it from NVML, beside what nvidia-smi says. Needs a GPU and foreshock-agent
(FORESHOCK_BUILD_DIR)."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

AGENT = pathlib.Path(os.environ.get("FORESHOCK_BUILD_DIR", "build")) / "bin" / "foreshock-agent"
pytestmark = [pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi: no GPU"),
              pytest.mark.skipif(not os.access(AGENT, os.X_OK), reason=f"no {AGENT}")]

# Name in the agent's status: (nvidia-smi's, its unit in ours, how far two readings within seconds may be apart on an idle GPU).
READINGS = {"gpu_power_watts": ("power.draw", 1, 40), "gpu_temperature_celsius": ("temperature.gpu", 1, 5),
            "gpu_memory_clock_mhz": ("clocks.mem", 1, 0), "gpu_memory_total_bytes": ("memory.total", 2**20, 2**20),
            "gpu_memory_used_bytes": ("memory.used", 2**20, 2**31), "gpu_utilization_ratio": ("utilization.gpu", 0.01, 1),
            "gpu_sm_clock_mhz": ("clocks.sm", 1, 2000), "gpu_ecc_corrected_errors": ("ecc.errors.corrected.aggregate.total", 1, 0),
            "gpu_ecc_uncorrected_errors": ("ecc.errors.uncorrected.aggregate.total", 1, 0)}


def smi(*fields):
    """[{field: text}] of each GPU."""
    out = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], capture_output=True,
                         text=True, check=True).stdout
    return [dict(zip(fields, (x.strip() for x in line.split(",")))) for line in out.splitlines()]


@pytest.fixture(scope="module")
def health(tmp_path_factory):
    """`device` of the agent's status, after its first measurement."""
    folder = tmp_path_factory.mktemp("agent")
    agent = subprocess.Popen([AGENT, "--socket", folder / "a.sock", "--spool", folder / "spool", "--log-file", folder / "log"])
    try:
        status, until = folder / "a.sock.status.json", time.monotonic() + 60
        while time.monotonic() < until:
            device = json.loads(status.read_text()).get("device", {}) if status.exists() else {}
            if device.get("gpus"):
                return device
            time.sleep(0.2)
        pytest.fail(f"no GPU in the agent's status after 60 s: {device}")
    finally:
        agent.terminate()
        agent.wait(30)


def test_every_gpu_is_there(health):
    assert not health.get("reason"), health["reason"]
    assert [(g["name"], g["uuid"]) for g in health["gpus"]] == [(g["name"], g["uuid"]) for g in smi("name", "uuid")]


def test_readings_are_those_of_nvidia_smi(health):
    for gpu, line in zip(health["gpus"], smi(*(field for field, _, _ in READINGS.values()))):
        for name, (field, unit, apart) in READINGS.items():
            if name not in gpu["values"]:
                assert gpu["missing"][name], f"{name}: neither a value nor a reason"
                print(f"GPU {gpu['index']} {name}: {gpu['missing'][name]}; nvidia-smi: {line[field]}")
                continue
            print(f"GPU {gpu['index']} {name}: {gpu['values'][name]}; nvidia-smi: {line[field]}")
            assert abs(gpu["values"][name] - float(line[field]) * unit) <= apart, f"{name}: {gpu['values'][name]}, nvidia-smi {line[field]}"
        assert "gpu_throttle_mask" in gpu["values"] or gpu["missing"]["gpu_throttle_mask"]
        print(f"GPU {gpu['index']}: throttled by {gpu['throttled_by']}, Xid errors {gpu['xids']}, missing {gpu['missing']}")
