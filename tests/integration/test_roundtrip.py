"""What the SDK computed is what the JSON query gives back, bit for bit, over unix:, file: and grpc://.

The trainer is deterministic: the same seed gives the same bits each time. A framed recording, decoded without any of
Foreshock's code, is compared with the answers of a server that got the same run over each transport.
"""

import unittest

import harness
import recording

# What the example trainer has not: it trains in fp32, without learned sinks. sinks_trainer.cc has both.
ABSENT = {"loss_scale", "learned_sink_weight_mean"}

# Measured by clocks: they differ from run to run.
TIMED = {"step_seconds", "probe_host_seconds", "probe_device_seconds", "sampling_interval"}


def expected_of(frame, names):
    """{(signal, layer): {head: None or (value bits, weight bits)}} of one frame."""
    out = {}
    for series in frame["series"]:
        name = names[series["signal"]]
        if name in TIMED:
            continue
        heads = series["heads"] or [0]
        out[(name, series["layer"])] = {
            head: None if entry is None else (entry[0][0], entry[1]) for head, entry in zip(heads, series["entries"])}
    return out


def answered(step, ratios):
    """The same of a StepReply in JSON."""
    out = {}
    frame = step["frame"]
    for name, one in frame["scalars"].items():
        if name not in TIMED:
            out[(name, None)] = {0: entry_of(one["value"] if "value" in one else one, one.get("weight"))}
    for series in frame["series"]:
        weights = series.get("weights") or [None] * len(series["values"])
        out[(series["signal"], series["layer"])] = {
            head: entry_of(value, weight)
            for head, value, weight in zip(series["heads"], series["values"], weights)}
    return out


def entry_of(value, weight):
    if value is None:
        return None
    if isinstance(value, dict):  # a ratio: what was computed is numerator and weight
        return recording.bits(value["numerator"]), None if value["weight"] is None else recording.bits(value["weight"])
    return recording.bits(value), None if weight is None else recording.bits(weight)


class RoundTrip(harness.Case):
    def compare(self, train, steps, must_hold=lambda entries: None):
        """Runs train(address, run) over each transport; the names of the signals that it has shown."""
        path = self.folder / "run.fsk"
        train(f"file:{path}", "recorded")
        frames = {f["step"]: f for f in recording.frames(path)}
        self.assertEqual(sorted(frames), list(range(steps)))
        server = self.server()
        agent = self.agent(server.grpc)
        catalogue = self.get(server, "/api/v1/catalogue")["signals"]
        names = {s["id"]: s["name"] for s in catalogue}
        self.catalogue = set(names.values())
        for run, address in (("over-unix", agent.address), ("over-grpc", f"grpc://{server.grpc}")):
            train(address, run)
            self.await_end(server, run)
            for number in range(steps):
                step = self.get(server, f"/api/v1/runs/{run}/step/{number}", exact="true", rank=0)
                expected, got = expected_of(frames[number], names), answered(step, None)
                self.assertEqual(sorted(map(str, got)), sorted(map(str, expected)), f"{run} step {number}")
                for key, heads in expected.items():
                    self.assertEqual(sorted(got[key]), sorted(heads), f"{run} step {number} {key}")
                    for head, entry in heads.items():
                        self.same(got[key][head], entry, f"{run} step {number} {key} head {head}")
        must_hold([e for f in frames.values() for heads in expected_of(f, names).values() for e in heads.values()])
        return {name for f in frames.values() for name, _ in expected_of(f, names)}

    def same(self, got, expected, where):
        if expected is None or got is None:
            self.assertEqual(got, expected, where)
            return
        self.assertTrue(recording.same(got[0], expected[0]), f"{where}: value {got[0]:#x}, computed {expected[0]:#x}")
        if expected[1] is not None:
            self.assertIsNotNone(got[1], where)
            self.assertTrue(recording.same(got[1], expected[1]), f"{where}: weight {got[1]:#x} {expected[1]:#x}")

    def example(self, steps, *flags):
        return lambda address, run: self.train(address, run, steps, *flags, name=run)

    def test_every_signal_of_a_healthy_run(self):
        signals = self.compare(self.example(31, "--snapshot-bytes", "1000000"), 31)
        self.assertEqual(self.catalogue - signals - TIMED, ABSENT)

    def test_the_signals_that_the_example_has_not(self):
        def train(address, run):
            process = self.start(run, [harness.BIN / "fs_tests_sinks_trainer", address, run, 12])
            self.assertEqual(process.wait(), 0, process.err())
        self.assertLessEqual(ABSENT, self.compare(train, 12))

    def test_a_run_full_of_not_finite_values(self):
        def holds(entries):
            words = [e[0] for e in entries if e is not None]
            self.assertTrue(any(w & 0x7F800000 == 0x7F800000 for w in words), "nothing was NaN or Inf: no test")
        self.compare(self.example(25, "--lr", "1000", "--warmup", "0"), 25, holds)


if __name__ == "__main__":
    harness.main()
