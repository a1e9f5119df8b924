"""The layout of the tests is that of the source, so that the tests of a module are found by its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import fisherleak as fl
from cases import EVERY_ATTACKER
from fisherleak.training.model_kinds import KINDS
from where import ELSEWHERE, called, files_of, modules, nodes_in, own_file, parsed

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "fisherleak"
# what a file tests that is wider than one module
TOPICS = {
    "attacks_on_us/test_chances_on_cards.py": "numbers on cards that no noise hides, limits of saved models",
    "attacks_on_us/test_one_cell_decides.py": "names, types and levels that one cell would decide",
    "remedies/test_remedies.py": "what refusals advise, done",
    "test_sentences.py": "the sentences of all refusals and warnings",
    "protection/release/test_fills_of_bounds.py": "gaps that are filled with the centre of declared bounds",
    "protection/certificates/test_covariance_of_rows.py": "what a covariance that the rows decide reveals of each of them",
    "protection/certificates/test_all_rows_of_a_person.py": "any records in all rows of a person at once",
    "releasing/test_people_of_any_record.py": "releases for any record of people with several rows",
    "attacks/test_any_noise.py": "noise that is not Gaussian",
    "attacks/test_beliefs.py": "a prior for each row",
    "attacks_on_us/test_bounds_of_mechanisms.py": "values that the best attacker learns, for every mechanism",
    "attacks_on_us/test_tied_values.py": "values that tie at a range, a quantile or a median, moved to both sides",
    "attacks_on_us/test_choice.py": "which candidate of a frontier is released",
    "leakage/test_epsilon.py": "epsilon, delta and the trade-off curve of rows and people",
    "attacks_on_us/test_gate_fitted_models.py": "codes, edges of encoders, imputers of other rows, and what a solver leaves",
    "attacks_on_us/test_columns_of_few.py": "columns and categories that one row, or person, decides",
    "attacks_on_us/test_gate_levels_and_gaps.py": "columns of one category, declared categories, and ids, beside gaps and other numbers",
    "attacks_on_us/test_levels_of_people.py": "levels, classes and gaps of one person with many rows",
    "attacks_on_us/test_gate_bounds.py": "declared bounds that are values of single rows",
    "attacks_on_us/test_gate_computed_noise.py": "noise that a gate computed from rows, units of labels, numbers without a share",
    "attacks_on_us/test_gate_text_of_numbers.py": "a column of text that one row makes one of numbers",
    "attacks_on_us/test_gate_reading.py": "files that one row, or one value, has read in another way",
    "attacks_on_us/test_gate_reading_of_files.py": "headers, names, codes and kinds of files that one row decides",
    "attacks_on_us/test_gate_one_row_less.py": "decisions about columns without one row",
    "attacks_on_us/test_declared_and_large_levels.py": "declared levels, and whole numbers past floats",
    "attacks_on_us/test_gate_columns.py": "True and False as numbers, and a column with the label's name",
    "attacks_on_us/test_gate_frames.py": "centres and scales that one row moves, whatever stands before the scaler",
    "attacks_on_us/test_gate_people.py": "people whose rows agree, where those of one person differ",
    "leakage/test_membership_of_estimators.py": "membership against scikit-learn's fits without each row",
    "attacks_on_us/test_gate.py": "options and tables that would pass a policy that they must not pass",
    "attacks_on_us/test_gate_noise_and_gaps.py": "noise, weights, copies, spreads and missing cells that would pass a policy",
    "attacks_on_us/test_gate_order_and_people.py": "the order of rows, copies, scales, groups and ids that would pass a policy",
    "attacks_on_us/test_gate_membership.py": "membership without a row, and what one row settles",
    "attacks_on_us/test_gate_plans_and_marks.py": "rows of a plan, and cells that decide how named columns are read",
    "attacks_on_us/test_gate_units.py": "units of labels, rows that no model sees, and values that are nearly a few",
    "attacks_on_us/test_spellings_on_cards.py": "spellings and packages on cards, and values of a ledger's file",
    "attacks_on_us/test_gate_scales.py": "ranges and scales on a card, which reveal single rows",
    "attacks_on_us/test_gate_second_pass.py": "columns that are decided among rows which are left out for another",
    "attacks_on_us/test_gate_truth_words.py": "words among true and false, and the only cell of a column that is named",
    "attacks_on_us/test_gate_names_of_rows.py": "names that rows decide, decimal marks, targets and draws that would pass a policy",
    "attacks_on_us/test_earlier_cards.py": "digits that cards of version 0.1.0 leave open, and trees of many small pieces",
    "attacks_on_us/test_totals_and_pages.py": "totals of people, pages of few labels, files that are read, full disks",
    "attacks_on_us/test_gate_stated_values.py": "names that stand for values, and honest policies and tables that were refused",
    "attacks_on_us/test_frame.py": "rows that are recognised by public scales and centres",
    "attacks_on_us/test_hidden_in_files.py": "tables hidden in released files and cards",
    "attacks_on_us/test_attributes_and_numbers_of_files.py": "tables hidden in released files by versions, bounds, sizes and kinds of noise that were claimed",
    "attacks_on_us/test_cards_and_ledgers.py": "tables hidden in released files by penalties, names of columns, and files that are none",
    "attacks_on_us/test_noise_keys_and_entries.py": "tables hidden in released files by noise that classes share, bounds, sentences, keys, ledgers",
    "attacks_on_us/test_covariances_and_memory.py": "covariances, memory and crashes in released files",
    "attacks_on_us/test_held_out_rows.py": "rows that are held out, and who decides which",
    "attacks_on_us/test_plans_are_releases.py": "rules are checked on the model that a release trains",
    "attacks_on_us/test_imputer.py": "rows inside an imputer",
    "attacks_on_us/test_ledger_cells.py": "new ids and another reading of the same cells, and what else a ledger could hold",
    "attacks_on_us/test_ledger_ids.py": "people who start again on a ledger, and older copies of it",
    "attacks_on_us/test_ledger_readable.py": "releases that would make a ledger unreadable",
    "attacks_on_us/test_low_bits.py": "the last bits of released parameters",
    "attacks_on_us/test_grids_on_cards.py": "grids of noise that rows shape, and what is read off them",
    "attacks_on_us/test_units_on_cards.py": "units, scales, centres and ranges on cards, and what is hidden in them",
    "attacks_on_us/test_membership_of_shapes.py": "who was in the data, by the covariance of the noise that rows decide",
    "attacks_on_us/test_object_walker.py": "all that can be reached from a released object",
    "attacks_on_us/test_membership_never_low.py": "membership that is shown, against fits without each row",
    "attacks_on_us/test_mixed_and_clipped_columns.py": "steps that mix or clip columns, scalers of other rows, mere guesses",
    "attacks_on_us/test_odd_cells.py": "types, widths and flags that one cell decides",
    "attacks_on_us/test_released_categories.py": "rare categories, and values that a released model does not know",
    "attacks_on_us/test_people_of_several_rows.py": "values that several rows of a person have, copies of rows, and steps",
    "attacks_on_us/test_pivot.py": "rows that are replaced to move the published scale",
    "attacks_on_us/test_pooled_categories.py": "one row that decides which categories an encoder pools",
    "attacks_on_us/test_python_gate.py": "people and groups written in two ways, and scales on a page that is handed out",
    "attacks_on_us/test_queries.py": "queries past the range of numbers",
    "attacks_on_us/test_scale.py": "cells that are read off the scale of the noise",
    "attacks_on_us/test_scaler.py": "means and scales of columns",
    "attacks_on_us/test_selector.py": "scores of columns",
    "attacks_on_us/test_settings_on_cards.py": "declarations on a card that one row, or a column that is left out, would decide",
    "attacks_on_us/test_shape.py": "values that are read off the shape of the noise",
    "attacks_on_us/test_shared_draws.py": "noise that two releases share",
    "attacks_on_us/test_shares.py": "shares of values that the best attacker takes",
    "attacks_on_us/test_shares_of_shaped_noise.py": "the same where the rows decide the covariance of the noise",
    "auditing/test_records.py": "records that do not change, options that are known by name",
    "engine/norms/test_shaped_releases.py": "compositions with noise that the data shape",
    "engine/mechanisms/test_served_several.py": "answers of models of several outputs",
    "leakage/test_membership.py": "whether rows are in the data",
    "cli/test_bad_input.py": "refusals of every command",
    "cli/test_classes.py": "targets of three classes through every command",
    "cli/test_fuzz.py": "tables that nobody would write",
    "cli/test_memory.py": "how much memory a command takes",
    "cli/test_start.py": "what a command loads before it runs; completion; tracebacks",
    "cli/test_scale.py": "tables that are not in memory, here and on clusters",
    "models/test_queries.py": "queries that go the way of the rows",
    "report/test_browser.py": "the page in a real browser",
    "report/test_pages.py": "whole pages in a browser: the demo, exported notebooks, the documentation",
    "report/test_schema.py": "the JSON Schema of summaries that is published",
    "reproduce/test_numbers.py": "all numbers beside the published ones",
    "tables/test_decisions.py": "the page on how tables are read",
    "test_corpus.py": "real tables of other packages",
    "test_mechanisms.py": "every way in which a model leaves",
    "test_copies.py": "pickles, copies and other processes",
    "test_docs.py": "the code on pages of the documentation",
    "test_extending.py": "a noise and an attacker from outside the package",
    "test_extending_losses_and_data.py": "a loss and a data set from outside the package",
    "test_house.py": "where tests lie",
    "test_imports.py": "what is loaded, and when",
    "test_metadata.py": "lower bounds, files of a release, licences",
    "test_public.py": "public names",
}
# what the package as a whole has to withstand: attacks on its own releases
OF_THE_WHOLE = {"attacks_on_us", "golden", "remedies"}
FOLDERS = sorted({path.parent for path in TESTS.rglob("test_*.py")} - {TESTS})
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("folder", [path.relative_to(TESTS).as_posix() for path in FOLDERS])
def test_every_folder_of_tests_mirrors_one_of_the_source_or_attacks_all_of_it(folder: str) -> None:
    assert (SOURCE / folder).is_dir() or folder in OF_THE_WHOLE, (
        f"tests/{folder} has no counterpart under src/fisherleak"
    )


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_tests_names_a_module_or_a_topic(file: str) -> None:
    folder, name = (TESTS / file).parent.relative_to(TESTS), Path(file).stem.removeprefix("test_")
    modules = {path.stem.lstrip("_") for path in (SOURCE / folder).glob("*.py")}
    packages = {path.parent.name for path in (SOURCE / folder).glob("*/__init__.py")}
    known = modules | packages | {folder.name}
    assert name in known or file in TOPICS, f"tests/{file} names no module of {folder}: rename it, or add it to TOPICS"


def test_topics_are_those_of_files() -> None:
    assert set(TOPICS) <= set(FILES)


def test_every_module_has_a_file_of_its_name_or_a_place_in_the_table() -> None:
    """``python tests/where.py cards`` prints it."""
    assert not [module for module in modules() if not files_of(module)], "add them to ELSEWHERE in tests/where.py"
    assert (
        called("cards")
        == called("fisherleak.releasing.cards.cards")
        == called("src/fisherleak/releasing/cards/cards.py")
    )


def test_the_table_of_tests_holds_modules_without_a_file_of_their_name_and_no_others() -> None:
    assert set(ELSEWHERE) <= set(modules())
    assert not [module for module in ELSEWHERE if (TESTS / own_file(module)).is_file()]


@pytest.mark.parametrize("file", sorted({file for files in ELSEWHERE.values() for file in files}))
def test_files_of_the_table_hold_tests(file: str) -> None:
    nodes = parsed(TESTS / file).body
    assert any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in nodes)


def test_only_rows_load_dask_and_nothing_loads_torch_by_name() -> None:
    """By name as much as by import: the contracts of pyproject.toml see imports only."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in nodes_in(path):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                library = str(node.args[0].value).partition(".")[0]
                if called in {"import_module", "__import__", "module"} and library in {"dask", "distributed"}:
                    assert path.relative_to(SOURCE).parts[0] == "rows", f"{path}:{node.lineno} loads {library}"
                assert called not in {"import_module", "__import__"} or library != "torch", f"{path}:{node.lineno}"


LISTS = ("engine/losses/__init__.py", "training/model_kinds.py")
"""Where losses and kinds of model are told apart by name."""
OTHER_WORDS = {"nn/training_runs.py"}
"""Poisson sampling of batches is no loss."""


def test_losses_and_kinds_of_model_are_compared_by_name_in_their_lists_only() -> None:
    """Elsewhere a record is asked: a loss from outside would fall through a comparison of names."""
    names = {*fl.LOSSES, "softmax", *(kind.name for kind in KINDS)}
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for node in nodes_in(path):
            if isinstance(node, ast.Compare) and place not in (*LISTS, *OTHER_WORDS):
                parts = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
                words = {part.value for part in parts if isinstance(part, ast.Constant)}
                of_loss = [part for part in parts if isinstance(part, ast.Attribute) and part.attr == "name"]
                asked = any(ast.unparse(part.value).endswith("loss") for part in of_loss)
                found += [f"{place}:{node.lineno}"] if words & names or asked else []
    assert not found


SHARED = {
    # a command is called like the function it runs
    *("attack", "audit", "ledger", "release", "reproduce", "verify"),
}


def test_a_name_has_one_meaning() -> None:
    """No two modules, no two records, and no two public functions at the top of modules, are called the same."""
    modules: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if path.name != "__init__.py":
            modules.setdefault(path.stem.lstrip("_"), []).append(place)
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and not node.name.startswith("_")):
                names.setdefault(node.name.lstrip("_"), []).append(place)
    for found in (modules, names):
        assert not {name: places for name, places in found.items() if len(places) > 1 and name not in SHARED}


@pytest.mark.parametrize("folder", [path.parent for path in sorted(SOURCE.rglob("__init__.py"))], ids=lambda x: x.name)
def test_every_folder_says_what_it_holds_and_what_it_may_import(folder: Path) -> None:
    said = ast.get_docstring(parsed(folder / "__init__.py"))
    assert said
    assert folder == SOURCE or "import" in said, f"{folder.name}/__init__.py does not say what it may import"


@pytest.mark.parametrize("folder", [path.parent for path in sorted(SOURCE.rglob("__init__.py"))], ids=lambda x: x.name)
def test_no_folder_is_long(folder: Path) -> None:
    """A folder of more than fourteen entries is two folders; the package itself is the list of folders."""
    assert folder == SOURCE or len([path for path in folder.iterdir() if path.name != "__pycache__"]) <= 14


SMALL = 80
ENTRIES_OF_LISTS = {
    "cli/commands": {"reproduce", "verify"},
}
"""Modules that may be small and have one importer: each is an entry of a list, and adding one is adding a file."""


def _imported_by(path: Path) -> set[str]:
    """All that a module imports, anywhere in it, as names of modules and of what may be one."""
    found: set[str] = set()
    for node in nodes_in(path):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def test_a_small_module_with_one_importer_is_part_of_it() -> None:
    """Unless it is an entry of a list: whoever reads the importer would have to open both."""
    imports = {path: _imported_by(path) for path in SOURCE.rglob("*.py")}
    alone = set()
    for path in imports:
        place = path.relative_to(SOURCE)
        name = ".".join(("fisherleak", *place.with_suffix("").parts))
        importers = [other for other, names in imports.items() if name in names and other != path]
        small = len(path.read_text(encoding="utf-8").splitlines()) < SMALL
        if small and len(importers) < 2 and path.name not in ("__init__.py", "__main__.py"):
            alone.add(place)
    listed = {place for place in alone if place.stem in ENTRIES_OF_LISTS.get(place.parent.as_posix(), ())}
    # a new noise, attacker or loader needs no line here
    entries = [*fl.NOISES.values(), *EVERY_ATTACKER, *(getattr(fl.datasets, name) for name in fl.datasets.__all__)]
    own = {Path(*entry.__module__.split(".")[1:]).with_suffix(".py") for entry in entries}
    assert {place.as_posix() for place in alone - listed - own} == set()
    assert len(listed) == sum(map(len, ENTRIES_OF_LISTS.values())), (
        "an exception is no longer one: take it off the list"
    )


def test_derivations_and_the_modules_that_they_are_about_name_each_other() -> None:
    """A module's first lines name its section of docs/mathematics; sections are numbered without gaps and name their modules."""
    pages = TESTS.parent / "docs" / "mathematics"
    cited = set()
    for path in sorted(SOURCE.rglob("*.py")):
        named = r"^Mathematics: (\d+\.\d+), ``docs/mathematics/([\w-]+)\.md``\.$"
        place = path.relative_to(SOURCE).as_posix()
        cited |= {(place, *found) for found in re.findall(named, path.read_text("utf-8"), re.M)}
    derived = set()
    for page in sorted(pages.glob("*.md")):
        parts = re.split(r"^## (\d+\.\d+) ", page.read_text("utf-8"), flags=re.M)
        for number, text in zip(parts[1::2], parts[2::2], strict=True):
            modules = re.findall(r"`([\w/]+\.py)`", text.rpartition("In the code: ")[2])
            assert modules, f"{page.name} {number} names no module"
            derived |= {(module, number, page.stem) for module in modules}
    assert cited == derived
    numbers = sorted(tuple(map(int, number.split("."))) for number in {number for _, number, _ in derived})
    assert numbers == [(k, j) for k in range(1, 10) for j in range(1, 1 + sum(a == k for a, _ in numbers))]
