"""Ways to pass a policy by what a release names for the sake of a few, by decimal marks, targets of few values, and draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.auditing.exposure.membership_of_rows import told_by_names
from fisherleak.cli import main
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.enough_people import check_enough
from fisherleak.tables import Choices, Design, design_of, from_frame
from fisherleak.training.defaults import DEFAULT_L2
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.trained_model import trained_on
from fisherleak.training.utility import tradeoff

Gate = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs an audit under a policy: the exit status, what was said on standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(table: Any, policy: str, *options: str, target: str = "y") -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table, policy)
        return judged(capsys, "--target", target, "--held-out", "0", *options)

    return run


# what a release names for the sake of just enough rows


def plain(rows: int = 80, seed: int = 0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = (np.clip(rng.normal(0, 1, rows), -4, 4).round(3) for _ in range(2))
    return pandas.DataFrame({"a": a, "b": b, "y": np.clip(a + rng.normal(0, 1, rows), -8, 8).round(3)})


def five_of_a_city() -> pandas.DataFrame:
    return plain().assign(city=["Zwolle"] * 5 + ["Bonn", "Kiel", "Genua"] * 25)


def five_in_the_pool() -> pandas.DataFrame:
    return plain().assign(city=["Ulm"] * 3 + ["Jena"] * 2 + ["Bonn", "Kiel", "Genua"] * 25)


def five_without_a_city() -> pandas.DataFrame:
    return plain().assign(city=np.array([None] * 5 + ["Bonn", "Kiel", "Genua"] * 25, dtype=object))


def some_lacking(count: int, rows: int) -> pandas.DataFrame:
    table = plain(rows)
    table.loc[: count - 1, "a"] = np.nan
    return table


def five_flags() -> pandas.DataFrame:
    return plain().assign(flag=[1] * 5 + [0] * 75)


def five_of_a_class() -> pandas.DataFrame:
    return plain().assign(y=["z"] * 5 + ["u", "v", "w"] * 25)


def many_cities(counts: list[int]) -> pandas.DataFrame:
    cities = [f"{chr(97 + k // 26)}{chr(97 + k % 26)}" for k, count in enumerate(counts) for _ in range(count)]
    return plain(len(cities)).assign(city=cities)


TABLES = {
    "a city of five": (five_of_a_city(), 5),
    "five in the pool": (five_in_the_pool(), 5),
    "five without a city": (five_without_a_city(), 5),
    "six lack a number": (some_lacking(6, 120), 6),
    "five lack a number": (some_lacking(5, 101), 96),
    "thirty have a number": (some_lacking(4, 34), 30),
    "five flags": (five_flags(), 5),
    "a class of five": (five_of_a_class(), 5),
    "the last city that is kept": (many_cities([6] * 48 + [5, 5, 5]), 5),
    "the city that makes them many": (many_cities([8] * 49 + [6, 1]), 7),
    "nothing": (plain().assign(city=["Ulm"] * 6 + ["Bonn", "Kiel"] * 37, flag=[1] * 6 + [0] * 74), 0),
}


def released_design(table: pandas.DataFrame) -> Design | None:
    try:
        design = design_of(from_frame(table), Choices("y", rare=5), held_out=0)
        check_enough(design)
    except InvalidInputError:
        return None
    return design


def named(design: Design | None) -> Any:
    """What a release says beside numbers; None where there is none."""
    if design is None:
        return None
    return [(each.name, each.kind, each.levels, bool(each.pooled)) for each in design.features], design.target.classes


@pytest.mark.parametrize("name", TABLES)
def test_rows_without_which_a_release_names_other_things_are_recognised(name: str) -> None:
    """Against releases without one of each sort of rows."""
    table, count = TABLES[name]
    design = released_design(table)
    assert design is not None
    told, said = told_by_names(design)
    told = np.zeros(len(table)) if told is None else told
    assert np.isinf(told).sum() == count
    assert said.startswith(f"{count} of {len(table)} rows can be recognised with certainty") or not count
    sorts = table.assign(a=table["a"].isna(), b=0, y=0 if table["y"].dtype == float else table["y"]).fillna("none")
    for k in sorts.drop_duplicates().index:
        other = named(released_design(table.drop(index=k))) != named(design)
        # all that are pooled count as one
        assert np.isinf(told[k]) == other or (not other and name == "the city that makes them many")


def test_people_without_whom_a_release_names_other_things_are_recognised() -> None:
    table = five_of_a_city().assign(who=np.arange(80) // 2)  # three people have Zwolle
    table = pandas.concat([table, table.iloc[:2].assign(who=[70, 71])])
    design = design_of(from_frame(table), Choices("y", rare=5, person="who"), held_out=0)
    told, said = told_by_names(design)
    assert design.people is not None
    assert np.flatnonzero(np.isinf(told)).tolist() == [0, 1, 2, 40, 41]
    assert said.startswith("5 of 42 people")


@pytest.mark.parametrize(
    "counts", [[24] * 44 + [5] * 5 + [4, 3], [24] * 47 + [6, 3, 1, 1], [24] * 44 + [5] * 3 + [2] * 9]
)
def test_of_people_with_several_rows_all_whom_a_pool_may_tell_are_counted_and_said_to_be_so_many_at_most(
    counts: list[int],
) -> None:
    """Against tables without each person: nobody who changes what a release names is left out of the bound."""
    table = many_cities(counts)
    table["who"] = np.random.default_rng(len(counts)).integers(0, len(table) // 2, len(table))

    def released(rows: pandas.DataFrame) -> Design:
        return design_of(from_frame(rows), Choices("y", rare=5, person="who"), held_out=0)

    design = released(table)
    assert design.people is not None
    told, said = told_by_names(design)
    bound = 0 if told is None else int(np.isinf(told).sum())
    assert bound < design.people.count
    assert said.startswith(f"Up to {bound} of {design.people.count} people can") or not bound
    names = {str(each): k for k, each in enumerate(design.people.names.tolist())}
    some = {*table[table.city.map(table.city.value_counts()) < 9].who, *table.who.unique()[:9]}
    changing = {names[str(each)] for each in some if named(released(table[table.who != each])) != named(design)}
    assert changing <= set(np.flatnonzero(np.zeros(0) if told is None else np.isinf(told)).tolist())
    assert changing


@pytest.mark.parametrize("name", ["a city of five", "five lack a number", "five flags", "a class of five"])
def test_membership_counts_what_a_release_names(gate: Gate, name: str) -> None:
    table, count = TABLES[name]
    bounds = [word for each in ("a=-4:4", "b=-4:4", "flag=0:1", "y=-8:8") for word in ("--bounds", each)]
    bounds = bounds[:4] + bounds[4:6] * ("flag" in table) + bounds[6:] * (table["y"].dtype == float)
    policy = "[membership]\nmax_right = 0.9\n"
    line = ("--noise", "3", "--no-attacks", "--draws", "2", *bounds)
    status, _, rules = gate(table, policy, *line)
    rule = rules["membership.max_right"]
    assert (status, rule["value"], rule["count"]) == (1, 1.0, count)
    assert f"{count} of {len(table)} rows can be recognised with certainty" in rule["note"]


def test_declared_levels_hide_who_is_one_of_five(gate: Gate) -> None:
    policy = "[membership]\nmax_right = 0.9\n"
    line = ("--noise", "3", "--no-attacks", "--draws", "2", "--levels", "city=Zwolle,Bonn,Kiel,Genua")
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=-8:8") for word in ("--bounds", each)]
    status, _, rules = gate(five_of_a_city(), policy, *line, *bounds)
    assert status == 0
    assert rules["membership.max_right"]["value"] < 0.9


# targets of few values, and draws


def test_attacks_on_a_numeric_target_of_few_values_are_limited(gate: Gate) -> None:
    rng = np.random.default_rng(5)
    table = plain(60, 5).assign(y=rng.choice([0, 2, 4], 60))
    policy = '[columns."*"]\nmax_revealed = 0.999\nmax_attack = 0.6\n'
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=0:4") for word in ("--bounds", each)]
    status, _, rules = gate(table, policy, "--noise", "0.01", "--draws", "2", *bounds)
    assert status == 1
    assert not rules["columns.y.max_attack"]["passed"]
    assert rules["columns.y.max_attack"]["value"] > 0.6
    own = policy + "[label]\nmax_attack = 0.999\n"
    assert gate(table, own, "--noise", "0.01", "--draws", "2", *bounds)[2]["label.max_attack"]["limit"] == 0.999


def test_draws_and_seeds_do_not_decide_utility(gate: Gate) -> None:
    policy = "[utility]\nmin = -9\n[rows]\nmax_eta = 1e9\n"
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=-8:8") for word in ("--bounds", each)]
    line = ("--noise", "0.5", "--no-attacks", "--draws", "2", "--seed", "7", *bounds)
    first, second = (gate(plain(), policy, *line)[2]["utility.min"] for _ in range(2))
    assert first["value"] != second["value"]
    assert "the lower end of the 95 % interval of the mean of 100 noisy copies" in first["note"]
    design = design_of(
        from_frame(plain()), Choices("y", bounds=(("a", (-4, 4)), ("b", (-4, 4)), ("y", (-8, 8)))), held_out=0
    )
    trained = trained_on(kind_of("linear"), design, DEFAULT_L2, None, "nothing")
    truth = tradeoff(trained, [0.5], 20_000, 0).points[0]
    assert truth.utility - 1.5 < first["value"] < truth.utility + 0.1  # one in forty such ends is above the truth
    values = [each.utility - each.unsure for seed in range(100) for each in tradeoff(trained, [0.5], 100, seed).points]
    assert np.mean(np.array(values) > truth.utility) < 0.1


# noise that rows decide


@pytest.mark.parametrize(
    ("shape", "section", "refused"),
    [
        (
            "isotropic",
            "[membership]\nmax_right = 0.9",
            "the noise's scale, which the model card states, was computed from the rows",
        ),
        (
            "isotropic",
            "[label]\nmin_error = 1e-3",
            "the noise's scale, which the model card states, was computed from the rows",
        ),
        (
            "hessian",
            "[columns.a]\nmax_eta = 1e3",
            "the noise's scale, which the model card states, was computed from the rows",
        ),
        ("isotropic", "[rows]\nmax_eta = 1e3", ""),
        ("hessian", "[rows]\nmax_eta = 1e3", ""),
        ("least-loss", "[rows]\nmax_eta = 1e3", "the rows decided the covariance of the noise"),
        ("least-loss", "[label]\nmax_eta = 1e3", "the rows decided the covariance of the noise"),
    ],
)
def test_rules_that_do_not_count_noise_that_the_rows_decide_are_refused(
    gate: Gate, capsys: pytest.CaptureFixture[str], shape: str, section: str, refused: str
) -> None:
    plain().to_csv("t.csv", index=False)
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=-8:8") for word in ("--bounds", each)]
    line = ["release", "t.csv", "--target", "y", "--held-out", "0", "--out", "m.skops", "--quiet", *bounds]
    assert main([*line, "--eta", "1", "--over", "max", "--shape", shape]) == 0
    Path("policy.toml").write_text(section, encoding="utf-8")
    capsys.readouterr()
    line = ["audit", "t.csv", "--released", "m.skops", "--policy", "policy.toml", "--no-attacks", "--quiet"]
    status, err = main([*line, "--draws", "2"]), capsys.readouterr().err
    if refused:
        assert (status, refused in err, err.count("\n")) == (2, True, 1), err
    else:
        assert "cannot be checked" not in err


# decimal marks, which decide the unit of a limit


def european(settled: bool = False) -> str:
    """Ages with three decimals and commas; ``settled`` by a column of two decimals."""
    rng = np.random.default_rng(3)
    ages, labels = np.clip(rng.normal(50, 12, 80), 18.001, 89.999), rng.integers(0, 2, 80)
    lines = [
        f"{age:.3f};{60 + k / 97:.2f};{y}".replace(".", ",")
        for k, (age, y) in enumerate(zip(ages, labels, strict=True))
    ]
    lines = lines if settled else [";".join(line.split(";")[::2]) for line in lines]
    return "\n".join(["age;weight;y" if settled else "age;y", *lines]) + "\n"


IN_YEARS = '[columns.age]\nmin_error = 5\nkind = "number"\n[require]\nmodel = "logistic"\n'
THOUSANDS = ("--noise", "0.002", "--number", "age", "--no-attacks", "--draws", "2", "--bounds", "age=18000:90000")
YEARS = (*THOUSANDS[:-1], "age=18:90")


def test_a_decimal_mark_that_the_policy_does_not_state_is_refused(gate: Gate) -> None:
    status, err, _ = gate(european(), IN_YEARS, *THOUSANDS, "--decimal", ".")
    assert (status, err.count("\n")) == (2, 1)
    assert "--decimal is '.', which the policy 'policy.toml' does not state" in err
    status, _, rules = gate(european(), IN_YEARS + 'decimal = ","\n', *YEARS, "--decimal", ",")
    assert (status, rules["require.decimal"]["passed"], rules["columns.age.min_error"]["passed"]) == (1, True, False)
    status, _, rules = gate(european(), IN_YEARS + 'decimal = ","\n', *THOUSANDS, "--decimal", ".")
    assert (status, rules["require.decimal"]["passed"]) == (1, False)
    status, _, rules = gate(european(), IN_YEARS + 'decimal = ","\n', *THOUSANDS)
    assert (status, rules["require.decimal"]["passed"]) == (1, False)


@pytest.mark.long
def test_limits_in_a_unit_that_nothing_settles_are_refused(gate: Gate) -> None:
    for table, more in ((european(), ()), (european(settled=True), ("--drop", "weight"))):
        status, err, _ = gate(table, IN_YEARS, *THOUSANDS, *more)
        assert (status, err.count("\n")) == (2, 1)
        assert "the table does not show whether the marks in its numbers are decimal marks" in err
    status, _, rules = gate(european(settled=True), IN_YEARS, *YEARS, "--bounds", "weight=0:150")
    assert (status, rules["columns.age.min_error"]["passed"]) == (1, False)
    stated = IN_YEARS.replace("min_error", "spread = 12000\nmin_error")
    assert gate(european(), stated, *THOUSANDS)[0] == 0


def test_a_policy_for_a_table_without_marks_may_state_one(gate: Gate) -> None:
    status, _, rules = gate(
        plain(), '[rows]\nmax_eta = 1e9\n[require]\ndecimal = ","\n', "--noise", "3", "--no-attacks", "--draws", "2"
    )
    assert (status, rules["require.decimal"]["passed"]) == (0, True)


@pytest.mark.parametrize(
    "section", ["[label]\nmin_error = 1e-3", "[membership]\nmax_right = 0.99", "[rows]\nmax_eta = 1e9"]
)
def test_a_kind_of_model_that_one_label_decides_is_stated_or_refused(gate: Gate, section: str) -> None:
    table = plain(81).assign(y=[20, *[0, 1, 2, 3] * 20])
    line = ("--noise", "9", "--no-attacks", "--draws", "2")
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=0:20") for word in ("--bounds", each)]
    status, err, _ = gate(table, section, *line, *bounds)
    assert (status, err.count("\n"), 'write model = "linear" under [require]' in err) == (2, 1, True), err
    stated = f'{section}\n[require]\nmodel = "linear"\n'
    assert (
        gate(table, section, *line, *bounds, "--model", "linear")[0] == 2
    )  # a model card does not say that it was given
    assert (
        gate(table, stated, *line, *bounds)[:2]
        == gate(table, stated, *line, *bounds, "--model", "linear")[:2]
        == (0, "")
    )
    assert gate(table, "[utility]\nmax_loss = 1e9\n", *line, *bounds)[:2] == (0, "")


def test_a_card_does_not_tell_whether_its_kind_of_model_was_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, model, policy = (str(tmp_path / name) for name in ("t.csv", "m.skops", "p.toml"))
    plain(81).assign(y=[20, *[0, 1, 2, 3] * 20]).to_csv(table, index=False)
    bounds = [word for each in ("a=-4:4", "b=-4:4", "y=0:20") for word in ("--bounds", each)]
    line = ["release", table, "--target", "y", "--noise", "9", "--held-out", "0", "--out", model, "--quiet", *bounds]
    assert main(line) == 0
    capsys.readouterr()
    for stated, status in (("", 2), ('[require]\nmodel = "linear"\n', 0)):
        Path(policy).write_text(f"[membership]\nmax_right = 0.99\n{stated}", encoding="utf-8")
        line = ["audit", table, "--released", model, "--policy", policy, "--no-attacks", "--draws", "2", "--quiet"]
        assert main(line) == status
        assert ('write model = "linear" under [require]' in capsys.readouterr().err) == (status == 2)


@pytest.mark.parametrize("limited", [(), ("--attribute", "a")], ids=["rows", "a column"])
def test_a_release_with_a_shape_of_the_rows_present_passes_its_own_audit(
    limited: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model card says that the limit does not count the shape; the audit holds it to that, and says what is so with it."""
    monkeypatch.chdir(tmp_path)
    plain().to_csv("t.csv", index=False)
    ends = [text for name, end in (("a", 4), ("b", 4), ("y", 8)) for text in ("--bounds", f"{name}=-{end}:{end}")]
    own = ["--target", "y", "--over", "max", "--shape", "hessian", "--eta", "0.05", *limited, *ends]
    assert main(["release", "t.csv", *own, "--out", "m.skops"]) == 0
    assert "not counted" in capsys.readouterr().out
    assert main(["audit", "t.csv", "--released", "m.skops", "--no-attacks", "-v"]) == 0
    said = capsys.readouterr().out
    assert "without what the noise's covariance reveals by itself, as the model card says" in said
    card = json.loads(Path("m.skops.json").read_text("utf-8"))
    assert card["noise"]["calibrated"]["over"] == "max"
