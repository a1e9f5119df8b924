"""Which tests a module has: ``python tests/where.py cards`` names their files.

They are in the file of the module's name, in the folder that mirrors its own (underscores before a name are left out); where
there is none, in those that ``ELSEWHERE`` names. ``test_house.py`` holds the table against the files.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "fisherleak"

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "_support/atomic.py": ("cli/test_bad_input.py", "cli/test_release.py", "cli/test_audit.py"),
    "_support/checks.py": ("models/test_read.py", "test_bounds.py", "audit/test_records.py"),
    "_support/grids.py": ("audit/test_pipelines.py", "attacks_on_us/test_scaler.py", "cli/test_release.py"),
    "_support/json.py": ("cli/test_audit.py", "audit/test_run.py", "cli/test_release.py"),
    "_support/lazy.py": ("test_imports.py",),
    "_support/locked.py": ("protection/test_ledger.py",),
    "_support/numbers.py": ("report/test_browser.py", "report/test_render.py", "cli/test_layout.py"),
    "attacks/closed_form.py": ("attacks/test_white_box.py", "attacks/test_beliefs.py", "attacks/test_informed.py"),
    "attacks/linear_scores.py": ("attacks/test_served_answers.py", "attacks/test_black_box.py"),
    "attacks/scores.py": ("attacks/test_any_noise.py", "attacks/test_white_box.py"),
    "audit/applied_rules.py": ("audit/test_policy.py", "audit/test_rules.py", "attacks_on_us/test_gate.py"),
    "audit/asked_noise.py": ("cli/test_release.py", "audit/test_admitted.py", "audit/test_shaping.py"),
    "audit/canonical_settings.py": ("attacks_on_us/test_hidden_in_files.py",),
    "audit/card_checks.py": ("attacks_on_us/test_hidden_in_files.py", "cli/test_release.py"),
    "audit/card_fields.py": ("attacks_on_us/test_hidden_in_files.py", "cli/test_release.py"),
    "audit/cards.py": ("cli/test_release.py", "audit/test_people.py", "attacks_on_us/test_odd_cells.py"),
    "audit/choosing.py": ("audit/test_run.py", "audit/test_revealed.py", "audit/test_advice.py"),
    "audit/columns.py": ("audit/test_run.py", "audit/test_people.py"),
    "audit/confirmations.py": ("cli/test_release.py", "audit/test_shaping.py", "audit/test_admitted.py"),
    "audit/copied_data.py": ("attacks_on_us/test_gate.py",),
    "audit/disguised.py": ("attacks_on_us/test_gate.py",),
    "audit/sampled_rows.py": ("attacks_on_us/test_gate.py",),
    "audit/told_anyway.py": ("attacks_on_us/test_gate.py",),
    "audit/defaults.py": ("audit/test_run.py", "cli/test_start.py"),
    "audit/earlier_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "audit/exposure.py": ("audit/test_run.py", "audit/test_people.py", "cli/test_audit.py"),
    "audit/model.py": ("audit/test_kinds.py", "audit/test_run.py", "audit/test_people.py"),
    "audit/plain_records.py": ("audit/test_report_summary.py",),
    "audit/passing_noise.py": ("audit/test_advice.py", "attacks_on_us/test_gate.py"),
    "audit/model_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "audit/model_nodes.py": ("attacks_on_us/test_hidden_in_files.py",),
    "audit/rebuilt_files.py": ("attacks_on_us/test_hidden_in_files.py",),
    "audit/released_files.py": ("cli/test_release.py", "audit/test_noises.py", "audit/test_admitted.py"),
    "audit/on_ledger.py": ("attacks_on_us/test_ledger_ids.py",),
    "audit/ruling.py": ("audit/test_rules.py",),
    "audit/spending.py": ("cli/test_ledger.py", "tables/test_gaps.py"),
    "audit/verification.py": (
        "audit/test_signatures.py",
        "cli/test_verify.py",
        "attacks_on_us/test_hidden_in_files.py",
    ),
    "audit/weighting.py": ("audit/test_balancing.py",),
    "cli/_app.py": ("cli/test_start.py", "cli/test_once.py", "cli/test_audit.py"),
    "cli/_common.py": ("cli/test_bad_input.py", "cli/test_scale.py", "cli/test_start.py"),
    "cli/_complete.py": ("cli/test_start.py",),
    "cli/_flags.py": ("cli/test_options.py", "cli/test_once.py", "cli/test_start.py"),
    "cli/_next.py": ("cli/test_audit.py",),
    "cli/reproduce.py": ("reproduce/test_numbers.py", "cli/test_options.py", "cli/test_start.py"),
    "datasets/_dataset.py": ("datasets/test_datasets.py", "test_extending_losses_and_data.py"),
    "datasets/_files.py": ("datasets/test_datasets.py", "cli/test_options.py"),
    "datasets/_images.py": ("reproduce/test_table1.py", "reproduce/test_numbers.py"),
    "datasets/_tables.py": ("datasets/test_datasets.py",),
    "datasets/adult.py": ("datasets/test_datasets.py",),
    "datasets/cifar10.py": ("datasets/test_datasets.py",),
    "datasets/iwpc.py": ("datasets/test_datasets.py",),
    "datasets/mnist.py": ("datasets/test_datasets.py",),
    "engine/calibrated.py": (
        "protection/test_admissible.py",
        "protection/test_own_shape.py",
        "attacks_on_us/test_pivot.py",
    ),
    "engine/reshaped.py": ("attacks_on_us/test_membership_of_shapes.py", "protection/test_own_shape.py"),
    "protection/made_anew.py": ("attacks_on_us/test_membership_of_shapes.py",),
    "engine/encodings.py": ("leakage/test_coordinates.py", "models/test_transformers.py"),
    "engine/jacobian/folding.py": ("models/test_scalers.py", "models/test_imputers.py", "engine/norms/test_folded.py"),
    "engine/information.py": (
        "engine/norms/test_shared_basis.py",
        "engine/norms/test_matrix_free.py",
        "leakage/test_leakage.py",
    ),
    "engine/jacobian/jacobian.py": ("engine/norms/test_shared_basis.py", "engine/norms/test_several_outputs.py"),
    "engine/changes/left_out.py": (
        "engine/changes/test_removal.py",
        "engine/changes/test_several_removal.py",
        "leakage/test_membership.py",
    ),
    "engine/mechanisms/self_shaped.py": (
        "engine/norms/test_data_shaped.py",
        "engine/norms/test_averaged.py",
        "test_mechanisms.py",
    ),
    "engine/noise/bounded.py": ("engine/test_noise.py", "test_mechanisms.py"),
    "engine/noise/contract.py": ("engine/test_noise.py", "leakage/test_leakage.py"),
    "engine/noise/gaussian.py": ("engine/test_noise.py", "protection/test_shapes.py", "test_mechanisms.py"),
    "engine/noise/laplace.py": ("engine/test_noise.py", "attacks/test_any_noise.py", "test_mechanisms.py"),
    "leakage/shares.py": (
        "attacks_on_us/test_shares.py",
        "attacks_on_us/test_shares_of_shaped_noise.py",
        "audit/test_revealed.py",
    ),
    "engine/prior/believed_cells.py": ("attacks_on_us/test_shares.py", "attacks_on_us/test_shares_of_shaped_noise.py"),
    "engine/prior/cell_paths.py": ("attacks_on_us/test_shares.py",),
    "engine/prior/mean_squares.py": ("attacks_on_us/test_shares.py",),
    "engine/prior/moved_rows.py": ("attacks_on_us/test_shares.py", "attacks_on_us/test_shares_of_shaped_noise.py"),
    "engine/prior/moving_noise.py": ("attacks_on_us/test_shares_of_shaped_noise.py",),
    "engine/prior/nodes.py": ("attacks_on_us/test_shares.py",),
    "engine/prior/path_refits.py": ("attacks_on_us/test_shares.py",),
    "engine/noise/releasing.py": ("engine/test_noise.py", "attacks_on_us/test_low_bits.py"),
    "engine/norms/compiled.py": ("engine/norms/test_small.py", "engine/norms/test_secular.py"),
    "engine/norms/grams_numba.py": ("engine/norms/test_matrix_free.py",),
    "engine/norms/lanczos.py": ("engine/norms/test_small.py", "engine/norms/test_matrix_free.py"),
    "engine/norms/lanczos_numba.py": ("engine/norms/test_matrix_free.py",),
    "engine/norms/output_grams.py": ("engine/norms/test_several_outputs.py", "models/test_several.py"),
    "engine/norms/perturbed_numba.py": ("engine/norms/test_data_shaped.py",),
    "engine/norms/posterior_numba.py": ("engine/norms/test_data_shaped.py",),
    "engine/norms/secular_numba.py": ("engine/norms/test_secular.py",),
    "engine/norms/shaped_directly.py": ("engine/norms/test_data_shaped.py",),
    "engine/norms/shaped_parts.py": ("engine/norms/test_data_shaped.py", "engine/norms/test_shaped_releases.py"),
    "engine/norms/small_numba.py": ("engine/norms/test_small.py",),
    "engine/norms/stacked_outputs.py": ("leakage/test_outputs_together.py",),
    "engine/norms/stacked_releases.py": ("engine/norms/test_matrix_free.py", "leakage/test_compose.py"),
    "engine/norms/tridiagonal.py": ("engine/norms/test_small.py",),
    "engine/norms/tridiagonal_numba.py": ("engine/norms/test_small.py",),
    "engine/changes/several_left_out.py": (
        "engine/changes/test_several_removal.py",
        "engine/changes/test_sets_left_out.py",
    ),
    "engine/losses/derivatives.py": ("engine/losses/test_losses.py", "engine/losses/test_loss.py"),
    "engine/losses/multi_output.py": ("engine/losses/test_losses.py", "engine/fit/test_class_labels.py"),
    "engine/losses/one_output.py": ("engine/losses/test_losses.py", "engine/losses/test_loss.py"),
    "engine/noise/covariance.py": ("engine/test_noise.py", "engine/norms/test_data_shaped.py"),
    "engine/jacobian/perturbation.py": (
        "leakage/test_leakage.py",
        "engine/norms/test_shared_basis.py",
        "engine/jacobian/test_block_maps.py",
    ),
    "engine/fit/risk.py": (
        "engine/fit/test_minimise.py",
        "engine/fit/test_class_labels.py",
        "engine/changes/test_neighbours.py",
    ),
    "engine/changes/removal_steps.py": ("engine/changes/test_removal.py", "attacks_on_us/test_membership_never_low.py"),
    "engine/changes/third_derivative.py": ("engine/changes/test_removal.py",),
    "engine/training_rows.py": ("engine/fit/test_minimise.py", "models/test_read.py"),
    "errors.py": ("test_public.py", "cli/test_bad_input.py"),
    "leakage/behind.py": ("nn/test_last_layer.py", "nn/test_heads.py"),
    "leakage/recognised.py": ("attacks_on_us/test_frame.py", "leakage/test_membership.py", "audit/test_presence.py"),
    "leakage/chosen.py": ("leakage/test_leakage.py", "models/test_read.py"),
    "leakage/doors.py": ("audit/test_measured_leakage.py",),
    "leakage/kinks.py": ("models/test_transformers.py",),
    "leakage/looseness.py": ("models/test_minimum.py", "models/test_estimators.py"),
    "leakage/measure.py": ("leakage/test_leakage.py", "models/test_read.py", "models/test_minimum.py"),
    "models/category_steps.py": ("models/test_transformers.py", "models/test_read.py"),
    "models/curved_steps.py": ("models/test_transformers.py",),
    "models/flow.py": ("models/test_transformers.py",),
    "models/levels.py": ("protection/test_private.py",),
    "nn/input_leakage.py": ("nn/test_encoders.py", "nn/test_last_layer.py"),
    "nn/library.py": ("nn/test_nn.py", "nn/test_encoders.py"),
    "nn/opacus_engine.py": ("nn/test_accountant.py",),
    "nn/refits.py": ("nn/test_reconstruction.py",),
    "nn/saved_state.py": ("nn/test_accountant.py",),
    "nn/step_information.py": ("nn/test_accountant.py",),
    "nn/through.py": ("nn/test_last_layer.py", "nn/test_heads.py", "nn/test_encoders.py"),
    "protection/known_losses.py": (
        "protection/test_certificate.py",
        "engine/losses/test_loss.py",
        "engine/losses/test_losses.py",
        "protection/test_admissible.py",
    ),
    "protection/ascent.py": ("protection/test_admissible.py", "protection/test_several_certificate.py"),
    "protection/asked_task.py": ("protection/test_frontier.py", "protection/test_protected.py"),
    "protection/carried_totals.py": ("attacks_on_us/test_ledger_ids.py",),
    "protection/contenders.py": ("protection/test_frontier.py", "protection/test_protected.py"),
    "protection/entries.py": ("protection/test_ledger.py", "cli/test_ledger.py"),
    "protection/evened.py": ("protection/test_even_weights.py",),
    "protection/implicit.py": ("protection/test_counted.py",),
    "protection/known_rows.py": (
        "protection/test_ledger.py",
        "cli/test_ledger.py",
        "attacks_on_us/test_ledger_ids.py",
        "attacks_on_us/test_ledger_readable.py",
    ),
    "protection/ledger_file.py": ("protection/test_ledger.py", "attacks_on_us/test_ledger_ids.py"),
    "protection/limited.py": (
        "protection/test_least_loss.py",
        "protection/test_shapes.py",
        "protection/test_counted.py",
    ),
    "protection/pivot.py": ("attacks_on_us/test_pivot.py",),
    "protection/recorded_choices.py": ("protection/test_ledger.py",),
    "protection/quantities.py": ("protection/test_admissible.py", "protection/test_drift.py"),
    "protection/reweight.py": ("protection/test_irfil.py", "_support/test_arrays.py"),
    "protection/searched.py": ("engine/norms/test_data_shaped.py", "engine/norms/test_averaged.py"),
    "protection/several_moves.py": ("protection/test_several_certificate.py",),
    "report/answers_page.py": ("cli/test_answers.py",),
    "report/assumptions.py": ("cli/test_classes.py", "cli/test_answers.py", "cli/test_audit.py"),
    "report/lines.py": ("report/test_render.py",),
    "report/of_leakage.py": ("audit/test_measured_leakage.py",),
    "report/outputs.py": ("cli/test_audit.py", "audit/test_people.py", "audit/test_run.py"),
    "report/people_words.py": ("audit/test_people.py",),
    "report/sentences.py": ("report/test_render.py", "report/test_summarise.py"),
    "report/view.py": ("report/test_render.py", "report/test_browser.py"),
    "report/words.py": ("report/test_render.py",),
    "reproduce/comparison.py": ("reproduce/test_reproduction.py",),
    "reproduce/end_to_end.py": ("reproduce/test_numbers.py",),
    "reproduce/figure1.py": ("reproduce/test_numbers.py",),
    "reproduce/figure2.py": ("reproduce/test_numbers.py",),
    "reproduce/figure3.py": ("reproduce/test_numbers.py",),
    "reproduce/figure4.py": ("reproduce/test_numbers.py",),
    "reproduce/figure5.py": ("reproduce/test_numbers.py",),
    "reproduce/figure6.py": ("reproduce/test_numbers.py",),
    "reproduce/figure7.py": ("reproduce/test_numbers.py",),
    "reproduce/items.py": ("reproduce/test_reproduction.py", "cli/test_start.py"),
    "reproduce/jointly.py": ("reproduce/test_numbers.py",),
    "reproduce/overlap.py": ("reproduce/test_numbers.py",),
    "reproduce/page.py": ("reproduce/test_reproduction.py", "reproduce/test_numbers.py"),
    "reproduce/pixels.py": ("reproduce/test_numbers.py",),
    "reproduce/workspace.py": ("reproduce/test_numbers.py",),
    "rows/moments.py": ("audit/test_run.py", "cli/test_bad_input.py", "tables/test_design.py"),
    "rows/selection.py": ("leakage/test_leakage.py", "leakage/test_show.py", "_support/test_arrays.py"),
    "rows/summary.py": ("rows/test_dask_arrays.py", "models/test_frames.py", "leakage/test_show.py"),
    "tables/choices.py": ("cli/test_bad_input.py", "tables/test_column_kinds.py", "tables/test_foreign.py"),
    "tables/features.py": ("tables/test_design.py", "tables/test_rare_values.py", "tables/test_gaps.py"),
    "tables/filling.py": ("tables/test_gaps.py", "tables/test_design.py", "audit/test_run.py"),
    "tables/header.py": ("cli/test_start.py",),
    "tables/notation.py": ("tables/test_written.py",),
    "tables/parquet.py": ("rows/test_dask_tables.py", "audit/test_run.py", "cli/test_scale.py"),
    "tables/parquet_folder.py": ("rows/test_dask_tables.py",),
    "tables/survey.py": ("tables/test_written.py",),
    "tables/target.py": ("tables/test_design.py", "audit/test_kinds.py", "cli/test_bad_input.py"),
    "tables/whose_rows.py": ("audit/test_people.py", "tables/test_rare_values.py"),
}
"""Modules without a file of their name, and the files whose tests fail where such a module is wrong, the closest first."""


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
    return (own,) if (TESTS / own).is_file() else ELSEWHERE.get(module, ())


def called(name: str) -> list[str]:
    """The modules that a name stands for: ``cards``, ``audit/cards.py`` and ``fisherleak.audit.cards`` are one."""
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
