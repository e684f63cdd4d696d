"""Between a step's begin and its end the trainer's thread makes no blocking system call: seen from outside, by strace.

The trainer marks each step by a write to descriptor -1, which fails at once and stands in the trace. A futex wake is
allowed: it hands the frame to the background thread and returns at once.
"""

import re
import shutil
import subprocess
import unittest

import harness

STEPS = 120
NO_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0"}  # a sanitized build would trace itself, and strace is there already
WARM_UP_STEPS = 25  # two samples, after which nothing may be allocated any more
BEGIN = re.compile(r'write\(-1, "step begin (\d+)"')
END = re.compile(r'write\(-1, "step end (\d+)"')
CALL = re.compile(r"^(\d+) +(?:[\d.:]+ +)?([a-z_0-9]+)\((.*)$")


def allowed(name, rest):
    return name == "futex" and ("FUTEX_WAKE" in rest) or (name == "write" and rest.startswith("-1,"))


def forbidden_calls(trace):
    """(steps marked, what the training thread called between begin and end of the steps after the warm-up)."""
    thread, step, seen, marked = None, None, [], 0
    for line in trace.splitlines():
        begin = BEGIN.search(line)
        if begin:
            thread, step = line.split()[0], int(begin.group(1))
            marked += 1
            continue
        if END.search(line):
            step = None
            continue
        call = CALL.match(line)
        if step is None or step < WARM_UP_STEPS or not call or call.group(1) != thread:
            continue
        if not allowed(call.group(2), call.group(3)):
            seen.append(f"step {step}: {call.group(2)}({call.group(3)}")
    return marked, seen


class Canary(unittest.TestCase):
    def test_a_blocking_call_in_a_step_is_seen(self):
        trace = """7 write(-1, "step begin 30", 13) = -1 EBADF (Bad file descriptor)
8 futex(0x7f00, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
7 futex(0x7f00, FUTEX_WAKE_PRIVATE, 1) = 1
7 futex(0x7f08, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
8 sendto(5, "x", 1, 0, NULL, 0) = 1
7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f11
7 write(-1, "step end 30", 11) = -1 EBADF (Bad file descriptor)
7 openat(AT_FDCWD, "ckpt", O_RDONLY) = 3
"""
        marked, calls = forbidden_calls(trace)
        self.assertEqual(marked, 1)
        self.assertEqual([c.split("(")[0] for c in calls], ["step 30: futex", "step 30: mmap"])


class StepPath(harness.Case):
    def setUp(self):
        super().setUp()
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"ptrace is not permitted here: {probe.stderr.strip()}")

    def calls_in_steps(self, address):
        trace = self.folder / "trace"
        process = self.trainer("--foreshock", address, "--run", "gpt", "--steps", STEPS, "--quiet", "--mark-steps",
                               prefix=("strace", "-f", "-qq", "-s", "64", "-o", trace),
                               env=NO_LEAK_CHECK)
        self.assertEqual(process.wait(300), 0, process.err())
        marked, calls = forbidden_calls(trace.read_text(errors="replace"))
        self.assertEqual(marked, STEPS, "the marks themselves are in the trace")
        return calls

    def test_with_agent_and_server(self):
        server = self.server()
        agent = self.agent(server.grpc)
        self.assertEqual(self.calls_in_steps(agent.address), [])

    def test_with_nobody_there(self):
        self.assertEqual(self.calls_in_steps(f"unix:{self.folder}/nobody.sock"), [])

    def test_with_a_recording(self):
        self.assertEqual(self.calls_in_steps(f"file:{self.folder}/run.fsk"), [])


if __name__ == "__main__":
    harness.main()
