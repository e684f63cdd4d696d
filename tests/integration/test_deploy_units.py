"""What deploys Foreshock and can be judged without its tools: units, compose file and manifests agree with the programs."""

import re
import shutil
import subprocess
import unittest

import harness
from harness import BIN, SOURCE

DEPLOY = SOURCE / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MOST_EXPOSURE = 2.0


def flags_of(program):
    done = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))


class Units(unittest.TestCase):
    def test_exposure_is_as_low_as_stated(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        readme = (DEPLOY / "systemd" / "README.md").read_text()
        self.assertEqual(len(UNITS), 3)
        for unit in UNITS:
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True,
                                  text=True, check=False)
            score = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertIsNotNone(score, done.stdout + done.stderr)
            self.assertLessEqual(float(score.group(1)), MOST_EXPOSURE, unit.name)
            if "systemd 252" in subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True,
                                               check=True).stdout:
                self.assertIn(f"| {unit.name} | {score.group(1)} |", readme)

    def test_flags_that_are_used_exist(self):
        server, agent = flags_of("foreshockd"), flags_of("foreshock-agent")
        used = {"foreshockd": set(), "foreshock-agent": set()}
        for unit in UNITS:
            line = re.search(r"ExecStart=/usr/bin/(\S+) (.*)", unit.read_text())
            if line.group(1) in used:
                used[line.group(1)] |= set(re.findall(r"--[a-z-]+", line.group(2)))
        used["foreshock-agent"] |= set(re.findall(r"--[a-z][a-z-]+", (DEPLOY / "systemd" / "agent.env").read_text()))
        manifest = (DEPLOY / "kubernetes" / "server.yaml").read_text()
        used["foreshockd"] |= set(re.findall(r"- (--[a-z-]+)=", manifest))
        used["foreshock-agent"] |= set(re.findall(r"- (--[a-z-]+)", (DEPLOY / "kubernetes" / "agent.yaml").read_text()))
        self.assertTrue(used["foreshockd"] and used["foreshock-agent"])
        self.assertLessEqual(used["foreshockd"], server)
        self.assertLessEqual(used["foreshock-agent"], agent)


class Files(unittest.TestCase):
    def test_compose_and_kustomize_name_files_that_exist(self):
        compose = DEPLOY / "docker" / "compose.yml"
        text = compose.read_text()
        named = re.findall(r"(?:- |\[\")((?:\.\.?/)[\w./-]+):/", text)
        self.assertGreaterEqual(len(named), 4)
        for path in named:
            self.assertTrue((compose.parent / path).exists(), path)
        for path in re.findall(r"dockerfile: ([\w./-]+)", text):
            self.assertTrue((SOURCE / path).exists(), path)
        listed = re.findall(r"  - ([\w./-]+\.(?:yaml|conf))", (DEPLOY / "kustomization.yaml").read_text())
        self.assertEqual({p for p in listed if p.startswith("kubernetes/")},
                         {f"kubernetes/{p.name}" for p in (DEPLOY / "kubernetes").glob("*.yaml")})
        for path in listed:
            self.assertTrue((DEPLOY / path).exists(), path)

    def test_every_shard_has_agents_of_its_own(self):
        script = DEPLOY / "kubernetes" / "shards"
        made = subprocess.run([script, "3"], capture_output=True, text=True, check=True).stdout
        sets = [(DEPLOY / "kubernetes" / "agent.yaml").read_text().split("\n---\n")[1], *made.split("---\n")[1:]]
        self.assertEqual(len(sets), 3)
        for shard, text in enumerate(sets):
            self.assertEqual(re.findall(r"^  name: (\S+)$", text, re.MULTILINE), [f"foreshock-agent-{shard}"])
            self.assertEqual(set(re.findall(r'foreshock.dev/shard: (\S+)', text)), {f'"{shard}"'})
            self.assertEqual(re.findall(r"foreshock-server-(\d+)\.", text), [str(shard)])
        self.assertEqual(re.sub(r"\b[012]\b", "N", sets[1].strip()), re.sub(r"\b[012]\b", "N", sets[2].strip()))
        for wrong in ("", "1", "two", "65"):
            done = subprocess.run([script, *wrong.split()], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("shards: ", done.stderr)

    def test_the_sample_configuration_is_taken(self):
        config = DEPLOY / "systemd" / "foreshockd.yml"
        # An address that cannot be listened on ends it after the file was read: exit status 2 would be the file's fault.
        done = subprocess.run([BIN / "foreshockd", "--config", config, "--data", "/dev/null/no", "--grpc", "127.0.0.1:0", "--http",
                               "127.0.0.1:0"], capture_output=True, text=True, timeout=harness.DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("data folder", done.stderr)

    def test_docker_installs_what_the_build_needs(self):
        lib = (SOURCE / "scripts" / "lib.sh").read_text()
        needed = set(re.search(r"FS_BUILD_PACKAGES=\(([^)]*)\)", lib).group(1).split()) - {"ccache"}
        installed = set((DEPLOY / "docker" / "Dockerfile").read_text().replace("\\", " ").split())
        self.assertLessEqual(needed, installed)


if __name__ == "__main__":
    harness.main()
