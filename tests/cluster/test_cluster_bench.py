"""The benchmark of the cluster works, and says what it is for."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cluster.chaos.nodes import ROOT


def test_it_works_in_a_small_run(tmp_path: Path) -> None:
    command = [sys.executable, "bench/cluster.py", "--quick", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert (done.returncode, done.stderr) == (0, "")
    for kind in (
        "INSERT, 256 in flight",
        "SELECT at ONE, 256 in flight, any node",
        "INSERT IF NOT EXISTS, 1 in flight",
    ):
        for side in ("alone", "1 replica", "3 replicas"):
            assert re.search(rf"^{kind} +{side} +[\d,]+/s", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"can be written again [\d.]+ s after its primary was killed", done.stdout)
    assert re.search(r"belvedere\.sim\.replication: [\d,]+ seeds a minute", done.stdout)
    assert not list(tmp_path.iterdir())
