"""``fisherleak audit``: what a linear model of a table reveals."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fisherleak._support.atomic import check_folder_place
from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._complete import columns_to_set
from fisherleak.cli._print import show_audit, show_confirmation, show_gate, show_policy
from fisherleak.cli._wording import OPTIONS, told
from fisherleak.errors import InvalidInputError
from fisherleak.training.defaults import DRAWS

if TYPE_CHECKING:
    from fisherleak.auditing import Audit
    from fisherleak.auditing.confirmations import Confirmation
    from fisherleak.auditing.report_summary import Next, Summary
    from fisherleak.tables import Room
    from fisherleak.training.trained_model import Settings

__all__ = ["audit"]

CARD_NOTE = "The scale is that of the released model, from its card; the model was fitted again from the table."
NOTHING_TO_TEST = (
    "{} needs a noise to test: add --noise SIGMA or --released MODEL, or --eta X to choose one; a gate that chooses its own "
    "noise cannot fail."
)
RENAMED = (
    "The rules of the policy '{}' go by the names of columns, and --columns may give other names than the file's first line: "
    "leave --header and --no-header out, so that a header is noticed, or write the names into the file."
)
SAME = (
    "model",
    "l2",
    "numbers",
    "categories",
    "drop",
    "decimal",
    "na",
    "unite",
    "keep_total",
    "missing",
    "id",
    "person",
    "public",
    "bounds",
    "levels",
)
"""Settings that a release takes as the audit does."""
FORM = ("delimiter", "encoding", "columns")


@flags.grouped
def audit(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            show_default=False,
            help="CSV or Parquet file, in gzip or not, a folder or 'pattern' of Parquet files; - is standard input.",
        ),
    ] = None,
    *,
    target: flags.Target = None,
    model: flags.Model = None,
    l2: flags.L2 = None,
    noise: Annotated[
        float | None, typer.Option("--noise", metavar="SIGMA", help="Scale of the noise on every coefficient.")
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option("--eta", metavar="X", help="Choose the least noise that keeps every row's eta to X."),
    ] = None,
    max_eta: Annotated[
        float | None,
        typer.Option("--max-eta", metavar="X", help="Exit with status 1 if a row's eta is above X."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", help="Exit with status 1 if a rule of this policy, in TOML, is not kept."
        ),
    ] = None,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            "--spread",
            metavar="COLUMN=X",
            autocompletion=columns_to_set,
            help="What an outsider starts from about a number, in its unit (default: the column's own spread). Repeatable.",
        ),
    ] = None,
    attribute: Annotated[list[str] | None, flags.column("--attribute", help="Attack this column. Repeatable.")] = None,
    group: flags.Group = None,
    id_: flags.Id = None,
    person: flags.Person = None,
    reading: flags.Reading,
    missing: flags.Missing = None,
    bounds: flags.Bounds = None,
    levels: flags.Levels = None,
    balance: Annotated[bool, typer.Option("--balance", help="Also reweight with IRFIL, and compare.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for report.html, leakage.parquet and summary.json."),
    ] = None,
    overwrite: flags.Overwrite = False,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Put the raw values of the most exposed rows in the report.")
    ] = False,
    no_attacks: Annotated[bool, typer.Option("--no-attacks", help="Run no attacks.")] = False,
    quick: flags.Quick = False,
    released: flags.Released = None,
    public: flags.Public = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", help="Noisy copies behind each point of utility.")
    ] = DRAWS,
    form: flags.Form,
    cluster: flags.Cluster = None,
    memory: flags.Memory = None,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Measure what a linear model of a table reveals about its rows, and what noise costs.

    Without TABLE it runs on the diabetes data that scikit-learn carries.

    \b
    Examples:
      fisherleak audit --out report
      fisherleak audit people.csv --target income --id person --group city --out report
      fisherleak audit wages.csv --target wage --person worker --max-eta 0.5 --noise 0.05
      fisherleak audit people.parquet --target sick --noise 0.05 --max-eta 0.5
      zcat people.csv.gz | fisherleak audit - --target sick --json
      fisherleak audit people.csv --released model.skops
      fisherleak audit 'visits/*.parquet' --target sick --cluster tcp://10.0.0.1:8786
    """
    from fisherleak.auditing.plain_records import as_json
    from fisherleak.auditing.policy.policy import read_policy
    from fisherleak.auditing.report_summary import ConfirmedRelease
    from fisherleak.auditing.run import audit as run_audit
    from fisherleak.auditing.run import check_options
    from fisherleak.report.outputs import write_outputs
    from fisherleak.report.summarise import summary_of_audit

    if out is not None:
        check_folder_place(out, overwrite)
    choice: dict[str, Any] = {"noise": noise, "eta": eta, "max_eta": max_eta, "draws": draws}
    check_options(**choice)
    for option, given in (("--max-eta", max_eta), ("--policy", policy)):
        if given is not None and noise is None and eta is None and released is None:
            raise InvalidInputError(NOTHING_TO_TEST.format(option))
    if policy is not None and form["columns"] is not None and form["header"] is not None:
        raise InvalidInputError(RENAMED.format(policy.name))
    options: dict[str, Any] = {
        **choice,
        "attributes": attribute,
        "balance": balance,
        "attacks": not no_attacks,
        "quick": quick,
        "spread": common.spread_from(spread),
        "policy": None if policy is None else read_policy(policy),
    }
    decided: dict[str, Any] = {"target": target, "model": model, "l2": l2, "group": group, "person": person}
    decided |= {"held_out": held_out, "seed": seed, "public": public}
    decided |= {"missing": missing, **reading}
    found: Confirmation | None = None
    with common.quietly(quiet, json), common.room_for(cluster, memory) as room:
        if released is not None:
            common.decided_by_card(
                **decided,
                noise=noise,
                eta=eta,
                id=id_,
                bounds=bounds,
                levels=levels,
            )
            result, found = _again(released, table, form, room, options)
        else:
            decided["target"] = common.EXAMPLE_TARGET if table is None and target is None else target
            decided["bounds"] = tuple(common.bounds_from(bounds).items())
            decided["levels"] = common.levels_from(levels)
            settings = common.settings_from(**decided, id=id_)
            result = run_audit(common.source_table(table, room, **form), settings, room, **options)
        summary: Summary = told(summary_of_audit(result, show_values=show_values, command=common.command_line(context)))
        if released is None:
            around = command_around(table, result.settings, form)
            summary = replace(summary, next=_with_command(summary.next, around))
        if found is not None:
            summary = replace(summary, released=ConfirmedRelease(**vars(found)))
        if out is not None:
            write_outputs(result, summary, out)
    if json:
        common.emit_json(as_json(summary))
    elif not quiet:
        _show(summary, released, out)
    if found is not None and found.failed is not None:
        return common.say(found.failed, status=1)
    if summary.policy is not None and not summary.policy.passed:
        failed = ", ".join(rule.rule for rule in summary.policy.rules if not rule.passed)
        return common.say(f"the policy '{summary.policy.source}' is not kept: {failed}.", status=1)
    return 1 if summary.gate and summary.gate.exceeded else 0


def _with_command(advised: Next, around: tuple[str, str] | None) -> Next:
    """With the command for the noise that is advised, and for any other."""
    if around is None:
        return advised
    command = None if advised.noise is None else f"{advised.noise:.15g}".join(around)
    return replace(advised, command=command, command_for=around)


def _show(summary: Summary, released: Path | None, out: Path | None) -> None:
    show_audit(summary)
    if summary.gate:
        show_gate(summary.gate, people=summary.data.people is not None)
    if summary.policy:
        show_policy(summary.policy, planned=released is None)
    if summary.released:
        show_confirmation(summary.released, str(released))
    if out is not None:
        common.emit(f"\nopen {common.printable(out / 'report.html')}")


def _again(
    path: Path, table: str | None, form: dict[str, Any], room: Room, options: dict[str, Any]
) -> tuple[Audit, Confirmation]:
    """Audit a released model, fitted again from its table with the noise of its card, and hold the card against that."""
    from fisherleak.auditing.confirmations import confirm, noise_confirmed
    from fisherleak.auditing.records import Plan
    from fisherleak.auditing.run import audit_trained
    from fisherleak.releasing.files.released_files import load_model, retrain

    if table is None:
        raise InvalidInputError("--released needs the TABLE that the model was released from.")
    saved = load_model(path)
    trained = retrain(saved, common.source_table(table, room, **form), room)
    noise = saved.noise_on(trained)
    found, holds = noise_confirmed(saved, trained, noise)
    known = {"noise": noise, "noise_note": CARD_NOTE, "released": True, "unconfirmed": "" if holds else found}
    plan = Plan(**{**options, **known})
    audited = audit_trained(trained, saved.settings, plan)
    return audited, confirm(saved, audited)


def command_around(table: str | None, settings: Settings, form: Mapping[str, Any]) -> tuple[str, str] | None:
    """The command for any noise: what stands before its scale and what behind; none where no table could be read again.

    The data that come with the command have no file to release from: they are audited again.
    """
    if table == "-":
        return None
    words = ["fisherleak", "audit"] if table is None else ["fisherleak", "release", table, "--target", settings.target]
    plain = type(settings)(settings.target)
    given = {name: getattr(settings, name) for name in SAME if getattr(settings, name) != getattr(plain, name)}
    for name, value in {**given, **{key: form[key] for key in FORM if form.get(key) is not None}}.items():
        words += _option(OPTIONS[name], _written(name, value))
    if form.get("header") is not None:
        words.append("--header" if form["header"] else "--no-header")
    out = "" if table is None else " --out model.skops"
    return common.printable(shlex.join([*words, "--noise"])) + " ", out


def _written(name: str, value: Any) -> Any:
    """A setting as its option takes it."""
    return _ranges(value) if name == "bounds" else _named(value) if name == "levels" else value


def _ranges(bounds: tuple[tuple[str, tuple[float, float]], ...]) -> tuple[str, ...]:
    return tuple(f"{name}={low:.15g}:{high:.15g}" for name, (low, high) in bounds)


def _named(levels: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    return tuple(f"{name}={','.join(own)}" for name, own in levels)


def _option(option: str, value: Any) -> list[str]:
    if value is True:
        return [option]
    return [word for item in (value if isinstance(value, tuple) else (value,)) for word in (option, str(item))]
