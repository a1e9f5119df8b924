"""The public object: names, rows, noise, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import make

CASE = make("squared", 0, 30, 4)
BLOCKS = {"gene": [1, 2]}


@pytest.fixture(scope="module")
def leak() -> fl.Leakage:
    return CASE.leak(fl.Gaussian(0.5), BLOCKS)


def test_names_numbers_and_blocks(leak: fl.Leakage) -> None:
    assert leak.attributes == ["gene", "x0", "x3"]
    np.testing.assert_array_equal(leak.per_example(["gene"]), leak.per_example([0]))
    np.testing.assert_array_equal(leak.per_example("gene"), leak.per_example(["gene"], label=False))
    assert (leak.per_example("gene", label=True) >= leak.per_example("gene")).all()
    assert leak.per_cell().shape == (30, 3)
    assert leak.per_attribute().shape == (3,)
    np.testing.assert_allclose(leak.per_cell()[:, 0], leak.per_example("gene"), rtol=1e-12)


def test_rows_as_mask_positions_and_single_numbers(leak: fl.Leakage) -> None:
    mask = np.zeros(30, dtype=bool)
    mask[[4, 9]] = True
    assert leak.of(mask) == leak.of([4, 9])
    assert leak.of([9, 4]) == pytest.approx(leak.of([4, 9]), rel=1e-13)
    assert leak.of(4) == pytest.approx(leak.per_example()[4], rel=1e-12)
    assert leak.of(-1) == pytest.approx(leak.per_example()[29], rel=1e-12)
    assert leak.of() == leak.dataset()


def test_groups_by_text_and_number(leak: fl.Leakage) -> None:
    groups = np.where(np.arange(30) < 10, "a", "b")
    by_text = leak.by_group(groups)
    assert list(by_text) == ["a", "b"]
    assert by_text["a"] == leak.of(np.arange(10))
    assert list(leak.by_group(np.arange(30) % 2)) == [0, 1]


def test_noise_scales_everything(leak: fl.Leakage) -> None:
    quieter = leak.with_noise(fl.Gaussian(0.25))
    for method in ("per_example", "per_cell", "per_attribute", "per_label", "dataset"):
        np.testing.assert_allclose(getattr(quieter, method)(), 2 * getattr(leak, method)(), rtol=1e-14)
    np.testing.assert_allclose(quieter.fim([1, 2]), 4 * leak.fim([1, 2]), rtol=1e-13)


def test_noise_is_compared_by_value() -> None:
    assert fl.Gaussian(1.0, np.eye(2)) == fl.Gaussian(1.0, np.eye(2))
    assert fl.Gaussian(1.0, np.eye(2)) != fl.Gaussian(1.0)
    assert fl.Gaussian(1.0) != fl.Gaussian(2.0)
    assert len({fl.Gaussian(1.0), fl.Gaussian(1.0), fl.Gaussian(1.0, np.eye(2))}) == 2


def test_default_noise_is_scale_one() -> None:
    assert CASE.leak().noise == fl.Gaussian(1.0)


def test_fim_is_ordered_row_by_row(leak: fl.Leakage) -> None:
    fim = leak.fim([3, 7])
    assert fim.shape == (10, 10)
    np.testing.assert_allclose(fim[:5, :5], leak.fim([3]), rtol=1e-12)
    np.testing.assert_allclose(fim[5:, 5:], leak.fim([7]), rtol=1e-12)
    assert np.sqrt(np.linalg.eigvalsh(fim)[-1]) == pytest.approx(leak.of([3, 7]), rel=1e-12)
    assert np.sqrt(fim[4, 4]) == pytest.approx(leak.per_label()[3], rel=1e-12)
    assert leak.fim([3], ["x3"]).shape == (1, 1)


def test_weights_come_with_the_fit() -> None:
    case = make("squared", 1, 30, 3, weighted=True)
    fit = case.fit()
    plain = fl.measure(fit, case.X, case.y)
    np.testing.assert_array_equal(
        plain.per_example(), fl.measure(fit, case.X, case.y, sample_weight=case.weights).per_example()
    )
    with pytest.raises(fl.InvalidInputError, match="differs from the weights the model was fitted with"):
        fl.measure(fit, case.X, case.y, sample_weight=np.ones(30))
    with pytest.raises(fl.InvalidInputError, match="differs from the weights"):
        fl.measure(CASE.fit(), CASE.X, CASE.y, sample_weight=np.arange(30) + 1.0)
    fl.measure(CASE.fit(), CASE.X, CASE.y, sample_weight=np.ones(30))


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        (["a", None] * 15, ["a", None]),
        ([1, "a"] * 15, [1, "a"]),
        (np.array([1.0, np.nan] * 15), [1.0, None]),
        (np.array([True, False] * 15), [False, True]),
        (np.array(["b", "a"] * 15, dtype=object), ["a", "b"]),
    ],
)
def test_groups_of_every_kind(leak: fl.Leakage, labels: Any, groups: list[Any]) -> None:
    assert list(leak.by_group(labels)) == groups


def test_groups_from_tables(leak: fl.Leakage) -> None:
    pandas = pytest.importorskip("pandas")
    for kind in ("object", "category", "string"):
        assert list(leak.by_group(pandas.Series(["b", "a"] * 15, dtype=kind))) == ["a", "b"]


def test_rows_of_every_kind(leak: fl.Leakage) -> None:
    expected = leak.of([1, 2])
    for rows in (slice(1, 3), {1, 2}, (1, 2), np.array([1, 2], dtype=np.uint8), range(1, 3)):
        assert leak.of(rows) == expected


MISUSE: list[tuple[str, str]] = [
    ("leak.per_example(['gen'])", "no attribute 'gen'. Did you mean 'gene'"),
    ("leak.per_example(['zebra'])", "There are: 'gene', 'x0', 'x3'"),
    ("leak.per_example([3])", "names or numbers from 0 to 2; got 3"),
    ("leak.per_example([True])", "got True"),
    ("leak.per_example([1.5])", "got 1.5"),
    ("leak.per_example([])", "attributes is empty"),
    ("leak.per_example(['gene', 0])", "must not repeat"),
    ("leak.of([30])", "rows must be from 0 to 29; got 30"),
    ("leak.of([1, 1])", "must not repeat"),
    ("leak.of([1, -29])", "must not repeat"),
    ("leak.of([])", "at least one row"),
    ("leak.of(np.zeros(30, dtype=bool))", "at least one row"),
    ("leak.of(np.ones(3, dtype=bool))", "mask must have 30 values"),
    ("leak.of([0.5])", "mask or a list of row numbers"),
    ("leak.of('gene')", "rows are positions, from 0, or a mask; not labels"),
    ("leak.of(['gene'])", "rows are positions"),
    ("leak.plot('gen')", "There is no column 'gen'"),
    ("leak.by_group(3)", "one label for each of the 30 rows; got 3"),
    ("leak.by_group([[1]] * 30)", "got another shape"),
    ("fl.calibrate(CASE.fit(), 0.1)", "with accuracy=; got Fit"),
    ("fl.compose([leak, leak])", "compose(leak_a, leak_b); got list"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, fl.Gaussian)", "got Gaussian"),
    ("fl.Gaussian(1.0).draw(3, 'seed')", "random_state must be None, a whole number"),
    ("fl.Gaussian(1.0).draw(3, -1)", "random_state must be None, a whole number"),
    ("fl.minimise([['a', 1.0], ['b', 2.0]], [1, 2])", "X must hold numbers"),
    ("fl.minimise(np.array([[1.0, 'north']], dtype=object), [1])", "'north' in row 0, column 1, does not"),
    ("leak.per_example(1.0)", "got 1.0"),
    ("leak.per_example(label='yes')", "label must be True or False; got 'yes'"),
    ("leak.per_example(fl.Attribute('x0', [0]))", "attributes must be names or numbers"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, 0.1)", "noise must be a noise such as fisherleak.Gaussian(0.1); got 0.1"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes='abc')", "attributes must be a list of names"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes={'q': [0.7]})", "must be whole numbers; got [0.7]"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes={'q': None})", "must be whole numbers; got [None]"),
    ("fl.measure(CASE.fit(), np.ma.masked_array(CASE.X), CASE.y)", "X is a masked array"),
    ("fl.Attribute('q', '01')", "must be whole numbers; got '01'"),
    ("fl.Gaussian(1.0, 'abc')", "shape must hold numbers"),
    ("leak.by_group([1, 2])", "one label for each of the 30 rows; got 2"),
    ("leak.with_noise(fl.Gaussian(1.0, np.eye(7)))", "cover the 4 released parameters; got 7"),
    ("fl.measure(CASE.fit(), CASE.X[:9], CASE.y[:9])", "fitted on 30 rows and 4 columns; got 9 rows"),
    ("fl.measure(CASE.fit(), CASE.X[:, :2], CASE.y)", "got 30 rows and 2 columns"),
    ("fl.measure(CASE.fit(), CASE.X[::-1].copy(), CASE.y)", "not at a minimum on this X and y"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y[::-1].copy())", "not at a minimum"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes=['a'])", "name each of the 4 columns of X; got 1"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes={'a': [9]})", "name column 9, but X has columns 0 to 3"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes={'a': ['q']})", "names column 'q', which X does not have"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes={'x0': [1]})", "'x0' appears more than once"),
    ("fl.measure(CASE.fit(), CASE.X, CASE.y, attributes=[1, 2])", "attributes must be a list of names"),
    ("fl.Attribute('a', [])", "at least one column"),
    ("fl.Attribute('a', [1, 1])", "each only once"),
    ("fl.Attribute('a', [1], np.ones((2, 1)))", "one row for each of its 1 columns"),
    ("fl.Attribute('a', [1], [[np.nan]])", "must be finite"),
    ("fl.Attribute.one_hot('a', [1])", "two columns or more"),
    ("fl.Gaussian(0.0)", "greater than zero; got 0.0. A model released without noise"),
    ("fl.Gaussian(float('nan'))", "finite number greater than zero"),
    ("fl.Gaussian('1')", "scale must be a number; got str"),
    ("fl.Gaussian(1.0, -np.eye(2))", "positive definite"),
    ("fl.Gaussian(1.0, np.ones((2, 3)))", "square"),
    ("fl.Gaussian(1.0, np.array([[1.0, 0.5], [0.0, 1.0]]))", "symmetric"),
]


@pytest.mark.parametrize(("expression", "message"), MISUSE, ids=[row[0] for row in MISUSE])
def test_misuse_gets_one_clear_sentence(leak: fl.Leakage, expression: str, message: str) -> None:
    names: dict[str, Any] = {"leak": leak, "fl": fl, "np": np, "CASE": CASE}
    with pytest.raises(fl.InvalidInputError) as caught:
        eval(expression, names)  # noqa: S307 - the expressions stand above
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_matrix_too_large_is_refused_before_it_is_made() -> None:
    case = make("squared", 0, 6000, 4)
    leak = case.leak()
    with pytest.raises(fl.InvalidInputError, match=r"30000 values has 9.0e\+08 entries.*use of\(\)"):
        leak.fim()
