"""The pages that say how to extend the package: their code runs as it stands, with public names only, and does what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fisherleak as fl

pytest.importorskip("pandas")
Check = Callable[[dict[str, Any], str], None]
DOCS = Path(__file__).parent.parent / "docs"


def a_noise(names: dict[str, Any], said: str) -> None:
    noise, leak = names["noise"], names["leak"]
    assert type(noise).__name__ == "Logistic"
    assert type(noise).from_record(noise.record()) == noise
    assert leak.with_noise(noise).per_example().max() <= 1.0
    assert names["released"].noise == noise
    assert said.count("white-box with prior on x1") == 2


def an_attacker(names: dict[str, Any], said: str) -> None:
    attack = names["attack"]
    model, X, y = names["model"], names["X"], names["y"]
    miss = [abs(model.predict(X.assign(sex=value)) - y) for value in attack.values]
    np.testing.assert_array_equal(attack.infer(), np.array(attack.values)[np.argmin(miss, axis=0)])
    assert said.count("best fit on sex") == 2
    assert 0.5 < attack.against(fl.Laplace(1.0)).accuracy < 1.0


PAGES: list[tuple[str, Check]] = [
    ("add-a-noise", a_noise),
    ("add-an-attacker", an_attacker),
]
"""Each page with a check of the names that its code leaves and of what it printed."""


@pytest.fixture
def lists_as_they_were() -> Iterator[None]:
    """What a page adds to the package's lists is taken out again."""
    lists: list[dict[str, Any]] = [fl.NOISES, fl.LOSSES]
    before = [dict(listed) for listed in lists]
    yield
    for listed, kept in zip(lists, before, strict=True):
        listed.clear()
        listed.update(kept)


@pytest.mark.usefixtures("lists_as_they_were")
@pytest.mark.parametrize(("page", "check"), PAGES, ids=[page for page, _ in PAGES])
def test_a_page_does_what_it_says(page: str, check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert code
    assert not re.search(r"\._[a-z]|import _", "".join(code)), "a page shows public names only"
    names: dict[str, Any] = {}
    for block in code:
        exec(block, names)  # noqa: S102 - our own pages
    check(names, capsys.readouterr().out)


def test_every_page_is_listed_and_linked() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page, _ in PAGES:
        assert f"\n{page}\n" in index


@pytest.mark.usefixtures("lists_as_they_were")
def test_a_noise_that_remembers_no_calibration_warns_when_its_scale_is_found() -> None:
    """Its release could not: it does not know where the scale comes from."""
    text = (DOCS / "add-a-noise.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(re.sub(r" +calibrated:.*\n", "", code), names)  # noqa: S102 - our own pages
    X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    leak = fl.measure(fl.minimise(X, y), X, y, noise=names["Logistic"](1.0))
    with pytest.warns(fl.UncountedScaleWarning, match="computed from the rows present"):
        fl.calibrate(leak, eta=1.0)
