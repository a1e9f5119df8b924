"""The room as a whole: what it loads, what it says without torch, and the pages about it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.long
def test_torch_is_loaded_with_the_first_call_that_needs_it_or_one_sentence_says_what_to_install() -> None:
    code = """
import sys
import fisherleak as fl

fl.nn.encoding, fl.nn.SGDAccountant, fl.nn.on
print("torch" in sys.modules)

class Absent:
    def find_spec(self, name, *others):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
try:
    fl.nn.encoding(None, [[1.0]], fl.Gaussian(1.0))
except fl.FisherleakError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nfisherleak.nn needs torch: pip install 'fisherleak[torch]'.\n"


def test_the_code_of_the_page_runs() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs/networks.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(code, names)  # noqa: S102 - our own pages
    assert names["done"].inputs.shape == (3, 1, 8, 8)
