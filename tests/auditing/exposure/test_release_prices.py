"""What releases by a limit keep of a model, as an audit prices them and as a release is made."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fisherleak.auditing import run
from fisherleak.auditing.exposure import release_prices
from fisherleak.auditing.exposure.release_prices import Priced, prices_of
from fisherleak.auditing.policy.policy import read_policy
from fisherleak.auditing.records import Price, Prices
from fisherleak.auditing.report_summary import read_summary
from fisherleak.auditing.run import audit
from fisherleak.errors import InvalidInputError, SeededReleaseWarning
from fisherleak.releasing.files.released_files import save_model
from fisherleak.releasing.table_model import TableModel, read_for_release
from fisherleak.report.summarise import summarise
from fisherleak.report.verdict import present_in_words, prices_in_words
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings
from fisherleak.training.utility import UtilityPoint
from report.test_schema import PUBLISHED, wrong

pandas = pytest.importorskip("pandas")
SETTINGS = Settings("y", l2=0.1, seed=3)


def made(n: int = 240) -> Any:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(n, 3))
    x[:, 2] = x[:, 0] + 0.4 * x[:, 2]
    frame = pandas.DataFrame(x, columns=["a", "b", "c"]).assign(sex=rng.choice(["f", "m"], n))
    return frame.assign(y=x @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=n))


@pytest.fixture(scope="module")
def table() -> TableModel:
    return read_for_release(from_frame(made()), SETTINGS)


@pytest.fixture(scope="module")
def found(table: TableModel) -> Prices:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_prices, "LIMITS", (0.5, 2.0))
        return prices_of(lambda: table, Priced(draws=8), 0.5)


@pytest.mark.long
@pytest.mark.parametrize("shape", [None, "isotropic"])
@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_a_price_is_that_of_the_release(found: Prices, eta: float, shape: str | None, tmp_path: Path) -> None:
    """The same penalty, covariance and noise as the release with the same grid: looking for no worst record changes none."""
    with pytest.warns(SeededReleaseWarning):
        card, _ = save_model(
            *(from_frame(made()), SETTINGS, tmp_path / "m.skops"), eta=eta, shape=shape, choose_l2=True, random_state=3
        )
    priced = [each for each in found.limits if each.eta == eta]
    (price,) = [each for each in priced if each.by_rule == (shape is None)] if len(priced) > 1 else priced
    assert price.covariance == card["shape"]["name"]
    assert price.l2 == card["settings"]["l2"]
    assert price.scale == pytest.approx(card["noise"]["scale"], rel=1e-12)


def test_more_is_kept_at_a_looser_limit_and_rows_present_are_within_it(found: Prices) -> None:
    ruled = [each for each in found.limits if each.by_rule]
    assert [each.eta for each in ruled] == [0.5, 1.0, 2.0]
    best = [found.best(each.eta, True) for each in ruled]
    kept = [each.utility.utility for each in best if each is not None]
    assert len(kept) == 3
    assert kept[0] < kept[-1]
    for each in found.limits:
        assert each.largest is not None
        assert each.largest <= each.eta
        assert each.membership is not None


def test_covariances_for_the_rows_present_are_shown_with_what_they_tell(found: Prices) -> None:
    assert [each.covariance for each in found.present] == ["isotropic", "hessian", "least-loss"]
    isotropic, hessian, least = found.present
    assert hessian.utility.utility > isotropic.utility.utility
    assert isotropic.largest is not None
    assert isotropic.largest <= 0.5
    assert hessian.membership is not None
    assert least.largest is None  # what that covariance tells is not counted
    assert not any(each.by_rule for each in found.present)


def price(covariance: str, utility: float, by_rule: bool) -> Price:
    return Price(1.0, covariance, by_rule, 0.1, 1.0, UtilityPoint(1.0, utility, utility, utility))


@pytest.mark.parametrize(
    ("over", "shape", "higher", "expected"),
    [
        ("any-record", None, True, "hessian"),
        ("any-record", None, False, "isotropic"),
        ("any-record", "hessian", False, "hessian"),
        ("max", "hessian", True, None),
        ("max", None, True, None),
    ],
)
def test_the_best_is_the_most_useful_whose_covariance_is_counted(
    over: str, shape: str | None, higher: bool, expected: str | None
) -> None:
    limits = (price("hessian", 0.4, True), price("isotropic", 0.2, False))
    best = Prices(over, 1.0, shape, limits).best(1.0, higher)
    if over == "max" and shape is None:
        assert best is limits[1]
    else:
        assert (best and best.covariance) == expected


def test_of_a_large_table_one_limit_is_priced(table: TableModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_prices, "MOST_WORK", 100)
    found = prices_of(lambda: table, Priced(eta=0.7, draws=4), 0.5)
    assert [(each.eta, each.by_rule, each.membership) for each in found.limits] == [(0.7, True, None)]
    assert (found.present, found.note) == ((), release_prices.FEW)
    assert prices_of(None, Priced(), 0.5).note == release_prices.LARGE


@pytest.mark.parametrize(("most", "quick"), [(100, False), (10**6, True), (10**6, False)])
def test_what_makes_prices_quick_is_said_where_it_does(most: int, quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, str] = {}

    def watched(doing: str, quicker: str) -> Any:
        told[doing] = quicker
        return contextlib.nullcontext()

    monkeypatch.setattr(release_prices, "MOST_WORK", most)
    monkeypatch.setattr(release_prices, "LIMITS", ())
    monkeypatch.setattr(run, "told_when_long", watched)
    audit(made(), SETTINGS, draws=4, attacks=False, quick=quick)
    several = most > 100 and not quick
    assert told[run.DOING["prices"]] == (run.QUICKER["prices"] if several else run.FEWER)


def test_why_there_is_no_release_is_said(table: TableModel) -> None:
    people = replace(table, settings=replace(table.settings, person="id"))
    assert "needs `rows_per_person` too" in prices_of(lambda: people, Priced(), 0.5).note
    few = prices_of(lambda: read_for_release(from_frame(made(28)), SETTINGS), Priced(), 0.5)
    assert few.limits == ()
    assert few.note.startswith("No release by `eta`: A release needs at least 30 training rows")


def test_the_summary_has_them_and_a_policy_leaves_them_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_prices, "LIMITS", (0.5,))
    done = summarise(audit(made(), SETTINGS, draws=4, attacks=False))
    assert wrong(done, PUBLISHED) == []
    prices = done["prices"]
    assert [each["eta"] for each in prices["limits"] if each["best"]] == [0.5, 1.0]
    assert done["next"]["eta"] == 1.0
    assert "any record within the bounds" in done["next"]["note"]
    record = read_summary(json.loads(json.dumps(done)))
    assert [words[0] for words in prices_in_words(record)] == ["0.5", "1"]
    assert [words[2] for words in present_in_words(record)][-1] == "not counted"
    policy = tmp_path / "house.toml"
    policy.write_text("[rows]\nmax_eta = 9\n", encoding="utf-8")
    ruled = audit(made(), SETTINGS, draws=4, attacks=False, noise=1.0, policy=read_policy(policy))
    assert ruled.prices is None
    with pytest.raises(InvalidInputError, match="`shape`"):
        audit(made(), SETTINGS, noise=1.0, policy=read_policy(policy), shape="hessian")
    with pytest.raises(InvalidInputError, match="over must be one of"):
        audit(made(), SETTINGS, over="mean")


def test_a_table_of_many_columns_has_no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = from_frame(made(60))
    assert not run._is_large(raw)
    monkeypatch.setattr(run, "MOST_COLUMNS", len(raw.names) - 1)
    assert run._is_large(raw)
    prices = audit(raw, SETTINGS, attacks=False, draws=2).prices
    assert prices is not None
    assert prices.note == release_prices.LARGE
