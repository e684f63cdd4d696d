"""A Python that has packages from PyPI which only some tests need: this one, or that of scripts/deploy-test."""

import os
import pathlib
import subprocess
import sys

from harness import SOURCE


def find(module):
    """Path of a Python that can import the module, or None."""
    for python in (sys.executable, os.environ.get("FORESHOCK_TOOLS_PYTHON"), SOURCE / "build/tools/venv/bin/python"):
        if python and pathlib.Path(python).exists() and subprocess.run(
                [python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"],
                capture_output=True, check=False).returncode == 0:
            return str(python)
    return None


def run_with(module):
    """Goes on in a Python that has the module, or says that the tests are skipped and ends."""
    python = find(module)
    if python is None:
        print(f"FORESHOCK_SKIPPED: no Python here has {module}; scripts/deploy-test makes one, or set FORESHOCK_TOOLS_PYTHON")
        sys.exit(0)
    if python != sys.executable:
        os.execv(python, [python, "-B", *sys.argv])
