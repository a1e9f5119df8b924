"""The code that the README and the guide show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
pytest.importorskip("pandas")


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def test_the_readme_and_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in snippets("README.md") + snippets("docs/using.md") + snippets("docs/attacks.md"):
        exec(code, names)  # noqa: S102 - our own pages
    assert names["leak"].per_example(["age"]).max() > 0
    assert "most exposed" in capsys.readouterr().out
