"""Every command that README and docs show is executed, or is named here with where it is executed instead.

A new command in a ```sh block that is in neither list fails the test. Commands run as written, except that build/bin is the build
under test, localhost:7070 the test's own server, and what would run for minutes gets fewer steps.
"""

import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import BIN, SOURCE, until

SKIPPED_FOLDERS = ("docs/design", "docs/formats", "docs/rules")
# Pattern of a command: why it is not run here.
ELSEWHERE = {
    r"scripts/quickstart": "a newcomer's machine runs it: installs packages and builds",
    r"scripts/test": "runs this",
    r"scripts/deploy-test": "runs the tests beside this one with tools from PyPI",
    r"cmake --preset": "continuous integration runs it",
    r"python3 -m venv|build/tools/venv/bin/": "scripts/deploy-test does it",
    r"pip install \./sdk/python|python -m foreshock|scripts/python-test": "scripts/python-test does it, with PyTorch",
    r"PYTHONPATH=lab:|foreshock replay runs/": "lab/tests runs the laboratory in miniature, with PyTorch",
    r"sudo ": "changes the machine; scripts/package-test installs the same files in a chroot",
    r"cc -O3 train_gpt2\.c|FORESHOCK_RUN=gpt2-first": "llm.c cannot be had here; ctest trainer_lines compiles and runs the lines",
    r"docker compose|docker build|kubectl ": "no container runtime here; test_deploy_units.py checks their files",
    r"build/bin/foreshock up": "test_cli.py: starts both, trains, stops both",
}


def commands():
    """(file, command) of every shell block; lines that end in a backslash are joined, comments taken off."""
    git = ["git", "ls-files", "*.md"] if shutil.which("git") else ["false"]
    listed = subprocess.run(git, cwd=SOURCE, capture_output=True, text=True, check=False)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.md") if not p.relative_to(SOURCE).parts[0].startswith("build")]
    for name in sorted(names):
        if name.startswith(SKIPPED_FOLDERS):
            continue
        for block in re.findall(r"^```sh\n(.*?)^```", (SOURCE / name).read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                command = re.sub(r"(^|\s+)#\s.*$", "", line).strip()
                if command:
                    yield name, command


class Docs(harness.Case):
    def setUp(self):
        super().setUp()
        self.daemon = self.server()
        self.node = self.agent(self.daemon.grpc)
        self.train(self.node.address, "gpt-small-7", 40, name="small")
        self.train(f"file:{self.folder}/run.jsonl", "recorded", 40, name="recorded")
        self.trainer("--foreshock", self.node.address, "--run", "demo", "--steps", 1000000, "--quiet", name="demo")
        self.await_end(self.daemon, "gpt-small-7")
        until(lambda: (self.run_of(self.daemon, "demo") or {"last_step": 0})["last_step"] >= 20, "steps of demo")

    def adapted(self, command):
        """What is run, and exit statuses that are fine."""
        command = command.replace("build/bin/", f"{BIN}/").replace("localhost:7070", self.daemon.http)
        if shutil.which("jq") is None:
            command = re.sub(r"\s*\|\s*jq .*$", "", command)
        if command.startswith("curl"):
            command = command.replace("curl -s", "curl -sS --fail-with-body", 1)
        if "foreshock-trainer" in command:
            command += f" --steps 30 --data {self.text()} --quiet"
        # watch and alerts say by 1 that something critical fires
        return command, (0, 1) if re.search(r"foreshock (watch|alerts)", command) else (0,)

    def test_every_command_works(self):
        ran, named = 0, 0
        for name, command in commands():
            with self.subTest(f"{name}: {command}"):
                if any(re.match(pattern, command) for pattern in ELSEWHERE):
                    named += 1
                    continue
                self.assertRegex(command, r"^(build/bin/|curl )", "neither run here nor named in ELSEWHERE")
                line, fine = self.adapted(command)
                env = self.environment({"FORESHOCK_SERVER": self.daemon.grpc, "PATH": os.environ["PATH"]})
                done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=env, capture_output=True,
                                      text=True, timeout=harness.DEADLINE_S * 2, check=False)
                self.assertIn(done.returncode, fine, f"{line}\n{done.stdout[-800:]}{done.stderr[-800:]}")
                ran += 1
        print(f"{ran} commands run, {named} named with where they are")
        self.assertGreaterEqual(ran, 7)

    def test_what_is_named_is_still_shown(self):
        shown = [command for _, command in commands()]
        for pattern in ELSEWHERE:
            if pattern.startswith(("scripts/deploy-test", "docker", "build/bin")):
                continue  # alternatives, and pages that may not show them
            self.assertTrue(any(re.match(pattern, command) for command in shown), pattern)

    def test_links_between_pages_lead_somewhere(self):
        for path in sorted([*SOURCE.glob("*.md"), *SOURCE.glob("docs/**/*.md"), *SOURCE.glob("deploy/**/*.md")]):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue((path.parent / target).exists(), f"{path.relative_to(SOURCE)}: {target}")


if __name__ == "__main__":
    harness.main()
