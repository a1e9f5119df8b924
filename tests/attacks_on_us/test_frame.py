"""Rows that are recognised by the public frame, the centres and scales in which noise acts, and bounds that avoid it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import pandas
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak._support.grids import units_within
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.policy.policy import policy_of
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.engine.noise import grid_of, noise_from_record
from fisherleak.models.steps.scalers import complete, neutral
from fisherleak.releasing.cards.card_fields import FROM_BOUNDS, FROM_ROWS
from fisherleak.releasing.cards.signatures import card_path
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.report.summarise import summarise
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import train
from often import often

BOUNDS = {"age": (0.0, 120.0), "weight": (20.0, 300.0), "income": (0.0, 5e6), "dose": (-200.0, 400.0)}
DECLARED = tuple(BOUNDS.items())
MEMBERS = policy_of({"membership": {"max_right": 0.9}})


def table(seed: int, n: int = 60, gaps: bool = False) -> pandas.DataFrame:
    """Ordinary rows, with incomes that are skewed."""
    rng = np.random.default_rng(seed)
    age, weight = rng.integers(18, 90, n).astype(float), rng.normal(75.0, 12.0, n).round(1).clip(40, 140)
    frame = pandas.DataFrame({"age": age, "weight": weight, "income": np.exp(rng.normal(10, 1, n)).round()})
    frame["ward"] = rng.permutation(np.arange(n) % 3).astype(str)
    frame["dose"] = (0.5 * age + weight / 3 + rng.normal(0.0, 5.0, n)).round(2)
    if gaps:
        frame.loc[rng.permutation(n)[:9], "weight"] = np.nan
    return frame


def frame_of(trained: Any) -> list[Any]:
    """Every centre and scale in which noise acts."""
    design = trained.design
    return [(f.name, f.centre, f.scale) for f in design.features] + [(design.target.centre, design.target.scale)]


def neighbours(frame: pandas.DataFrame) -> list[pandas.DataFrame]:
    """The table without each row in turn, and with each row replaced by one at an end of the bounds."""
    found = [frame.drop(index=row) for row in frame.index]
    for k, row in enumerate(frame.index):
        other = frame.copy()
        for name, ends in BOUNDS.items():
            other.loc[row, name] = ends[k % 2]
        found.append(other)
    return found


def recognised(frame: pandas.DataFrame, **given: Any) -> Any:
    """Which rows' removal moves the frame, by training without each."""
    settings = Settings("dose", held_out=0.0, **given)
    own = frame_of(train(from_frame(frame), settings))
    return np.array(
        [frame_of(train(from_frame(frame.drop(index=k)), settings)) != own for k in frame.index], dtype=bool
    )


# With declared bounds no row moves a public number


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", often(range(3)))
@pytest.mark.parametrize("target", ["dose", "ward"])
def test_with_declared_bounds_no_row_moves_a_public_number(seed: int, target: str, every: bool, tmp_path: Path) -> None:
    """Rows are removed, and replaced: the model card stays as it is, but for checksums and the number of rows.

    Those of the largest and the least income, which move a frame of the rows most; or every third.
    """
    bounds = dict(BOUNDS)
    if target != "dose":
        bounds.pop("dose")

    def public(frame: pandas.DataFrame) -> Any:
        path = tmp_path / "m.skops"
        save_model(from_frame(frame), Settings(target, held_out=0.0), path, noise=5.0, bounds=bounds, overwrite=True)
        card = json.loads(card_path(path).read_text(encoding="utf-8"))
        model = load_model(path).model
        filled = model[0].named_transformers_["numbers"]
        statistics = getattr(filled, "statistics_", np.zeros(0)).tolist()
        card.pop("digest"), card["model"].pop("file_sha256"), card["data"].pop("rows")
        return card, statistics

    used = [*bounds, "ward"]
    whole = table(seed, gaps=seed == 2)
    own = public(whole[used])
    assert FROM_BOUNDS in own[0]["assumptions"]
    ends = [int(whole["income"].argmax()), int(whole["income"].argmin())]
    near = neighbours(whole)
    asked = near[::3] if every else [near[k + place] for k in ends for place in (0, len(whole))]
    assert not [k for k, each in enumerate(asked) if public(each[used]) != own]


@pytest.mark.parametrize("seed", often(range(3)))
def test_with_declared_bounds_nobody_is_recognised_by_the_frame(seed: int) -> None:
    whole = table(seed, 24)
    own = train(from_frame(whole), Settings("dose", held_out=0.0, bounds=DECLARED))
    assert np.isfinite(own.leak.membership()).all()
    frames = [
        frame_of(train(from_frame(each), Settings("dose", held_out=0.0, bounds=DECLARED))) for each in neighbours(whole)
    ]
    assert all(each == frame_of(own) for each in frames)
    assert frame_of(own)[0] == ("age", 60.0, pytest.approx(120 / 12**0.5))


# Without them, the rows that do are stated


@pytest.mark.parametrize("seed", often(range(3)))
@pytest.mark.parametrize("given", [{}, {"bounds": (("income", BOUNDS["income"]),)}, {"missing": "impute"}])
def test_without_bounds_membership_is_certain_for_the_rows_that_move_the_frame_and_no_others(
    seed: int, given: Any
) -> None:
    whole = table(seed, 40, gaps="missing" in given)
    trained = train(from_frame(whole), Settings("dose", held_out=0.0, **given))
    found = np.isinf(trained.leak.membership())
    np.testing.assert_array_equal(found, recognised(whole, **given))
    assert found.any() or seed or given


def test_one_large_income_is_recognised_and_bounds_hide_it() -> None:
    whole = table(0, 200)
    whole.loc[7, "income"] = 3e6
    rules: Any = {"noise": 1e6, "policy": MEMBERS, "attacks": False, "draws": 4}
    found = audit(whole, Settings("dose", held_out=0.0), **rules)
    assert found.membership.top[0].right == 1.0
    assert 7 in [item.row for item in found.membership.top if item.right == 1.0]
    assert not found.rules[0].passed
    summary = summarise(found)
    count = summary["membership"]["recognised"]
    assert count == np.isinf(found.membership.mu).sum() > 0
    said = f"{count} of 200 rows can be recognised with certainty"
    assert summary["membership"]["note"].startswith(said)
    assert said in found.rules[0].words
    declared = audit(whole, Settings("dose", held_out=0.0, bounds=DECLARED), **rules)
    assert declared.rules[0].passed
    assert summarise(declared)["membership"]["recognised"] == 0
    taken = rules | {"policy": policy_of({"membership": {"max_right": 0.9}, "require": {"public": "preprocessing"}})}
    public = audit(whole, Settings("dose", held_out=0.0, public="preprocessing"), **taken)
    assert public.rules[0].passed


def test_all_rows_of_a_person_leave_together() -> None:
    whole = table(1, 93).assign(person=np.repeat(np.arange(31), 3))
    settings = Settings("dose", held_out=0.0, person="person", drop=())
    trained = train(from_frame(whole), settings)
    own = frame_of(trained)
    expected = [frame_of(train(from_frame(whole[whole.person != k]), settings)) != own for k in range(31)]
    assert trained.design.people is not None
    found = trained.leak.membership_by_group(trained.design.people.of_row)
    np.testing.assert_array_equal(np.isinf([found[k] for k in range(31)]), expected)
    assert any(expected)
    membership = audit(whole, settings, noise=5.0, draws=4, attacks=False).membership
    assert membership.recognised == sum(expected)


# The card


def test_the_card_has_one_sentence_without_bounds_whatever_the_rows(tmp_path: Path) -> None:
    said = set()
    ways: list[tuple[int, Any]] = [(0, None), (1, None), (2, {"age": BOUNDS["age"]})]
    for seed, bounds in ways:
        card, _ = save_model(
            from_frame(table(seed)),
            Settings("dose", held_out=0.0),
            tmp_path / "m.skops",
            noise=5.0,
            overwrite=True,
            bounds=bounds,
        )
        said.add(tuple(sentence for sentence in card["assumptions"] if "Bounds were not declared" in sentence))
    assert said == {(FROM_ROWS,)}


@pytest.mark.parametrize("given", [{"noise": 5.0}, {"eta": 5.0}, {"eta": 5.0, "over": "max"}])
def test_an_audit_of_the_release_makes_the_same_frame(given: Any, tmp_path: Path) -> None:
    whole, path = table(0, 1000).drop(columns="income"), tmp_path / "m.skops"
    settings = Settings("dose", held_out=0.0, l2=0.5)
    bounds = {"age": (0.0, 120.0), "weight": (30.0, 150.0), "dose": (-50.0, 150.0)}
    card, _ = save_model(from_frame(whole), settings, path, bounds=bounds, **given)
    assert card["settings"]["bounds"] == [[name, list(ends)] for name, ends in sorted(bounds.items())]
    saved = load_model(path)
    trained = retrain(saved, from_frame(whole))
    assert frame_of(trained)[0] == ("age", 60.0, pytest.approx(120 / 12**0.5))
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3, quick=True)
    assert confirm(saved, audit_trained(trained, saved.settings, plan)).failed is None


# Pipelines in Python


def pipeline(scaler: Any = None) -> Any:
    return make_pipeline(StandardScaler() if scaler is None else scaler, Ridge(alpha=3.0))


def numbers(seed: int, n: int = 60) -> tuple[pandas.DataFrame, Any]:
    frame = table(seed, n)
    return frame[["age", "weight", "income"]], frame["dose"].to_numpy()


def units(model: Any) -> Any:
    return [scale.public for scale in complete(neutral(model)[1] or (), 3)]


@pytest.mark.parametrize("seed", often(range(3)))
@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
def test_folded_scalers_tell_the_rows_that_move_their_frame(seed: int, options: Any) -> None:
    X, y = numbers(seed, 40)
    if not options.get("with_std", True):
        X = X.assign(income=np.log(X.income))
    model = pipeline(StandardScaler(**options)).fit(X, y)
    leak = fl.measure(model, X, y, fl.Gaussian(0.5), public="nothing")
    rest = [(np.delete(np.arange(40), k)) for k in range(40)]
    moved = [units(clone(model).fit(X.iloc[rows], y[rows])) != units(model) for rows in rest]
    np.testing.assert_array_equal(np.isinf(leak.membership()), moved)
    groups = np.arange(40) // 2
    pairs = [np.flatnonzero(groups != k) for k in range(20)]
    moved = [units(clone(model).fit(X.iloc[rows], y[rows])) != units(model) for rows in pairs]
    found = leak.membership_by_group(groups)
    np.testing.assert_array_equal(np.isinf([found[k] for k in range(20)]), moved)
    twice = fl.compose(leak, leak.with_noise(fl.Gaussian(2.0)))
    np.testing.assert_array_equal(np.isinf(twice.membership()), np.isinf(leak.membership()))


def test_what_shows_no_frame_tells_none() -> None:
    """A shape is over raw parameters; preprocessing may be declared public; a model without scalers has no frame."""
    X, y = numbers(0)
    model = pipeline().fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    assert np.isinf(leak.membership()).any()
    assert np.isfinite(leak.with_noise(fl.Gaussian(1.0, np.diag([1.0, 2.0, 1.0, 3.0]))).membership()).all()
    assert np.isfinite(fl.measure(model, X, y).membership()).all()
    assert np.isfinite(fl.measure(Ridge(alpha=3.0).fit(X, y), X, y, public="nothing").membership()).all()


def test_noise_calibrated_with_bounds_acts_in_their_frame() -> None:
    X, y = numbers(0, 2000)
    model = make_pipeline(StandardScaler(), Ridge(alpha=400.0)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    bounds = {**BOUNDS, "income": (0.0, 1e6), "label": (-200.0, 400.0)}
    bounds.pop("dose")
    noise = fl.calibrate(leak, 1.0, over="any-record", bounds=bounds, random_state=0)
    assert isinstance(noise, fl.Gaussian)
    measured = leak.with_noise(noise)
    assert np.isfinite(measured.membership()).all()
    # covariance of what is released, by the frame of the bounds alone
    made = [units_within(*bounds[str(name)]) for name in X]
    F = np.eye(4)
    F[range(3), range(3)], F[3, :3] = [scale for _, scale in made], [centre for centre, _ in made]
    shape: Any = np.linalg.inv(F.T @ F)
    same = leak.with_noise(fl.Gaussian(noise.scale, shape))
    np.testing.assert_allclose(measured.per_example(), same.per_example(), rtol=1e-9)
    np.testing.assert_allclose(measured.membership(), same.membership(), rtol=1e-9)
    # released parameters lie on the grid of that frame
    released = fl.release(model, noise)
    theta = F @ np.append(released[-1].coef_, released[-1].intercept_)
    steps = theta / grid_of(noise, 4)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
    draws = np.array([F @ np.append(m.coef_, m.intercept_) for m in (fl.release(model, noise)[-1] for _ in range(300))])
    np.testing.assert_allclose(draws.std(axis=0), noise.scale, rtol=0.25)
    # measured at once, or with another noise first
    at_once = fl.measure(model, X, y, noise, public="nothing")
    np.testing.assert_array_equal(at_once.per_example(), measured.per_example())
    np.testing.assert_array_equal(at_once.membership(), measured.membership())
    audited = fl.audit(model, X, y, noise, public="nothing", attacks=False)
    assert audited.summary.eta.examples.max == measured.per_example().max()
    assert audited.summary.tradeoff.without_noise == pytest.approx(model.score(X, y))
    # records, copies and other noise
    again = noise_from_record(json.loads(json.dumps(noise.record())))
    np.testing.assert_array_equal(leak.with_noise(again).per_example(), measured.per_example())
    np.testing.assert_array_equal(
        measured.with_noise(fl.Gaussian(1.0)).per_example(), leak.with_noise(fl.Gaussian(1.0)).per_example()
    )
    np.testing.assert_allclose(
        leak.with_noise(noise.rescaled(2 * noise.scale)).per_example(), measured.per_example() / 2
    )


@pytest.mark.filterwarnings("ignore")
def test_private_release_with_bounds_has_no_frame_of_the_rows() -> None:
    X, y = numbers(1, 2000)
    X = X.assign(income=X.income.clip(upper=9e5))
    bounds = {**BOUNDS, "income": (0.0, 1e6), "label": (-200.0, 400.0)}
    bounds.pop("dose")
    # noise without a shape acts in the frame
    model = make_pipeline(StandardScaler(), Ridge(alpha=400.0))
    private = fl.PrivateRelease(model, eta=1.0, bounds=bounds, penalty="own")
    private.set_params(keep_unperturbed=True).fit(X, y)
    assert isinstance(private.leakage_, fl.Leakage)
    assert np.isfinite(private.leakage_.membership()).all()
    half = fl.PrivateRelease(model, eta=1.0, bounds={"age": (0.0, 120.0)}, penalty="own")
    half.set_params(keep_unperturbed=True).fit(X, y)
    noise: Any = half.noise_
    assert [place for place, _, _ in noise.calibrated.frame] == [0]
