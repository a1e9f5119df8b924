"""Which tests a module has: ``python tests/where.py cards`` names their files.

They are in the file of the module's name, in the folder that mirrors its own (underscores before a name are left out); where
there is none, in those that ``ELSEWHERE`` names. ``test_house.py`` holds the table against the files.
"""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "fisherleak"

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "auditing/policy/stated_rules.py": ("report/test_board.py",),
    "protection/certificates/exchange.py": (
        "protection/certificates/test_worst_record.py",
        "protection/certificates/test_bound_for_any_record.py",
    ),
    "auditing/policy/applied_rules.py": (
        "attacks_on_us/test_gate.py",
        "attacks_on_us/test_gate_names_of_rows.py",
        "attacks_on_us/test_gate_membership.py",
        "auditing/policy/test_policy.py",
        "auditing/policy/test_rules.py",
    ),
    "auditing/policy/copied_data.py": (
        "attacks_on_us/test_gate.py",
        "attacks_on_us/test_gate_units.py",
    ),
    "auditing/unconfirmed_on_cards.py": (
        "attacks_on_us/test_hidden_in_files.py",
        "attacks_on_us/test_cards_and_ledgers.py",
    ),
    "releasing/scale_rule.py": ("attacks_on_us/test_gate_scales.py",),
    "releasing/least_deviation.py": ("attacks_on_us/test_grids_on_cards.py",),
    "releasing/files/model_nodes.py": ("attacks_on_us/test_hidden_in_files.py",),
    "releasing/cards/names_on_cards.py": (
        "attacks_on_us/test_hidden_in_files.py",
        "attacks_on_us/test_settings_on_cards.py",
        "attacks_on_us/test_cards_and_ledgers.py",
    ),
    "releasing/cards/card_checks.py": (
        "attacks_on_us/test_noise_keys_and_entries.py",
        "attacks_on_us/test_hidden_in_files.py",
        "cli/commands/test_release.py",
    ),
    "protection/ledger/spent_on_rows.py": (
        "attacks_on_us/test_totals_and_pages.py",
        "protection/ledger/test_ledger.py",
        "attacks_on_us/test_ledger_cells.py",
    ),
    "protection/ledger/ledger_file.py": (
        "protection/ledger/test_ledger.py",
        "attacks_on_us/test_spellings_on_cards.py",
        "attacks_on_us/test_ledger_cells.py",
        "attacks_on_us/test_ledger_ids.py",
    ),
    "training/trained_model.py": (
        "training/test_model_kinds.py",
        "auditing/test_run.py",
        "training/test_people.py",
    ),
    "rows/summary.py": (
        "auditing/test_run.py",
        "cli/test_bad_input.py",
        "tables/design/test_design.py",
        "rows/test_dask_arrays.py",
        "models/test_frames.py",
        "leakage/test_show.py",
    ),
    "reproduce/workspace.py": (
        "reproduce/test_reproduction.py",
        "reproduce/test_numbers.py",
    ),
    "leakage/measurement.py": (
        "leakage/test_compositions.py",
        "leakage/test_membership.py",
        "nn/test_heads.py",
        "models/test_read.py",
        "models/test_estimators.py",
    ),
    "datasets/_files.py": (
        "datasets/test_datasets.py",
        "cli/test_wording.py",
        "test_extending_losses_and_data.py",
        "reproduce/test_image_models.py",
        "reproduce/test_numbers.py",
    ),
    "engine/beliefs/moving_noise.py": (
        "attacks_on_us/test_shares.py",
        "attacks_on_us/test_shares_of_shaped_noise.py",
    ),
    "engine/beliefs/believed_cells.py": (
        "attacks_on_us/test_shares.py",
        "attacks_on_us/test_shares_of_shaped_noise.py",
    ),
    "engine/noise/calibration_record.py": (
        "protection/certificates/test_worst_record.py",
        "protection/certificates/test_data_dependent_covariance.py",
        "attacks_on_us/test_pivot.py",
        "engine/test_noise.py",
        "leakage/test_leakage.py",
    ),
    "engine/noise/gaussian.py": (
        "engine/test_noise.py",
        "engine/norms/test_data_shaped.py",
    ),
    "__main__.py": ("attacks_on_us/test_gate_order_and_people.py",),
    "_support/atomic.py": (
        "cli/test_bad_input.py",
        "cli/commands/test_release.py",
        "cli/commands/test_audit.py",
    ),
    "_support/checks.py": (
        "models/test_read.py",
        "test_bounds.py",
        "auditing/test_records.py",
    ),
    "_support/grids.py": (
        "training/test_pipelines.py",
        "attacks_on_us/test_scaler.py",
        "cli/commands/test_release.py",
    ),
    "_support/json.py": (
        "cli/commands/test_audit.py",
        "auditing/test_run.py",
        "cli/commands/test_release.py",
    ),
    "_support/lazy.py": ("test_imports.py",),
    "_support/numbers.py": (
        "report/test_browser.py",
        "report/test_render.py",
        "cli/test_layout.py",
    ),
    "releasing/table_model.py": (
        "cli/commands/test_release.py",
        "releasing/test_any_record_noise.py",
        "releasing/test_shaping.py",
    ),
    "releasing/cards/card_fields.py": (
        "attacks_on_us/test_hidden_in_files.py",
        "attacks_on_us/test_spellings_on_cards.py",
        "cli/commands/test_release.py",
    ),
    "releasing/cards/cards.py": (
        "cli/commands/test_release.py",
        "training/test_people.py",
        "attacks_on_us/test_odd_cells.py",
    ),
    "engine/norms/two_sided.py": ("attacks_on_us/test_tied_values.py",),
    "engine/norms/tied_cells.py": (
        "attacks_on_us/test_people_of_several_rows.py",
        "training/test_people.py",
    ),
    "auditing/exposure/columns.py": (
        "auditing/test_run.py",
        "training/test_people.py",
    ),
    "auditing/confirmations.py": (
        "cli/commands/test_release.py",
        "releasing/test_shaping.py",
        "releasing/test_any_record_noise.py",
    ),
    "training/moved_parameters.py": ("attacks_on_us/test_noise_keys_and_entries.py",),
    "auditing/summary_parts.py": (
        "report/test_summarise.py",
        "auditing/fitted_models/test_model_audit.py",
    ),
    "auditing/policy/disclosed_beside_noise.py": (
        "attacks_on_us/test_gate.py",
        "attacks_on_us/test_gate_noise_and_gaps.py",
        "attacks_on_us/test_gate_names_of_rows.py",
    ),
    "training/defaults.py": (
        "auditing/test_run.py",
        "cli/test_start.py",
    ),
    "auditing/exposure/exposure.py": (
        "auditing/test_run.py",
        "training/test_people.py",
        "cli/commands/test_audit.py",
    ),
    "auditing/plain_records.py": ("auditing/test_report_summary.py",),
    "releasing/files/earlier_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "releasing/files/model_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "releasing/files/rebuilt_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "releasing/files/released_files.py": (
        "cli/commands/test_release.py",
        "training/test_noise_words.py",
        "releasing/test_any_record_noise.py",
    ),
    "auditing/policy/judged.py": (
        "auditing/policy/test_rules.py",
        "auditing/fitted_models/test_judged_model.py",
    ),
    "auditing/fitted_models/attacked_model.py": (
        "auditing/fitted_models/test_model_audit.py",
        "auditing/fitted_models/test_judged_model.py",
    ),
    "auditing/fitted_models/policy_on_model.py": (
        "auditing/fitted_models/test_judged_model.py",
        "attacks_on_us/test_python_gate.py",
    ),
    "auditing/fitted_models/measured_etas.py": ("auditing/fitted_models/test_judged_model.py",),
    "auditing/fitted_models/stated_arguments.py": ("auditing/fitted_models/test_judged_model.py",),
    "releasing/ledgers.py": (
        "cli/commands/test_ledger.py",
        "tables/design/test_gaps.py",
        "attacks_on_us/test_ledger_ids.py",
    ),
    "releasing/files/verification.py": (
        "releasing/cards/test_signatures.py",
        "cli/commands/test_verify.py",
        "attacks_on_us/test_hidden_in_files.py",
    ),
    "cli/_common.py": (
        "cli/test_bad_input.py",
        "cli/test_scale.py",
        "cli/test_start.py",
    ),
    "cli/_complete.py": ("cli/test_start.py",),
    "cli/_options.py": (
        "cli/test_wording.py",
        "cli/test_app.py",
        "cli/test_start.py",
    ),
    "cli/commands/reproduce.py": (
        "reproduce/test_numbers.py",
        "cli/test_wording.py",
        "cli/test_start.py",
    ),
    "datasets/adult.py": ("datasets/test_datasets.py",),
    "datasets/cifar10.py": ("datasets/test_datasets.py",),
    "datasets/iwpc.py": ("datasets/test_datasets.py",),
    "datasets/mnist.py": ("datasets/test_datasets.py",),
    "protection/calibrate/remade_noise.py": ("attacks_on_us/test_membership_of_shapes.py",),
    "engine/norms/shaped_rows.py": ("engine/norms/test_data_shaped.py", "engine/norms/test_shaped_releases.py"),
    "engine/jacobian/folding.py": (
        "models/steps/test_scalers.py",
        "models/steps/test_imputers.py",
        "engine/norms/test_matrix_free.py",
    ),
    "engine/information.py": (
        "engine/norms/test_shared_basis.py",
        "engine/norms/test_matrix_free.py",
        "leakage/test_leakage.py",
    ),
    "engine/mechanisms/self_shaped.py": (
        "engine/norms/test_data_shaped.py",
        "engine/norms/test_averaged_over_draws.py",
        "test_mechanisms.py",
    ),
    "leakage/shares.py": (
        "attacks_on_us/test_shares.py",
        "attacks_on_us/test_shares_of_shaped_noise.py",
        "auditing/exposure/test_revealed.py",
    ),
    "engine/beliefs/mean_squares.py": ("attacks_on_us/test_shares.py",),
    "engine/beliefs/path_refits.py": ("attacks_on_us/test_shares.py",),
    "engine/norms/kernels/releases_numba.py": ("engine/norms/test_matrix_free.py",),
    "engine/norms/kernels/perturbed_numba.py": ("engine/norms/test_data_shaped.py",),
    "engine/norms/kernels/secular_numba.py": ("engine/norms/test_secular.py", "engine/norms/test_data_shaped.py"),
    "engine/norms/kernels/tridiagonal_numba.py": ("engine/norms/test_largest_eigenvalues.py",),
    "engine/losses/multi_output.py": (
        "engine/losses/test_losses.py",
        "engine/fit/test_training_data.py",
    ),
    "engine/losses/one_output.py": (
        "engine/losses/test_losses.py",
        "engine/losses/test_loss.py",
    ),
    "engine/jacobian/perturbation.py": (
        "leakage/test_leakage.py",
        "engine/norms/test_shared_basis.py",
        "engine/jacobian/test_block_maps.py",
    ),
    "engine/fit/risk.py": (
        "engine/fit/test_minimise.py",
        "engine/fit/test_training_data.py",
        "engine/changes/test_starting_fit.py",
    ),
    "errors.py": (
        "test_public.py",
        "cli/test_bad_input.py",
    ),
    "leakage/etas.py": ("leakage/test_leakage.py",),
    "models/preprocessed.py": (
        "models/test_read.py",
        "models/test_queries.py",
    ),
    "models/steps/flow.py": (
        "models/steps/test_transformers.py",
        "models/test_read.py",
    ),
    "report/words.py": (
        "report/test_render.py",
        "training/test_people.py",
    ),
    "nn/information_through_network.py": (
        "nn/test_last_layer.py",
        "nn/test_heads.py",
        "nn/test_input_leakage.py",
    ),
    "protection/ledger/carried_totals.py": (
        "attacks_on_us/test_ledger_ids.py",
        "protection/ledger/test_ledger.py",
    ),
    "protection/frontier/frontier_candidates.py": (
        "protection/frontier/test_frontier.py",
        "protection/frontier/test_protected.py",
    ),
    "protection/ledger/ledger_entries.py": (
        "protection/ledger/test_ledger.py",
        "cli/commands/test_ledger.py",
    ),
    "protection/ledger/known_rows.py": (
        "protection/ledger/test_ledger.py",
        "cli/commands/test_ledger.py",
        "attacks_on_us/test_ledger_ids.py",
        "attacks_on_us/test_ledger_readable.py",
        "attacks_on_us/test_ledger_cells.py",
    ),
    "tables/read/written_cells.py": ("attacks_on_us/test_ledger_cells.py",),
    "protection/calibrate/limit_terms.py": (
        "protection/calibrate/test_shapes.py",
        "protection/calibrate/test_etas_with_noise_counted.py",
    ),
    "protection/certificates/bound_quantities.py": (
        "protection/certificates/test_worst_record.py",
        "protection/certificates/test_bound_for_any_record.py",
    ),
    "protection/irfil/irfil_iteration.py": (
        "protection/irfil/test_irfil.py",
        "_support/test_arrays.py",
    ),
    "report/assumptions.py": (
        "cli/test_classes.py",
        "cli/commands/test_answers.py",
        "cli/commands/test_audit.py",
    ),
    "report/sentences.py": (
        "report/test_render.py",
        "report/test_summarise.py",
    ),
    "report/outputs.py": (
        "cli/commands/test_audit.py",
        "cli/commands/test_answers.py",
        "auditing/fitted_models/test_summary_of_leakage.py",
    ),
    "report/view.py": (
        "report/test_render.py",
        "report/test_browser.py",
    ),
    "reproduce/attribute_attacks.py": ("reproduce/test_numbers.py",),
    "reproduce/warfarin.py": ("reproduce/test_numbers.py",),
    "rows/selection.py": (
        "leakage/test_leakage.py",
        "leakage/test_show.py",
        "_support/test_arrays.py",
    ),
    "tables/decide/choices.py": (
        "cli/test_bad_input.py",
        "tables/decide/test_column_kinds.py",
        "tables/read/test_foreign.py",
    ),
    "tables/design/features.py": (
        "tables/design/test_design.py",
        "tables/design/test_rare_levels.py",
        "tables/design/test_gaps.py",
    ),
    "tables/design/rows_of_features.py": (
        "tables/design/test_gaps.py",
        "tables/design/test_design.py",
        "auditing/test_run.py",
    ),
    "tables/read/header.py": ("cli/test_start.py",),
    "tables/read/cell_formats.py": ("tables/decide/test_cell_text.py",),
    "tables/read/parquet.py": (
        "rows/test_dask_arrays.py",
        "auditing/test_run.py",
        "cli/test_scale.py",
    ),
    "tables/read/parquet_folder.py": ("rows/test_dask_arrays.py",),
    "tables/decide/fewer_rows.py": ("attacks_on_us/test_gate_one_row_less.py",),
    "tables/decide/numbers_in_text.py": ("tables/decide/test_cell_text.py",),
    "tables/decide/target.py": (
        "tables/design/test_design.py",
        "training/test_model_kinds.py",
        "cli/test_bad_input.py",
    ),
    "tables/design/whose_rows.py": (
        "training/test_people.py",
        "tables/design/test_rare_levels.py",
    ),
}
"""Modules without a file of their name, and the files whose tests fail where such a module is wrong, the closest first."""

ENTRIES: dict[str, tuple[str, ...]] = {"engine/noise": ("engine/test_noise.py", "test_mechanisms.py")}
"""Folders whose files are entries of a list, with the tests that run over the whole list: a new entry needs no line here."""


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_in(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def modules() -> list[str]:
    """Every module of the package but those that gather a folder's names, as paths from the package."""
    found = (path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py")))
    return [module for module in found if not module.endswith("__init__.py")]


def own_file(module: str) -> str:
    """Where the tests of a module lie by its name, from the folder of tests; there need not be such a file."""
    path = Path(module)
    return (path.parent / f"test_{path.stem.lstrip('_')}.py").as_posix()


def files_of(module: str) -> tuple[str, ...]:
    """The files with the tests of a module, from the folder of tests."""
    own = own_file(module)
    if (TESTS / own).is_file():
        return (own,)
    return ELSEWHERE.get(module, ENTRIES.get(Path(module).parent.as_posix(), ()))


def called(name: str) -> list[str]:
    """The modules that a name stands for: ``cards``, ``releasing/cards/cards.py`` and ``fisherleak.releasing.cards.cards`` are one."""
    dotted = name.removesuffix(".py").replace("/", ".").rpartition("fisherleak.")[2]
    wanted = [part.lstrip("_") for part in dotted.split(".")]
    parts = {module: [part.lstrip("_") for part in Path(module).with_suffix("").parts] for module in modules()}
    return [module for module, found in parts.items() if found[-len(wanted) :] == wanted]


def main(names: list[str]) -> int:
    """Print the files of the modules that are named, of all where none is; the status says whether every name is known."""
    known = True
    for name in names or modules():
        found = called(name)
        known = known and bool(found)
        for module in found:
            print(f"{module}: {', '.join(f'tests/{file}' for file in files_of(module))}")
        if not found:
            print(f"There is no module '{name}' under src/fisherleak.", file=sys.stderr)
    return 0 if known else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
