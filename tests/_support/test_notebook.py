"""How objects show themselves in a notebook: escaped, without scripts, in the page's own colours; numbers in every repr."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak._support.notebook import panel
from fisherleak.auditing.policy.policy import policy_of

pandas = pytest.importorskip("pandas")
HOSTILE = "<script>alert(1)</script>"


class Parsed(HTMLParser):
    """Elements that are closed in order, and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style", "scope"}
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["age", HOSTILE])
    table["b"] = rng.integers(0, 2, 60).astype(float)
    y = table.sum(axis=1).to_numpy() + rng.normal(size=60)
    model = Ridge().fit(table, y)
    leak = fl.measure(model, table, y, fl.Gaussian(0.5))
    ledger = fl.Ledger(tmp_path_factory.mktemp("ledger") / f"{table.shape[0]}.json")
    ledger.add(leak)
    return {
        "leak": leak,
        "fit": fl.minimise(table.to_numpy(), y, l2=0.1),
        "noise": fl.Gaussian(0.25),
        "laplace": fl.Laplace(0.125),
        "bounded": fl.Bounded(2.0),
        "shaped": fl.Gaussian(0.5, np.diag([1.0, 2.0])),
        "posterior": fl.Posterior(0.25),
        "perturbed": fl.ObjectivePerturbation(0.5),
        "ledger": ledger,
        "attacker": fl.attacks.WhiteBox(model, table, y, "b"),
        "membership": fl.attacks.Membership(model, table, y),
        "trimmed": fl.trim(Ridge(), table, y, max_eta=float(leak.per_example().max()) * 0.9, noise=fl.Gaussian(0.5)),
        "frontier": fl.protect(Ridge(), table, y, eta=1.0, penalties=[1.0], weightings=["none"], random_state=0),
    }


NAMES = [
    *("leak", "fit", "noise", "laplace", "bounded", "shaped", "posterior", "perturbed", "ledger", "attacker"),
    *("membership", "trimmed", "frontier"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_panel_is_escaped_and_has_no_colours_of_its_own(shown: dict[str, Any], name: str) -> None:
    html = shown[name]._repr_html_()
    parsed = Parsed(html)
    assert set(parsed.seen) <= {"div", "strong", "table", "tr", "th", "td"}
    assert not re.search(r"#[0-9a-f]{3}|rgb|url|expression", html)
    assert re.search(r"\d", parsed.text)


@pytest.mark.parametrize("name", NAMES)
def test_every_repr_has_a_number(shown: dict[str, Any], name: str) -> None:
    assert re.search(r"\d", repr(shown[name]))
    assert "object at" not in repr(shown[name])


def test_what_a_panel_says(shown: dict[str, Any]) -> None:
    leak = shown["leak"]
    text = Parsed(leak._repr_html_()).text
    assert HOSTILE in text
    assert f"{leak.per_example().max():.4g}" in text
    assert f"{leak.per_example().max():.4g} at most" in repr(leak)
    assert "0.25" in Parsed(shown["noise"]._repr_html_()).text
    assert f"{shown['attacker'].against(fl.Gaussian(1.0)).baseline:.1%}" in Parsed(shown["attacker"]._repr_html_()).text
    assert "above it now" in repr(shown["trimmed"])
    assert f"{shown['frontier'].best().loss:.4g}" in Parsed(shown["frontier"]._repr_html_()).text


def test_a_release_shows_nothing_that_is_not_released(shown: dict[str, Any]) -> None:
    """What is released has no panel that could hold more than its parameters and its noise."""
    released = fl.release(shown["fit"], fl.Gaussian(0.5), random_state=0)
    exact = [f"{value:.4g}" for value in np.asarray(shown["fit"].coef)]
    text = repr(released) + getattr(released, "_repr_html_", str)()
    assert not any(value in text for value in exact)


def test_texts_are_escaped() -> None:
    assert HOSTILE not in panel(HOSTILE, [(HOSTILE, HOSTILE)], HOSTILE)
    assert Parsed(panel(HOSTILE, [(HOSTILE, HOSTILE)], HOSTILE)).text.count(HOSTILE) == 4


@pytest.mark.parametrize("name", ["frontier", "ledger"])
def test_what_is_printed_says_what_the_panel_says_in_lines(shown: dict[str, Any], name: str) -> None:
    title, pairs, note = shown[name]._shown()
    printed = str(shown[name]).splitlines()
    assert printed[0] == title
    assert printed[-1] == note
    assert len(pairs) == len(printed) - 2 > 0
    assert all(
        line.split() == f"{said} {what}".split() for (said, what), line in zip(pairs, printed[1:-1], strict=True)
    )
    assert Parsed(shown[name]._repr_html_()).text == title + "".join(f"{a}{b}" for a, b in pairs) + note


def test_a_policy_shows_its_rules() -> None:
    policy = policy_of({"rows": {"max_eta": 0.5}, "columns": {HOSTILE: {"max_attack": 0.75}}}, "house.toml")
    assert str(policy).splitlines()[1].split() == ["[rows]", "max_eta", "=", "0.5"]
    assert "0.75" in Parsed(policy._repr_html_()).text
    assert HOSTILE in Parsed(policy._repr_html_()).text


def test_a_ledger_that_has_no_file_yet_shows_that_it_holds_nothing(tmp_path: Path) -> None:
    assert str(fl.Ledger(tmp_path / "new.json")).startswith("Ledger of 0 releases")
