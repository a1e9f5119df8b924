"""Pickles of another version are refused by its number, before anything of theirs is read; those of this one are read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak.auditing import Settings, audit
from fisherleak.errors import InvalidInputError

X, Y = (part[:60] for part in load_diabetes(return_X_y=True))


def kept(name: str) -> Any:
    fit = fl.minimise(X, Y, l2=0.1)
    if name == "a fit":
        return fit
    if name == "a leakage":
        return fl.measure(fit, X, Y, fl.Gaussian(1.0))
    if name == "an estimator":
        return fl.PrivateRelease(Ridge(alpha=10.0), eta=5.0, over="max", random_state=0).fit(X, Y)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(y=Y)
    return audit(frame, Settings("y"), noise=20.0, draws=2, attacks=False)


@pytest.mark.parametrize("name", ["a fit", "a leakage", "an estimator", "an audit"])
def test_a_pickle_of_another_version_is_refused_by_its_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kept(name)
    with monkeypatch.context() as other:
        other.setattr(fl, "__version__", "0.0.7")
        written = pickle.dumps(made)
    for text in (written, written.replace(b"fisherleak.leakage", b"fisherleak.elsewhe")):  # a folder that is not here
        with pytest.raises(InvalidInputError, match=rf"written by fisherleak 0\.0\.7, and this is {fl.__version__}"):
            pickle.loads(text)  # noqa: S301 - our own


def test_pickles_and_copies_of_this_version_hold_what_was_pickled() -> None:
    leak = kept("a leakage")
    for other in (pickle.loads(pickle.dumps(leak)), copy.copy(leak), copy.deepcopy(leak)):  # noqa: S301 - our own
        np.testing.assert_array_equal(other.per_example(), leak.per_example())
    private = kept("an estimator")
    again = pickle.loads(pickle.dumps(private))  # noqa: S301 - our own
    np.testing.assert_array_equal(again.predict(X), private.predict(X))
