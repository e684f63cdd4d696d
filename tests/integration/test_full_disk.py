"""The agent's disk is full while the server is away, then freed: it says so, goes on by itself, and loses nothing acknowledged."""

import json
import subprocess

import harness
from harness import until
from soak_agent import Soak

MIB = 1 << 20


class FullDisk(harness.Case):
    def small_disk(self, folder, mib, balloon_mib):
        """A command's prefix: at the folder it sees a disk of that size, part of which is taken until the returned file is there."""
        free = self.folder / "free"
        folder.mkdir()
        mount = f"mount -t tmpfs -o size={mib}m none {folder}"
        inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
        probe = subprocess.run([*inside, mount], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"no user namespaces with mounts here: {probe.stderr.decode().strip()}")
        return free, (*inside, f"{mount}; head -c {balloon_mib * MIB} /dev/zero > {folder}/balloon; "
                      f"(while [ ! -e {free} ] && [ -d {self.folder} ]; do sleep 0.05; done; rm -f {folder}/balloon) >/dev/null 2>&1 & exec \"$@\"", "sh")

    def status(self, agent):
        return json.loads(agent.status.read_text())

    def test_full_then_freed(self):
        server = self.server()
        free, self.prefixes["agent"] = self.small_disk(self.folder / "agent.spool", 40, 30)
        agent = self.agent(server.grpc)
        soak = Soak(self, seed=1, kills={}, ranks=2, layers=96, rate=40)
        soak.server, soak.agent = server, agent
        soak.load = self.start("load", [harness.BIN / "fs_tests_load", agent.address, "run=load", "ranks=2", "layers=96",
                                        "rate=40", f"window={2 * MIB}"])
        until(lambda: self.run_of(server, "load"), "the first frames on the server")
        server.kill9()
        until(lambda: self.status(agent)["spool"]["refused_disk"] > 0, "the disk to be full")
        until(lambda: "disk is full" in self.status(agent)["health"], lambda: f"the agent to say so: {self.status(agent)['health']}")
        report = self.cli("doctor", "--agent", agent.address, server=self.server("other").grpc, status=1)
        self.assertIn("disk is full", report)
        pending = self.status(agent)["spool"]["pending"]
        free.touch()
        until(lambda: self.status(agent)["spool"]["pending"] > pending + 50, "the spool to take records again")
        self.assertNotIn("disk is full", self.status(agent)["health"])
        soak.server = self.server("server", None, grpc=server.grpc, http=server.http)
        soak.load.signal(15)
        self.assertEqual(soak.load.wait(600), 0, soak.load.err())
        print(soak.check([json.loads(line) for line in soak.load.out().splitlines()]))


if __name__ == "__main__":
    harness.main()
