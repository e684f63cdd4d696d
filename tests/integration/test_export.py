"""A run's signals as CSV and as Parquet, read back by others."""

import csv
import importlib.util
import subprocess
import sys
import unittest

import harness

SCRIPT = harness.SOURCE / "sdk" / "python" / "src" / "foreshock" / "export.py"


def have(*packages):
    return all(importlib.util.find_spec(package) for package in packages)


class Export(harness.Case):
    def setUp(self):
        super().setUp()
        self.history = self.server()
        agent = self.agent(self.history.grpc)
        self.train(agent.address, "team/run", 60)
        self.await_end(self.history, "team/run")

    def export(self, *arguments, status=0):
        done = subprocess.run([sys.executable, "-B", str(SCRIPT), "team/run", "--server",
                               f"http://{self.history.http}", *map(str, arguments)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=harness.DEADLINE_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def expected(self):
        """(step, signal, layer, head) -> value, as the API has it, of loss and one signal of heads."""
        out = {}
        for signal in ("loss", "logit_max"):
            for point in self.get(self.history, "/api/v1/runs/team%2Frun/series", signal=signal)["points"]:
                series = point["series"]
                for place, head in enumerate(series.get("heads") or [None]):
                    value = series["values"][place]
                    out[point["step"], signal, series.get("layer"), head] = value["value"] if isinstance(value, dict) else value
        return out

    def test_csv_holds_every_value(self):
        table = list(csv.DictReader(self.export("--csv", "-", "--signal", "loss,logit_max").splitlines()))
        got = {(int(r["step"]), r["signal"], int(r["layer"]) if r["layer"] else None, int(r["head"]) if r["head"] else None):
               float(r["value"]) if r["value"] else None for r in table}
        self.assertEqual(got, self.expected())
        self.assertGreater(len(got), 60)
        self.assertEqual({r["run"] for r in table}, {"team/run"})

    def test_a_range_and_what_is_wrong(self):
        table = list(csv.DictReader(self.export("--csv", "-", "--signal", "loss", "--from", 10, "--to", 19).splitlines()))
        steps = {int(r["step"]) for r in table}
        self.assertTrue(steps and steps <= set(range(10, 20)), steps)
        self.assertIn("nope", self.export("--csv", "-", "--signal", "nope", status=1))
        self.assertIn("no attempt 'x'", self.export("--csv", "-", "--attempt", "x", status=1))

    @unittest.skipUnless(have("pyarrow"), "needs pyarrow")
    def test_parquet_is_what_pandas_and_duckdb_read(self):
        path = self.folder / "run.parquet"
        self.export("--parquet", path)
        import pyarrow.parquet
        table = pyarrow.parquet.read_table(path).to_pylist()
        got = {(r["step"], r["signal"], r["layer"], r["head"]): r["value"] for r in table
               if r["signal"] in ("loss", "logit_max")}
        self.assertEqual(got, self.expected())
        if have("pandas"):
            import pandas
            frame = pandas.read_parquet(path)
            self.assertEqual(len(frame), len(table))
        if have("duckdb"):
            import duckdb
            (count,), = duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE signal = 'loss'").fetchall()
            self.assertEqual(count, sum(r["signal"] == "loss" for r in table))


if __name__ == "__main__":
    harness.main()
