"""Two releases never share their noise: the difference of two that did would be exact."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import fisherleak as fl

X, Y = (part[:60] for part in load_diabetes(return_X_y=True))
NOISES: list[Any] = [
    fl.Gaussian(1.0),
    fl.Laplace(1.0),
    fl.Bounded(1.0),
    fl.Gaussian(1.0, np.diag(np.arange(1.0, 12.0))),
]

FORKED = """
import json, multiprocessing, os
import numpy as np
import fisherleak as fl
from sklearn.linear_model import Ridge

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
model = Ridge().fit(X, y)
wrapped = fl.PrivateRelease(Ridge(), over="max", eta=1.0)


def drawn(_=None):
    noisy = [fl.release(model, kind(1.0)).coef_.tolist() for kind in fl.NOISES.values()]
    return [*noisy, wrapped.fit(X, y).estimator_.coef_.tolist()]


def forked():
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ends[1], json.dumps(drawn()).encode())
        os._exit(0)
    os.close(ends[1])
    with os.fdopen(ends[0]) as said:
        found = json.load(said)
    os.waitpid(child, 0)
    return found


before = drawn()  # whatever state there were would be there now
found = [before, *(forked() for _ in range(3)), drawn()]
with multiprocessing.get_context("fork").Pool(2) as pool:
    found += pool.map(drawn, range(4), chunksize=1)
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def steady_chance() -> None:
    """Here it is the system's own randomness that is tested."""


def all_differ(releases: list[Any]) -> None:
    found = np.array(releases)
    for k, one in enumerate(found):
        assert (found[k + 1 :] != one).any(axis=1).all()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the system has no fork")
def test_forked_processes() -> None:
    """With every noise, and by an estimator."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert len(found) == 1 + 3 + 1 + 4
    assert {len(each) for each in found} == {len(fl.NOISES) + 1}
    all_differ([each for some in found for each in some])


@pytest.mark.parametrize("noise", NOISES, ids=["Gaussian", "Laplace", "Bounded", "shaped"])
def test_calls(noise: Any) -> None:
    model = Ridge().fit(X, Y)
    all_differ([fl.release(model, noise).coef_ for _ in range(4)])


@pytest.mark.long
def test_joblib() -> None:
    model = Ridge().fit(X, Y)
    for noise in NOISES:
        releases = [fl.release(model, noise)]
        releases += joblib.Parallel(n_jobs=2)(joblib.delayed(fl.release)(model, noise) for _ in range(4))
        all_differ([each.coef_ for each in releases])


def test_clones_and_copies() -> None:
    one = fl.PrivateRelease(Ridge(), over="max", eta=1.0)
    models = [one, clone(one), clone(one), *(fl.PrivateRelease(Ridge(), over="max", eta=1.0) for _ in range(2))]
    all_differ([model.fit(X, Y).estimator_.coef_ for model in (*models, one)])
