"""The interpreters and softmetal agree on which programs race."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ordered_programs import text_of

_SCRIPT = """
import json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from ordered_programs import kernel_of, races
said = {}
for seed in range(int(sys.argv[3])):
    kernel = kernel_of(seed, Path(sys.argv[2]))
    said[seed] = [races(kernel, "interp")]
    for device in ("interp:metal", "softmetal"):
        said[seed].append(races(kernel, device, num_simdgroups=1 + seed % 2))
json.dump(said, sys.stdout)
"""


def test_all_agree_on_which_programs_race(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, tests, str(tmp_path), "60"],
        env={**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    said = json.loads(done.stdout)
    for seed, verdicts in said.items():
        assert len(set(verdicts)) == 1, (verdicts, text_of(int(seed)))
    racy = sum(verdicts[0] for verdicts in said.values())
    assert 15 <= racy <= 45
