"""Every way in which a model leaves, in one list: what is measured is the covariance of the score of what is released.

And what else can be asked of each: it works, or refuses by the way's own name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

import fisherleak as fl
from cases import Case, make, moved, parameters
from fisherleak.engine.mechanisms.interface_answers import Interface
from fisherleak.engine.mechanisms.self_shaped import MECHANISMS
from fisherleak.training.noise_words import as_noise, from_card
from often import often

Vector = NDArray[np.float64]
QUERIES = np.random.default_rng(7).normal(size=(6, 3))
SHAPE = np.array([[2.0, 0.3, 0.0, 0.1], [0.3, 1.0, 0.2, 0.0], [0.0, 0.2, 1.5, 0.0], [0.1, 0.0, 0.0, 0.7]])
EVERY_KIND = {kind.__name__ for kind in (*fl.NOISES.values(), *MECHANISMS.values(), *get_args(Interface))}
NOISES = {name: kind.from_record({"kind": name, "scale": 0.4}) for name, kind in fl.NOISES.items()}
FITTED_WITH = {"Gaussian": "logistic", "Laplace": "poisson"}
WAYS: dict[str, tuple[Any, str]] = {
    **{name: (noise, FITTED_WITH.get(name, "squared")) for name, noise in NOISES.items()},
    "Gaussian of a shape": (fl.Gaussian(0.4, SHAPE), "squared"),
    "Posterior": (fl.Posterior(0.3), "squared"),
    "ObjectivePerturbation": (fl.ObjectivePerturbation(1.7), "squared"),
    "ObjectivePerturbation, averaged": (fl.ObjectivePerturbation(0.4, draws=60_000), "logistic"),
    "Answers": (fl.Answers(QUERIES, fl.Gaussian(0.3)), "squared"),
    "Answers, probabilities": (fl.Answers(QUERIES, fl.Laplace(0.02), of="probability"), "logistic"),
    "SampledLabels": (fl.SampledLabels(QUERIES), "logistic"),
}
ROW = 2


def test_every_kind_is_in_the_list() -> None:
    assert {type(way).__name__ for way, _ in WAYS.values()} == EVERY_KIND


# The likelihood of what leaves, from rows, refits and the loss alone


def with_one(X: Vector) -> Vector:
    return np.column_stack([X, np.ones(len(X))])


def hessian(case: Case, t: Vector) -> Vector:
    """Of the risk at each of some parameters, (c, p, p)."""
    X, loss = with_one(case.X), case.fit().loss
    penalty = np.append(np.full(3, len(X) * case.l2), 0.0)
    return np.asarray(np.einsum("ci,ij,ik->cjk", loss.a(t @ X.T, case.y[None, :]), X, X) + np.diag(penalty))


def normal(t: Vector, mean: Vector, S: Vector) -> Vector:
    L = np.linalg.cholesky(S)
    white = np.linalg.solve(L, (t - mean).T)
    return np.asarray(-0.5 * np.sum(white**2, axis=0) - np.sum(np.log(np.diag(L))))


def answers(way: Any, theta: Vector) -> Vector:
    z = with_one(QUERIES) @ theta
    return np.asarray(z if getattr(way, "of", None) == "score" else 1.0 / (1.0 + np.exp(-z)))


def log_likelihood(way: Any, drawn: Vector, case: Case) -> Vector:
    if isinstance(way, fl.ObjectivePerturbation):
        X = with_one(case.X)
        g = case.fit().loss.r(drawn @ X.T, case.y[None, :]) @ X + np.append(np.full(3, len(X) * case.l2), 0.0) * drawn
        return np.asarray(-0.5 * np.sum(g**2, axis=1) / way.scale**2 + np.linalg.slogdet(hessian(case, drawn))[1])
    theta = parameters(case.fit())
    if isinstance(way, fl.Posterior):
        return normal(drawn, theta, way.temperature * np.linalg.inv(hessian(case, theta[None])[0]))
    if isinstance(way, fl.SampledLabels):
        p = answers(way, theta)
        return np.asarray(drawn @ np.log(p) + (1 - drawn) @ np.log(1 - p))
    if isinstance(way, fl.Answers):
        return np.asarray(way.noise.log_density(drawn - answers(way, theta)))
    return np.asarray(way.log_density(drawn - theta))


def draws(way: Any, case: Case, count: int) -> Vector:
    rng, fit = np.random.default_rng(8), case.fit()
    if type(way).__name__ in MECHANISMS:
        return np.asarray(way.released_draws(fit, count, rng, (case.X, case.y)))
    theta = parameters(fit)
    if isinstance(way, fl.SampledLabels):
        return np.asarray((rng.random((count, len(QUERIES))) < answers(way, theta)) * 1.0)
    if isinstance(way, fl.Answers):
        return np.asarray(answers(way, theta) + way.noise.draws(count, len(QUERIES), rng))
    return np.asarray(theta + way.draws(count, len(theta), rng))


def within(way: Any, drawn: Vector, case: Case) -> tuple[Any, float]:
    """Draws that count, and the part of the information that they hold.

    The square of the score of bounded noise has no variance: it is held against what is within 0.9 of the limit, where
    the density cos^2(pi u / 2 L) / L has c + sin(pi c) / pi of the draws and c - sin(pi c) / pi of the information.
    """
    if not isinstance(way, fl.Bounded):
        return slice(None), 1.0
    c, bend = 0.9, np.sin(0.9 * np.pi) / np.pi
    away = np.abs(drawn - parameters(case.fit()))
    return np.all(away < c * way.limit, axis=1), float((c - bend) * (c + bend) ** (drawn.shape[1] - 1))


@pytest.mark.long
@pytest.mark.parametrize("name", WAYS)
def test_fim_is_the_covariance_of_the_score_and_five_percent_more_or_less_is_rejected(name: str) -> None:
    way, loss = WAYS[name]
    case = make(loss, n=12, intercept=True, l2=0.05)
    drawn = draws(way, case, 400_000 if name == "ObjectivePerturbation" else 60_000)
    counted, part = within(way, drawn, case)
    score = []
    for column in (0, 1, 2):
        sides = [log_likelihood(way, drawn[counted], moved(case, ROW, column, s * 1e-5)) for s in (1, -1)]
        score.append((sides[0] - sides[1]) / 2e-5)
    fim = case.leak(way).fim(rows=[ROW], attributes=[0, 1, 2])
    top = np.linalg.eigh(fim)[1][:, -1]
    share = float(np.sum((top @ np.stack(score)) ** 2) / len(drawn) / (part * (top @ fim @ top)))
    assert share == pytest.approx(1.0, abs=0.022)
    assert min(abs(share / 0.95 - 1.0), abs(share / 1.05 - 1.0)) > 0.022


# What else is asked of each


def several(kind: str) -> tuple[Vector, Any, fl.Fit]:
    """Rows, labels and a fit of two numbers or three classes."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 3))
    if kind == "two numbers":
        Y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(40, 2))
        return X, Y, fl.minimise(X, Y, l2=0.05)
    names = np.array(["a", "b", "c"])[np.argmax(X + rng.normal(size=(40, 3)), axis=1)]
    return X, names, fl.minimise(X, names, "softmax", l2=0.05)


def asked(way: Any, loss: str, folder: Path) -> dict[str, Callable[[], Any]]:
    way = fl.ObjectivePerturbation(way.scale, draws=200) if isinstance(way, fl.ObjectivePerturbation) else way
    if loss in ("two numbers", "three classes"):
        X, y, fit = several(loss)
        numbers = several("two numbers")[:2]
    else:
        case = make(loss, intercept=True, l2=0.05)
        X, y, fit = case.X, case.y, case.fit()
        numbers = (make("squared").X, make("squared").y)

    @functools.cache
    def leak() -> fl.Leakage:
        return fl.measure(fit, X, y, noise=way)

    rows: dict[str, Any] = {"rows": (X, y)} if isinstance(way, fl.ObjectivePerturbation) else {}

    def infer() -> Any:
        attacker = fl.attacks.WhiteBox(fit, X, y, 0, values=[-1.0, 1.0])
        return attacker.infer(fl.release(fit, way, random_state=0, **rows))

    return {
        "measure": lambda: leak().summary(),
        "per_cell": lambda: leak().per_cell(),
        "dataset": lambda: leak().dataset(),
        "by_group": lambda: leak().by_group(np.arange(40) % 3),
        "to_frame": lambda: leak().to_frame(),
        "calibrate": lambda: calibrates(leak()),
        "membership": lambda: leak().membership(),
        "compose": lambda: composes(leak()),
        "counted": lambda: fl.counted(leak(), 1.0),
        "release": lambda: fl.release(fit, way, random_state=0, **rows),
        "attack": lambda: fl.attacks.WhiteBox(fit, X, y, 0, values=[-1.0, 1.0]).accuracy(way),
        "infer": infer,
        "PrivateRelease": lambda: fl.PrivateRelease(Ridge(), eta=1.0, noise=way).fit(*numbers),
        "IRFIL": lambda: fl.IRFIL(Ridge(), noise=way, n_iter=1).fit(*numbers),
        "membership attack": lambda: fl.attacks.Membership(fit, X, y, rows=[0, 1]).simulate(way, 40),
        "black box": lambda: fl.attacks.BlackBox(fit, X, y, 0, values=[-1.0, 1.0]).accuracy(way, draws=5),
        "protect": lambda: fl.protect(
            *(Ridge(), *numbers),
            over="max",
            penalties=[1.0],
            weightings=["none"],
            shapes=["isotropic"] if way == fl.Gaussian(0.4) else [way],
        ),
        "card": lambda: from_card(as_noise(way).record()),
        "report": lambda: leak().report(folder / "report.html"),
        "Ledger": lambda: records(leak(), X, y, folder / "ledger.json"),
        "gradients": lambda: fl.gradients(fit, X, y, way),
    }


def calibrates(leak: fl.Leakage) -> None:
    """To the limit asked for, and not below it by more than an average over other draws leaves open."""
    limit = 0.9 * float(leak.per_example().max())
    found = float(leak.with_noise(fl.calibrate(leak, limit)).per_example().max())
    assert 0.99 * limit < found <= limit * (1.0 + 1e-9)


def composes(leak: fl.Leakage) -> None:
    """The same twice is twice the information."""
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), np.sqrt(2.0) * leak.per_example(), rtol=1e-9)
    np.testing.assert_allclose(twice.dataset(), np.sqrt(2.0) * leak.dataset(), rtol=1e-6)


def records(leak: fl.Leakage, X: Vector, y: Any, path: Path) -> None:
    """And reads it back from what a file keeps."""
    ledger = fl.Ledger(path)
    ledger.add(leak)
    np.testing.assert_allclose(fl.Ledger(path).leakage(X, y).per_example(), leak.per_example(), rtol=1e-9)
    ledger.add(leak)
    np.testing.assert_allclose(
        fl.Ledger(path).leakage(X, y).per_example(), np.sqrt(2.0) * leak.per_example(), rtol=1e-9
    )


OF_PARAMETERS = {
    *("counted", "release", "attack", "infer", "membership attack", "black box"),
    *("PrivateRelease", "IRFIL", "gradients", "protect", "card"),
}
"""What is asked of noise on parameters alone."""
DATA_SHAPED = {"counted", "membership", "PrivateRelease", "IRFIL", "gradients", "protect", "card", "report"}
AVERAGED = {"compose", "Ledger"}
SEVERAL_NUMBERS = {*AVERAGED, "attack", "infer", "membership attack", "black box"}
ONE_OUTPUT = {"counted", "Ledger", "gradients"}
"""What is there for models of one output alone."""
ONE_TARGET = {"PrivateRelease", "IRFIL", "protect"}
"""Estimators, which are given two targets."""
SEVERAL_OUTPUTS = ("two numbers", "three classes")
SEVERAL: dict[str, tuple[Any, str]] = {
    **{f"{name}, {of}": (noise, of) for name, noise in NOISES.items() for of in SEVERAL_OUTPUTS},
    "Posterior, two numbers": (fl.Posterior(0.3), "two numbers"),
    "ObjectivePerturbation, two numbers": (fl.ObjectivePerturbation(1.7), "two numbers"),
    "Answers, two numbers": (fl.Answers(QUERIES, fl.Gaussian(0.3)), "two numbers"),
    "Posterior, three classes": (fl.Posterior(0.3), "three classes"),
    "ObjectivePerturbation, three classes": (fl.ObjectivePerturbation(1.7), "three classes"),
    "Answers, three classes": (fl.Answers(QUERIES, fl.Gaussian(0.3)), "three classes"),
    "Answers, probabilities of three classes": (
        fl.Answers(QUERIES, fl.Gaussian(0.3), of="probability"),
        "three classes",
    ),
    "SampledLabels, three classes": (fl.SampledLabels(QUERIES), "three classes"),
}
EVERYTHING = set(asked(fl.Gaussian(0.4), "squared", Path()))
OF_NORMAL = {"membership"}
REFUSED: dict[str, set[str]] = {
    **{name: set() if noise.normal else {*OF_NORMAL, "protect"} for name, noise in NOISES.items()},
    **{
        f"{name}, {of}": ONE_OUTPUT | ONE_TARGET | (set() if noise.normal else OF_NORMAL)
        for name, noise in NOISES.items()
        for of in SEVERAL_OUTPUTS
    },
    "Gaussian of a shape": {"protect"},
    "Posterior": DATA_SHAPED - {"membership"},
    "ObjectivePerturbation": DATA_SHAPED - {"membership"},
    "ObjectivePerturbation, averaged": DATA_SHAPED | AVERAGED,
    "Answers": OF_PARAMETERS,
    "Answers, probabilities": OF_PARAMETERS | {"membership"},
    "SampledLabels": OF_PARAMETERS | {"membership", "calibrate", "report"},
    "Posterior, two numbers": DATA_SHAPED | ONE_OUTPUT | SEVERAL_NUMBERS,
    "ObjectivePerturbation, two numbers": DATA_SHAPED | ONE_OUTPUT | SEVERAL_NUMBERS,
    "Answers, two numbers": OF_PARAMETERS | ONE_OUTPUT,
    "Posterior, three classes": EVERYTHING,
    "ObjectivePerturbation, three classes": EVERYTHING,
    "Answers, three classes": OF_PARAMETERS | ONE_OUTPUT,
    "Answers, probabilities of three classes": OF_PARAMETERS | ONE_OUTPUT | {"membership"},
    "SampledLabels, three classes": OF_PARAMETERS | ONE_OUTPUT | {"membership", "calibrate", "report"},
}
REMEDY = r"([Uu]se|[Ff]it|[Ss]imulate|[Pp]rint|[Aa]nswer|[Cc]ompose|[Pp]ass|must( not)? (be|depend))\b"


def test_every_way_has_its_place_in_the_table(tmp_path: Path) -> None:
    assert set(REFUSED) == set(WAYS | SEVERAL)
    for name, (way, loss) in (WAYS | SEVERAL).items():
        assert REFUSED[name] <= set(asked(way, loss, tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("quick_audits")
@pytest.mark.parametrize("name", [*WAYS, *often(SEVERAL, 3)])
def test_every_method_works_or_refuses_by_name(name: str, tmp_path: Path) -> None:
    """What works is held against itself twice, or read back; a refusal names the way, or the model, and a remedy."""
    way, loss = (WAYS | SEVERAL)[name]
    by = type(way).__name__ + (r"|several|2 outputs|3 classes|\(40, 2\)" if name in SEVERAL else "")
    for what, ask in asked(way, loss, tmp_path).items():
        if what in REFUSED[name]:
            with pytest.raises(fl.FisherleakError, match=by) as refusal:
                print(what, ask())
            assert "\n" not in str(refusal.value)
            assert len(str(refusal.value)) < 400
            assert re.search(REMEDY, str(refusal.value)), (what, str(refusal.value))
        else:
            ask()
