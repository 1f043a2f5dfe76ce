#!/usr/bin/python3
"""broker_load_test -- 200 connected jobs asking at random are never over budget. timeout: 120

Runs the benchmark for a second under two policies: it fails by itself if a region has two
owners, a word in a held region changes, or jobs hold more than the budget.
"""
import json
import os
import subprocess
import sys

BUILD = os.environ.get("ZI_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "../../build/dev")


def main():
    for policy in ("spatial", "zico"):
        done = subprocess.run([os.path.join(BUILD, "bench/broker_load"), "--jobs", "200", "--seconds",
                               "1", "--policy", policy, "--json"],
                              stdout=subprocess.PIPE, text=True, timeout=100)
        print(done.stdout.strip())
        if done.returncode != 0:
            return 1
        said = json.loads(done.stdout)
        assert said["over_budget"] == 0, said
        assert 0 < said["most_held_bytes"] <= said["budget_bytes"], said
        assert said["decisions"] > 1000 and said["grants"] > 100, said
        assert said["decide_p99_ns"] >= said["decide_p50_ns"] > 0, said
    return 0


if __name__ == "__main__":
    sys.exit(main())
