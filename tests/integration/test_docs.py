"""Every command that README and docs show is executed, or is named here with where it is executed instead.

A new command in a ```sh block that is in neither list fails the test. Of commands within a sentence the words and flags are
looked up in --help. Commands run as written, except that build/bin is the build under test, localhost:7070 the test's own
server, and what would run for minutes gets fewer steps.
"""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness
from harness import BIN, SOURCE, until

SKIPPED_FOLDERS = ("docs/design",)  # dated: they tell what was true then
# Pattern of a command: why it is not run here.
ELSEWHERE = {
    r"scripts/quickstart": "a newcomer's machine runs it: installs packages and builds",
    r"scripts/test": "runs this",
    r"scripts/deploy-test": "runs the tests beside this one with tools from PyPI",
    r"cmake --preset": "continuous integration runs it",
    r"python3 -m venv|build/tools/venv/bin/": "scripts/deploy-test does it",
    r"pip install \./sdk/python|python -m foreshock|foreshock doctor --model|scripts/python-test": "scripts/python-test does it, with PyTorch",
    r"scripts/python-wheel --target|pip install foreshock-": "needs another processor's compiler, and such a machine",
    r"cmake --install build-aarch64|pip download .*nvidia-cuda|for wheel in wheels": "scripts/aarch64-test builds it, without CUDA",
    r"PYTHONPATH=lab:|foreshock replay runs/": "lab/tests runs the laboratory in miniature, with PyTorch",
    r"CUDA_INJECTION64_PATH=|FORESHOCK_CUPTI=": "needs a GPU",
    r"sudo ": "changes the machine; scripts/package-test installs the same files in a chroot",
    r"cc -O3 train_gpt2\.c|FORESHOCK_RUN=gpt2-first": "llm.c cannot be had here; ctest trainer_lines compiles and runs the lines",
    r"docker compose|docker build|kubectl ": "no container runtime here; test_deploy_units.py checks their files",
    r"openssl req|foreshock token create|.*--tls-c|.*--cacert": "test_security.py: certificates, tokens, and programs that use them",
    r"build/bin/foreshock (move|show|delete) gpt-7 ": "test_move.py: between two servers",
    r"build/bin/foreshock up": "test_cli.py: starts both, trains, stops both",
}


def pages():
    """(file, text) of every page that is not dated."""
    git = ["git", "ls-files", "*.md"] if shutil.which("git") else ["false"]
    listed = subprocess.run(git, cwd=SOURCE, capture_output=True, text=True, check=False)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.md") if not p.relative_to(SOURCE).parts[0].startswith("build")]
    for name in sorted(names):
        if not name.startswith(SKIPPED_FOLDERS):
            yield name, (SOURCE / name).read_text()


def blocks(language):
    """(file, text) of every block of that language."""
    for name, text in pages():
        for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            yield name, block


def commands():
    """(file, command) of every shell block; lines that end in a backslash are joined, comments taken off."""
    for name, block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"(^|\s+)#\s.*$", "", line).strip()
            if command:
                yield name, command


def added(diff):
    """Lines that a diff adds."""
    return [line[1:] for line in diff.splitlines() if line.startswith("+")]


def spoken():
    """(file, command) of every command of a Foreshock program within a sentence, e.g. `foreshock heads RUN --json`."""
    for name, text in pages():
        text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"`([^`]+)`", text):
            if re.match(r"(build/bin/)?(foreshock|foreshockd|foreshock-agent|foreshock-store|foreshock-trainer) [-a-z]", span):
                yield name, " ".join(span.removeprefix("build/bin/").split())


class Words(unittest.TestCase):
    """What needs no server."""

    def help_of(self, *words):
        done = subprocess.run([BIN / words[0], *words[1:], "--help"], capture_output=True, text=True, check=False,
                              timeout=harness.DEADLINE_S)
        return done.stdout if done.returncode == 0 else None

    def test_commands_within_sentences_are_known(self):
        seen = 0
        for name, command in spoken():
            with self.subTest(f"{name}: {command}"):
                words = command.split()
                verbs = [words[0]]
                for word in words[1:]:
                    if not re.fullmatch(r"[a-z][a-z-]*", word):
                        break
                    above, below = self.help_of(*verbs), self.help_of(*verbs, word)
                    if below == above:
                        break
                    self.assertRegex(above, rf"\b{word}\b", f"no such command: {' '.join(verbs)} {word}")
                    if below is None:
                        break  # foreshock-store tells of its verbs in one text
                    verbs.append(word)
                known = set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", self.help_of(*verbs) or ""))
                self.assertLessEqual({w.split("=")[0] for w in words if re.match(r"--?[A-Za-z]", w)}, known)
                seen += 1
        self.assertGreater(seen, 20)

    def test_names_of_the_python_package_exist(self):
        package = SOURCE / "sdk" / "python" / "src" / "foreshock"
        exported = set(re.findall(r"\w+", (package / "__init__.py").read_text())) | {p.stem for p in package.glob("*.py")}
        code = [*blocks("python"), *((name, "\n".join(added(block))) for name, block in blocks("diff"))]
        used = {(name, word) for name, block in code for word in re.findall(r"(?<![.\w])foreshock\.(?!h\b)([a-z]\w*)", block)}
        self.assertGreater(len(used), 5)
        for name, word in used:
            self.assertIn(word, exported, f"{name}: foreshock.{word}")

    def test_a_trainer_needs_less_than_20_lines(self):
        found = {}
        for name, block in blocks("diff"):
            found[name] = found.get(name, 0) + len(added(block))
        self.assertEqual({pathlib.Path(name).name for name in found}, {"llm.c.md", "megatron.md", "torchtitan.md"})
        for name, count in found.items():
            self.assertLess(count, 20, name)


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
