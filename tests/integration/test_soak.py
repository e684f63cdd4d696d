"""A short soak (soak_agent.py; scripts/soak agent runs the long one): kills under load, every frame once or counted."""

import unittest

import harness
from soak_agent import Soak


class Short(harness.Case):
    def soak(self, seed, **kills):
        soak = Soak(self, seed, kills, ranks=4, layers=8, rate=20)
        print(soak.check(soak.run()))

    def test_agent_server_and_both_killed_twice_each(self):
        self.soak(1, agent=2, server=2, both=2)


if __name__ == "__main__":
    harness.main()
