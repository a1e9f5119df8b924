"""Memory beyond the input is a few blocks and d x d matrices; blocks on a GPU follow the memory that is free."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fisherleak.rows import block_elements, memory

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


@pytest.mark.parametrize(
    ("free", "values"),
    [(None, 2**26), (0, 2**18), (2**30, 2**22), (24 * 10**9, 2**26), (130 * 2**30, 2**29), (10**15, 2**29)],
)
def test_blocks_on_a_gpu_follow_its_free_memory(free: int | None, values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "on_accelerator", lambda x: True)
    monkeypatch.setattr(memory, "free_on_device", lambda x: free)
    assert block_elements(np.empty(0)) == values
    assert free is None or values == 2**18 or values * memory.BYTES <= free


def test_blocks_elsewhere_do_not() -> None:
    assert block_elements(np.empty(0)) == memory.BLOCK_ELEMENTS
