"""Balanced releases: weights that follow from the data are counted, against refits of all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

import fisherleak as fl
from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.tables import from_frame
from fisherleak.training.balancing import balanced, balanced_again, reweighted
from fisherleak.training.pipelines import own_parameters
from fisherleak.training.trained_model import Settings, calibrated_scale, train

Frame = Any


def table(seed: int = 3, n: int = 60, gaps: bool = False) -> Frame:
    """Numbers, one of them with gaps, a category, several rows for some people, and two targets."""
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"age": rng.normal(40, 9, n), "dose": rng.gamma(2.0, 2.0, n)})
    frame["town"] = rng.choice(["Bonn", "Genua", "Lund"], n)
    frame["who"] = [f"p{k}" for k in rng.integers(0, n // 2, n)]
    score = frame.age / 9 + 0.5 * frame.dose + (frame.town == "Bonn") + rng.normal(0, 1, n)
    frame["score"], frame["ill"] = score, np.where(score > score.median(), "yes", "no")
    if gaps:
        frame.loc[rng.choice(n, 12, replace=False), "dose"] = np.nan
    return frame


def settings(target: str, **given: Any) -> Settings:
    other = {"score": "ill", "ill": "score"}[target]
    drop = (other,) if "person" in given else (other, "who")
    return Settings(target, held_out=0.0, drop=drop, l2=0.05, **given)


def moved(frame: Frame, row: int, column: str, step: float, chosen: Settings) -> Any:
    """How far the parameters move, in the noise's frame, when a value is moved in the raw table and all of it is done again."""
    ends = []
    for sign in (1.0, -1.0):
        other = frame.copy()
        other.loc[row, column] += sign * step
        ends.append(own_parameters(reweighted(train(from_frame(other), chosen))))
    return (ends[0] - ends[1]) / 2


@pytest.mark.parametrize(
    ("target", "given", "gaps"),
    [
        ("score", {}, True),
        ("ill", {}, False),
        pytest.param("score", {"person": "who"}, False, marks=pytest.mark.long),
        pytest.param("ill", {"person": "who"}, True, marks=pytest.mark.long),
    ],
)
def test_etas_are_those_of_refits_with_the_weights(target: str, given: Any, gaps: bool) -> None:
    frame, chosen = table(gaps=gaps), settings(target, **given)
    trained = balanced(train(from_frame(frame), chosen))
    assert trained.weighting is not None
    J, design = trained.weighting._derivative, trained.design
    fixed = np.asarray(replace(trained, weighting=None).each_eta())
    counted = np.asarray(trained.each_eta())
    assert np.max(np.abs(counted / fixed - 1)) > 0.05
    worst = int(np.argmax(np.linalg.norm(J, 2, axis=(1, 2))))
    scales = {feature.name: (j, feature.scale) for j, feature in enumerate(design.features)}
    missing = np.flatnonzero(frame.dose.isna())
    for row in {worst, missing[0] if gaps else 7}:
        for name in ("age", "dose"):
            j, scale = scales[name]
            if pandas.isna(frame.loc[row, name]):
                assert not J[row, :, j].any()
                continue
            found = moved(frame, row, name, 1e-4 * scale, chosen) / 1e-4 / trained.unit
            np.testing.assert_allclose(J[row, :, j], found, rtol=1e-4, atol=2e-5 * float(np.linalg.norm(found)))
        if target == "score":
            found = moved(frame, row, "score", 1e-4 * design.target.scale, chosen) / 1e-4 / trained.unit
            np.testing.assert_allclose(J[row, :, -1], found, rtol=1e-4, atol=2e-5 * float(np.linalg.norm(found)))


def uneven() -> Frame:
    """A table on which the weights' own dependence more than doubles the largest eta."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"a": rng.standard_t(2, 60), "b": rng.normal(0, 1, 60)})
    frame["t"] = frame.a + 0.3 * rng.standard_t(3, 60)
    return frame


@pytest.mark.long
@pytest.mark.parametrize("column", [None, "a"])
def test_nobody_is_told_better_than_the_card_promises(tmp_path: Path, column: str | None) -> None:
    """The attacker moves values of a row and runs all of it again, weights included."""
    frame, chosen = uneven(), Settings("t", held_out=0.0, l2=1.0)
    given: Any = {"eta": 0.5, "attribute": column, "over": "max", "balance": True, "random_state": 0}
    card, _ = save_model(from_frame(frame), chosen, tmp_path / "m.skops", **given)
    scale = card["noise"]["scale"]
    trained = balanced(train(from_frame(frame), chosen))
    assert trained.weighting is not None
    row = int(np.argmax(trained.weighting.etas(fl.Gaussian(1.0), column)))
    units = {feature.name: feature.scale for feature in trained.design.features} | {"t": trained.unit}
    names = ("a", "b", "t") if column is None else (column,)
    moves = [moved(frame, row, name, 1e-4 * units[name], chosen) / 1e-4 for name in names]
    eta = np.linalg.norm(np.array(moves), 2) / scale / (1.0 if column is None else units[column])
    assert 0.5 / 1.2 < eta <= 0.5
    fixed = calibrated_scale(replace(trained, weighting=None), 0.5, column)
    assert eta * scale / fixed > 0.5 * 1.5  # what a scale for fixed weights would have told
    assert any("The weights follow from the data; the limit counts that" in each for each in card["assumptions"])
    saved = load_model(tmp_path / "m.skops")
    anew = retrain(saved, from_frame(frame))
    found = confirm(saved, audit_trained(anew, saved.settings, Plan(noise=saved.noise, attacks=False, draws=3)))
    assert found.failed is None
    assert any(each.startswith("The limit of 0.5") for each in found.confirmed)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"eta": 0.5}, "`balance` cannot be given with `over='any-record'`"),
        (
            {"eta": 0.5, "over": "max", "shape": "hessian"},
            "cannot be given with a `shape` computed from the table's rows",
        ),
        ({"eta": 0.5, "over": "max", "ledger": Path("x.json")}, "`balance` cannot be given with `ledger`"),
    ],
)
def test_promises_that_nothing_is_known_of_are_refused(tmp_path: Path, given: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        save_model(from_frame(uneven()), Settings("t"), tmp_path / "m.skops", balance=True, **given)
    assert not list(tmp_path.iterdir())


def test_without_a_limit_the_card_claims_no_eta(tmp_path: Path) -> None:
    card, _ = save_model(from_frame(uneven()), Settings("t"), tmp_path / "m.skops", noise=1.0, balance=True)
    assert card["eta"]["limit"] is None
    assert any(each.endswith("no eta is claimed.") for each in card["assumptions"])


def test_a_table_too_large_to_count_is_refused_with_a_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = train(from_frame(uneven()), Settings("t"))
    monkeypatch.setattr("fisherleak.protection.irfil.whole_procedure.MOST_NUMBERS", 10)
    for limited in (balanced, lambda plain: balanced_again(plain, True)):
        with pytest.raises(InvalidInputError, match="take rows x parameters x values at once"):
            limited(trained)
    assert balanced_again(trained, False).weighting is None
