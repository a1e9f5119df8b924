"""A choice that is counted: its information against refits of the whole procedure, its frequencies, and what it promises."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from copies import copies
from fisherleak.protection.frontier.counted_choice import Ballot, _admitted
from fisherleak.protection.noise_scale_grid import STEP, up_to_grid

pytestmark = pytest.mark.usefixtures("quick_audits")
CASE = make("squared", 1, n=120, d=2, intercept=True)
X, Y = np.clip(CASE.X, -3, 3), np.clip(CASE.y, -4, 4)
BOUNDS: Any = {"x0": (-3.0, 3.0), "x1": (-3.0, 3.0)}
WITH_LABEL: Any = BOUNDS | {"label": (-4.0, 4.0)}
OPTIONS: Any = {"penalties": [1.0, 30.0], "weightings": ["none"], "shapes": ["isotropic"]}
SMALL = 1e-4
WHOLE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "squared": (Ridge(20.0), Y, {"over": "max"}),
    "squared, admissible": (Ridge(20.0), Y, {"bounds": WITH_LABEL}),
    "squared, all rows": (Ridge(20.0), Y, {"over": "max", "held_out": 0.0}),
    "squared, folded": (make_pipeline(StandardScaler(), Ridge(20.0)), Y, {"over": "max"}),
    "logistic": (LogisticRegression(C=0.1), (Y > 0.3) * 1, {"over": "max"}),
    "logistic, admissible": (LogisticRegression(C=0.1), (Y > 0.3) * 1, {"bounds": BOUNDS}),
}


def ballot_of(model: Any, X: Any, y: Any, options: Any, **more: Any) -> Ballot:
    chosen = fl.protect(model, X, y, 2.0, **OPTIONS, **options).choose(random_state=3, **more)
    assert chosen.ballot is not None
    return chosen.ballot


SLOW = [name for name in WHOLE if "admissible" in name or "folded" in name]
EVERY = [*(name for name in WHOLE if name not in SLOW), *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)]


@pytest.mark.parametrize("name", EVERY)
def test_the_information_of_the_choice_is_that_of_refits_of_the_whole_procedure(name: str) -> None:
    model, y, options = WHOLE[name]
    here = ballot_of(model, X, y, options)
    rows = fl.protect(model, X, y, 2.0, **OPTIONS, **options).compared.rows
    for row in (int(rows[0][5]), int(rows[1][5])):  # trained on, and held out
        scores = []
        for column in range(2 if "logistic" in name else 3):
            found = []
            for side in (-SMALL, SMALL):
                moved, label = X.copy(), np.array(y)
                if column < 2:
                    moved[row, column] += side
                else:
                    label[row] += side
                then = ballot_of(model, moved, label, options)
                assert then.smoothing == here.smoothing
                found.append(np.log(then.probabilities))
            scores.append((found[1] - found[0]) / (2 * SMALL))
        by_refits = np.array(scores).T  # (K, values)
        p = here.probabilities
        assert np.abs(p @ by_refits).max() < 1e-6
        ours = np.stack([each[row] for each in here._gradients])[:, : by_refits.shape[1]]
        ours = -(ours - p @ ours) / here.smoothing
        np.testing.assert_allclose(ours, by_refits, atol=1e-4 * np.abs(by_refits).max())
        if "logistic" not in name:
            eta = np.sqrt(np.linalg.eigvalsh((by_refits.T * p) @ by_refits)[-1])
            assert here.per_example()[row] == pytest.approx(eta, rel=1e-4)


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "logistic, admissible"])
def test_nobody_is_told_more_of_than_the_share(name: str) -> None:
    model, y, options = WHOLE[name]
    for share in (0.1, 0.3):
        here = ballot_of(model, X, y, options, share=share)
        assert here.reach / here.smoothing <= 2.0 * share
        assert 0 < here.per_example().max() <= here.reach / here.smoothing


def test_groups_are_counted_together() -> None:
    person = np.arange(len(Y)) // 4
    alone = ballot_of(Ridge(20.0), X, Y, {"over": "max"})
    together = ballot_of(Ridge(20.0), X, Y, {"over": "max", "groups": person})
    squares = [np.bincount(person, weights=np.sum(g**2, axis=1)).max() for g in together._gradients]
    apart = np.sum((together._gradients[0] - together._gradients[1]) ** 2, axis=1)
    squares.append(np.bincount(person, weights=apart).max())
    assert together.reach == pytest.approx(0.5 * math.sqrt(max(squares)))
    assert together.reach > alone.reach


def test_candidates_are_drawn_as_often_as_they_say() -> None:
    here = ballot_of(Ridge(20.0), X, Y, {"over": "max"})
    p = np.array([0.5, 0.3, 0.15, 0.05])
    ballot = Ballot(here.points[:1] * 4, np.zeros(4), 1.0, 1.0, p, ())
    rng, count = np.random.default_rng(0), 60_000
    seen = np.bincount([ballot.draw(rng) for _ in range(count)], minlength=4)

    def distance(law: np.ndarray) -> float:
        return float(np.sum((seen - count * law) ** 2 / (count * law)))

    assert distance(p) < 16.3  # one in a thousand
    assert distance(p * [1.05, 0.95, 0.95, 0.8] / np.sum(p * [1.05, 0.95, 0.95, 0.8])) > 16.3
    scores = here.scores - here.scores.min()
    np.testing.assert_allclose(
        here.probabilities, np.exp(-scores / here.smoothing) / np.exp(-scores / here.smoothing).sum()
    )


def test_a_release_counts_its_choice_without_a_warning() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, penalties=[1.0, 30.0])
    choice = found.choose(random_state=0)
    assert choice.point.weighting == "none"
    assert choice.eta_choice == pytest.approx(0.3 * 4.0)
    assert choice.eta_choice**2 + choice.eta_noise**2 == pytest.approx(16.0)
    assert choice.among == 6
    told = json.loads(json.dumps(choice.record()))
    assert told["eta_noise"] == choice.eta_noise
    assert not any(value == choice.point.loss for value in told.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", fl.SeededReleaseWarning)
        model = found.release(choice=choice, random_state=1)
        found.release()
    again = found.release(choice=choice, random_state=1)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    with pytest.raises(fl.InvalidInputError, match="eta must be that of the choice, 4, or left out; got 1"):
        found.release(1.0, choice)
    for copied in copies(choice):  # as it may be passed on: without what is confidential, and good for a release still
        assert copied.ballot is None
        assert copied.record() == choice.record()
        assert (np.isnan(copied.point.loss), copied.point.score) == (True, None)
        np.testing.assert_array_equal(found.release(choice=copied, random_state=1).coef_, model.coef_)
    assert repr(choice.point.loss) not in repr(choice)
    other = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, penalties=[1.0])
    with pytest.raises(
        fl.InvalidInputError, match="choice is one of 6 candidates with over='admissible', and this frontier has 3"
    ):
        other.release(choice=choice)
    # the noise keeps what the choice leaves
    from fisherleak.protection.frontier.frontier_candidates import release_candidate

    noise = release_candidate(found.task, choice.point, choice.eta_noise, 0).noise
    assert noise.calibrated.eta == choice.eta_noise


def test_one_candidate_needs_no_choice() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 2.0, bounds=WITH_LABEL, penalties=[1.0], shapes=["hessian"])
    choice = found.choose()
    assert (choice.eta_choice, choice.eta_noise, choice.ballot) == (0.0, 2.0, None)


def test_refusals() -> None:
    found = fl.protect(Ridge(20.0), X, Y, 2.0, over="max", penalties=[1.0], weightings=["full"])
    with pytest.raises(fl.InvalidInputError, match="No candidate without weights was looked at"):
        found.release()
    with pytest.raises(fl.InvalidInputError, match="share must be between 0 and 1, a part of the limit; got 1"):
        found.choose(share=1.0)
    counts = fl.protect(PoissonRegressor(), X, np.round(np.exp(Y)), 50.0, over="max", **OPTIONS)
    assert counts.choose(random_state=0).ballot is not None
    with pytest.raises(fl.InvalidInputError, match="what IRFIL's weights tell is not; got"):
        fl.Protected(Ridge(), weightings=["none", "full"]).fit(X, Y)


def test_protected_tells_what_it_promises_and_no_number_of_the_data() -> None:
    model = fl.Protected(Ridge(20.0), 4.0, penalties=[1.0, 30.0], bounds=WITH_LABEL, random_state=0).fit(X, Y)
    assert model.promise_ is not None
    assert model.promise_["eta_choice"] ** 2 + model.promise_["eta_noise"] ** 2 == pytest.approx(16.0)
    assert np.float64(model.choice_.loss).tobytes() not in pickle.dumps(model)
    assert copy.deepcopy(model).promise_ == model.promise_
    with pytest.warns(fl.UncountedChoiceWarning, match="was learned from the rows"):
        loose = fl.Protected(Ridge(20.0), 4.0, penalties=[1.0, 30.0], bounds=WITH_LABEL, counted=False).fit(X, Y)
    assert loose.promise_ is None


SHAPES: Any = {"penalties": [1.0], "weightings": ["none"], "shapes": ["isotropic", "hessian"], "bounds": WITH_LABEL}


def test_nothing_of_a_choice_is_random_but_the_draw_and_an_offset_that_is_told() -> None:
    """Offsets that were drawn and not told made its law move with exact prices: up to 5.8 times what was promised."""
    found = fl.protect(Ridge(20.0, fit_intercept=False), X, Y, 1.0, **SHAPES)
    choices = [found.choose(random_state=seed) for seed in range(6)]
    assert len({choice.offset for choice in choices}) == 6
    assert found.choose().offset != found.choose().offset  # of the operating system
    for choice in choices:
        told, law = json.loads(json.dumps(choice.record())), choice.ballot
        assert law is not None
        assert choice.offset is not None
        # whoever is told the offset and holds the table knows the law
        assert (told["offset"], told["step"], told["probability"]) == (choice.offset, STEP, 1.0)
        losses = law.scores - np.array([up_to_grid(price, choice.offset) for price in prices(found, law)])
        np.testing.assert_allclose(losses, losses[0], rtol=1e-9)  # one penalty: one held-out loss
        assert law.smoothing == up_to_grid(law.reach / choice.eta_choice, choice.offset)
        above = law.scores - law.scores.min()
        np.testing.assert_allclose(
            law.probabilities, np.exp(-above / law.smoothing) / np.exp(-above / law.smoothing).sum()
        )


def law_of(found: fl.Frontier, seed: int) -> Ballot:
    ballot = found.choose(random_state=seed).ballot
    assert ballot is not None
    return ballot


def prices(found: fl.Frontier, law: Ballot) -> list[float]:
    """Losses of noisy copies above that without noise; of one penalty."""
    return [max(point.loss - found.loss, 2.0**-20) for point in law.points]


def test_given_the_offset_the_law_of_a_choice_moves_with_no_price() -> None:
    """By refits of everything: rows trained on and held out, for many offsets."""
    model, step = Ridge(20.0, fit_intercept=False), 0.02
    here = fl.protect(model, X, Y, 1.0, **SHAPES)
    seeds = range(24)
    promised = here.choose().eta_choice
    for row in (int(here.compared.rows[0][3]), int(here.compared.rows[1][3])):
        moved = X.copy()
        moved[row, 0] += step
        there = fl.protect(model, moved, Y, 1.0, **SHAPES)
        changed = 0
        for seed in seeds:
            one, other = law_of(here, seed), law_of(there, seed)
            same = one.smoothing == other.smoothing and np.allclose(
                np.diff(one.scores), np.diff(other.scores), rtol=1e-9
            )
            changed += not same
            if same:
                p, q = one.probabilities, other.probabilities
                assert 2.0 * np.arccos(min(float(np.sqrt(p * q).sum()), 1.0)) <= promised * step * (1 + 1e-3)
        # prices on a grid change as rarely as their exact values move beside a step
        known = [np.array([*prices(each, law), law.reach]) for each, law in ((here, one), (there, other))]
        expected = len(seeds) * float(np.abs(np.log(known[1] / known[0])).sum()) / math.log(STEP)
        assert changed <= expected + 3.0 * math.sqrt(expected) + 1.0
        assert expected < 0.2 * len(seeds)


def test_a_candidate_near_a_bound_that_is_refused_is_left_out_by_the_offset() -> None:
    points = fl.protect(Ridge(20.0), X, Y, 4.0, bounds=WITH_LABEL, **OPTIONS).points[:2]
    step = math.log(STEP)
    assert _admitted(points, [math.inf, 0.5 * step], 0.4) == list(points)
    assert _admitted(points, [math.inf, 0.5 * step], 0.6) == [points[0]]
    with pytest.raises(fl.InvalidInputError, match="a finite loss and a useful bound"):
        _admitted(points, [0.0, 0.0], 0.1)
