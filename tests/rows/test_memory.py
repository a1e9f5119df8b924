"""Memory beyond the input is a few blocks and d x d matrices."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from pathlib import Path
import numpy as np
import fisherleak as fl

n, d, loss = 1_000_000, 100, sys.argv[1]
rng = np.random.default_rng(0)
X = np.empty((n, d))
for start in range(0, n, 10_000):
    rng.standard_normal(out=X[start : start + 10_000])
y = (X[:, 0] + rng.standard_normal(n) > 0) * 1.0
leak = fl.measure(fl.minimise(X, y, loss, l2=1e-3), X, y)
assert leak.per_example().shape == (n,)
assert leak.dataset() > 0 and leak.per_attribute().shape == (d,)
unit = 1 if sys.platform == "darwin" else 1024
status = Path("/proc/self/status")  # its own peak; that of getrusage begins with the size of the process that started it
told = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else None
print((int(told) if told else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit / X.nbytes)
"""


@pytest.mark.long
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_million_rows_peak_below_one_and_a_half_times_the_data(loss: str) -> None:
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", SCRIPT, loss], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.5
