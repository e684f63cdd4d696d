"""The dashboards' JSON is what dashboards/generate makes of this build's catalogue, and is valid to the SDK's schema.

Needs grafana-foundation-sdk, in this Python or in the one that FORESHOCK_TOOLS_PYTHON names; skipped without it.
"""

import json
import subprocess
import sys
import unittest

import harness
import tools_python
from harness import BIN, SOURCE

ROUND_TRIP = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
register_default_plugins()
given = json.load(sys.stdin)
print(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))
"""


class Current(unittest.TestCase):
    def test_json_is_current(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "dashboards/generate", "--check", "--program",
                               BIN / "foreshock"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_new_signal_appears_by_itself(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import json\n"
                   "from grafana_foundation_sdk.cog.encoder import JSONEncoder\n"
                   "from foreshock_dashboards import catalogue, run, heads\n"
                   "signals = catalogue.load(sys.argv[2])\n"
                   "signals.append(catalogue.Signal(250, 'brand_new', '1', True, 'what nobody has thought of yet'))\n"
                   "print(json.dumps([m.build(signals).build() for m in (run, heads)], cls=JSONEncoder))\n")
        done = subprocess.run([sys.executable, "-B", "-c", program, SOURCE / "dashboards", BIN / "foreshock"],
                              capture_output=True, text=True, check=True)
        run, heads = json.loads(done.stdout)
        self.assertIn('foreshock_brand_new{run=', json.dumps(run).replace('\\"', '"'))
        self.assertIn("brand_new", json.dumps(heads["templating"]))

    def test_json_is_valid_to_the_schema(self):
        """What the schema does not know is lost on the way through its types, and what has the wrong type fails."""
        for path in sorted((SOURCE / "dashboards").glob("foreshock-*.json")):
            with self.subTest(path.name):
                given = json.loads(path.read_text())
                done = subprocess.run([sys.executable, "-c", ROUND_TRIP], input=json.dumps(given), capture_output=True,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout), given)


if __name__ == "__main__":
    tools_python.run_with("grafana_foundation_sdk")
    harness.main()
