"""The code that the README and the guide show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
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


def test_how_to_add_a_kind_of_model() -> None:
    pytest.importorskip("pyarrow")
    import pandas

    from fisherleak.training.model_kinds import KINDS

    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, 90)
    table = pandas.DataFrame({"age": age, "height": rng.normal(170, 9, 90), "income": age + rng.normal(size=90)})
    names: dict[str, Any] = {"table": table}
    before = list(KINDS)
    try:
        for code in snippets("docs/add-a-kind-of-model.md"):
            exec(code, names)  # noqa: S102 - our own pages
    finally:
        KINDS[:] = before
    assert names["result"].trained.kind.words == "pseudo-Huber regression"


@pytest.mark.parametrize("page", ["interfaces", "mechanisms", "clients"])
def test_ways_in_which_a_model_leaves(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in snippets(f"docs/{page}.md"):
        exec(code, names)  # noqa: S102 - our own pages
    if page == "interfaces":
        assert names["scores"].with_noise(names["quiet"]).per_example().max() <= 0.5
    elif page == "mechanisms":
        assert names["leak"].with_noise(names["drawn"]).per_example().max() <= 0.5
    else:
        assert names["rounds"].per_example().max() == pytest.approx(1.0)
