"""``fisherleak audit``: what a linear model of a table reveals."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fisherleak._support.atomic import check_file_place, check_folder_place
from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._complete import columns_to_set, metrics
from fisherleak.cli._print_audit import show_audit
from fisherleak.cli._wording import OPTIONS, told
from fisherleak.errors import InvalidInputError
from fisherleak.training.defaults import DRAWS

if TYPE_CHECKING:
    from fisherleak.auditing import Audit
    from fisherleak.auditing.confirmations import Confirmation
    from fisherleak.auditing.report_summary import Next, PriceAtLimit, Summary
    from fisherleak.tables import Room
    from fisherleak.training.trained_model import Settings

__all__ = ["audit"]

CARD_NOTE = "The scale is that of the released model, from its model card; the model was fitted again from the table."
NOTHING_TO_TEST = (
    "{} needs a noise to test: add --noise SIGMA or --released MODEL, or --eta X to choose one. Noise that is chosen by "
    "the limit under test would always pass."
)
RENAMED = (
    "The rules of the policy '{}' use names of columns, and with --header or --no-header, --columns could replace "
    "the file's own names unnoticed. Leave out --header and --no-header, or write the names into the file."
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
FORM = ("delimiter", "encoding", "columns", "sheet")
OWN_TABLE = "fisherleak audit TABLE.csv --target COLUMN --out report"
"""What comes after the data that are built in."""
AS_CODES = (
    "The command takes {} as {}; the figures here take them as numbers. Give --category in the audit to see the "
    "difference."
)
THEN_OWN = "For your own table, begin with:"


@flags.expand_option_groups
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
        typer.Option("--eta", metavar="X", help="Choose the least noise with every eta at most X."),
    ] = None,
    max_eta: Annotated[
        float | None,
        typer.Option("--max-eta", metavar="X", help="Exit with status 1 if a row's eta is above X."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Exit with status 1 if a rule in it fails."),
    ] = None,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            "--spread",
            metavar="COLUMN=X",
            autocompletion=columns_to_set,
            help="How uncertain an outsider is about a numeric column: a standard deviation in its unit (default: the column's "
            "own). Repeatable.",
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
    over: flags.Over = "any-record",
    shape: flags.Shape = None,
    rows_per_person: flags.RowsPerPerson = None,
    balance: Annotated[bool, typer.Option("--balance", help="Also reweight with IRFIL, and compare.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for report.html, leakage.parquet and summary.json."),
    ] = None,
    board: Annotated[
        Path | None,
        typer.Option(
            "--board",
            metavar="FILE",
            help="One HTML page that may be published: rules with passed or failed, and utility to two digits. Asking for it "
            "declares these public.",
        ),
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
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="MEASURE",
            autocompletion=metrics,
            help="The main measure of utility: auc, log-loss or accuracy of classes, r2 of numbers, deviance of counts "
            "(default: r2 of numbers, deviance of counts, accuracy of classes; auc if one of two classes has less than 30 % of "
            "the rows).",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", help="Noisy models over which each utility is averaged.")
    ] = DRAWS,
    form: flags.Form,
    cluster: flags.Cluster = None,
    memory: flags.Memory = None,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Measure what a model reveals about its training rows, and what noise costs.

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
    from fisherleak.report.board import NO_NOISE
    from fisherleak.report.outputs import AUDIT_FILES, write_board, write_outputs
    from fisherleak.report.summarise import summary_of_audit

    over = common.over_from(over)
    written = {"--out": [] if out is None else [out / name for name in AUDIT_FILES]}
    written["--board"] = [] if board is None else [board]
    common.check_places(written, [table, policy, *common.files_of(released), form["columns"]])
    if out is not None:
        check_folder_place(out, overwrite)
    if board is not None:
        check_file_place(board, overwrite)
        if noise is None and eta is None and released is None:
            raise InvalidInputError(NO_NOISE)
    choice: dict[str, Any] = {"noise": noise, "eta": eta, "max_eta": max_eta, "draws": draws, "metric": metric}
    check_options(**choice)
    common.keep_memory(table)
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
    priced: dict[str, Any] = {"over": over, "shape": shape, "rows_per_person": rows_per_person}
    decided: dict[str, Any] = {"target": target, "model": model, "l2": l2, "person": person}
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
                **{**priced, "over": None if over == "any-record" else over},
            )
            result, found = _again(released, table, form, room, options, group)
        else:
            decided["target"] = common.EXAMPLE_TARGET if table is None and target is None else target
            decided["bounds"] = tuple(common.bounds_from(bounds).items())
            decided["levels"] = common.levels_from(levels)
            if policy is not None and held_out is None:
                decided["held_out"] = (
                    0.0  # rules are about the model that a release trains: on all rows, unless told otherwise
                )
            settings = common.settings_from(**decided, id=id_, group=group)
            raw = common.source_table(table, room, texts=settings.id_columns, **form)
            result = run_audit(raw, settings, room, **options, **priced)
        summary: Summary = told(summary_of_audit(result, show_values=show_values, command=common.command_line(context)))
        if released is None:
            around = command_around(table, result.settings, form)
            codes = result.design.codes
            summary = _with_prices(
                summary, lambda own: command_around(table, result.settings, form, own, codes), priced
            )
            summary = replace(summary, next=_with_command(summary, around, codes))
            if table is None:
                said = f"{summary.next.note} {THEN_OWN}".strip()
                summary = replace(summary, next=replace(summary.next, command=OWN_TABLE, note=said))
        elif not (summary.gate or summary.policy):  # what was released is not advised on
            summary = replace(summary, next=replace(summary.next, noise=None, note=""))
        if found is not None:
            summary = replace(summary, released=ConfirmedRelease(**vars(found)))
        if out is not None:
            write_outputs(result, summary, out)
        if board is not None and (found is None or found.failed is None):
            write_board(summary, board, overwrite)
    if json:
        common.emit_json(as_json(summary))
    elif not quiet:
        show_audit(summary, result.design.decided, verbose=verbose, released=released, out=out)
        if board is not None and (found is None or found.failed is None):
            common.emit(f"to hand out: {common.printable(board)}")
    if found is not None and found.failed is not None:
        return common.say(found.failed + (" No board page was written." if board is not None else ""), status=1)
    if summary.policy is not None and not summary.policy.passed:
        failed = ", ".join(rule.rule for rule in summary.policy.rules if not rule.passed)
        return common.say(f"the policy '{summary.policy.source}' failed: {failed}.", status=1)
    return 1 if summary.gate and summary.gate.exceeded else 0


def _with_command(summary: Summary, around: tuple[str, str] | None, codes: tuple[str, ...]) -> Next:
    """With the command for the noise, or the limit, that is advised, and for any other noise.

    A noise is that of the model as it was audited; a limit holds for any, so that command takes ``codes`` as categories.
    """
    advised = summary.next
    if around is None:
        return advised
    command = None if advised.noise is None else f"{advised.noise:.15g}".join(around)
    limits = () if summary.prices is None else summary.prices.limits
    best = next((price.command for price in limits if price.best and price.eta == advised.eta), None)
    if best is not None and codes:
        kinds = "a category" if len(codes) == 1 else "categories"
        said = AS_CODES.format(", ".join(map(repr, codes)), kinds)
        advised = replace(advised, note=f"{advised.note} {said}".strip())
    return replace(advised, command=best or command, command_for=around)


def _with_prices(
    summary: Summary, around: Callable[[Mapping[str, Any]], tuple[str, str] | None], asked: Mapping[str, Any]
) -> Summary:
    """With the command for the best release at each limit."""
    prices = summary.prices
    if prices is None:
        return summary

    def command(price: PriceAtLimit) -> str | None:
        shape = asked["shape"] if price.by_rule else price.covariance
        own = {
            "over": None if prices.over == "any-record" else prices.over,
            "rows_per_person": asked["rows_per_person"],
        }
        own["shape"] = (
            shape if own["over"] is None else None
        )  # of the rows present, the noise that is advised is isotropic
        words = around({name: value for name, value in own.items() if value is not None})
        return None if words is None else f"{price.eta:.15g}".join(words)

    limits = tuple(replace(each, command=command(each)) if each.best else each for each in prices.limits)
    return replace(summary, prices=replace(prices, limits=limits))


def _again(
    path: Path, table: str | None, form: dict[str, Any], room: Room, options: dict[str, Any], group: str | None
) -> tuple[Audit, Confirmation]:
    """Audit a released model, fitted again from its table with the noise of its card, and hold the card against that."""
    from fisherleak.auditing.confirmations import confirm, why_unconfirmed
    from fisherleak.auditing.records import Plan
    from fisherleak.auditing.run import audit_trained
    from fisherleak.releasing.files.released_files import load_model, retrain
    from fisherleak.releasing.scale_rule import scale_rule
    from fisherleak.releasing.shaping import covariance_from

    if table is None:
        raise InvalidInputError("--released needs the TABLE that the model was released from.")
    saved = load_model(path)
    raw = common.source_table(table, room, texts=saved.settings.id_columns, **form)
    trained = retrain(saved, raw, room, group)
    noise = saved.noise_on(trained)
    known = {"noise": noise, "noise_note": CARD_NOTE, "released": True, "covariance": covariance_from(saved.card)}
    known["unconfirmed"] = why_unconfirmed(saved, trained, noise)
    known["scale_rule"] = scale_rule(saved, trained, noise)
    plan = Plan(**{**options, **known})
    settings = saved.settings if group is None else replace(saved.settings, group=group)
    audited = audit_trained(trained, settings, plan)
    return audited, confirm(saved, audited)


def command_around(
    table: str | None,
    settings: Settings,
    form: Mapping[str, Any],
    limited: Mapping[str, Any] | None = None,
    codes: tuple[str, ...] = (),
) -> tuple[str, str] | None:
    """The command for any noise: what stands before its scale and what behind; none where no table could be read again.

    The data that come with the command have no file to release from. With ``limited``, options of a release by a limit, it is
    the command for any limit, whose penalty a rule decides but for the rows present, and which takes ``codes`` as categories.
    It trains on the rows of the audit.
    """
    from fisherleak.releasing.cards.card_fields import is_share

    if table is None or table == "-" or not is_share(float(settings.held_out)):
        return None
    words = ["fisherleak", "release", table, "--target", settings.target]
    plain = type(settings)(settings.target)
    given = {name: getattr(settings, name) for name in SAME if getattr(settings, name) != getattr(plain, name)}
    if limited is not None and "over" not in limited:
        given.pop("l2", None)
    if codes:
        given["categories"] = (*settings.categories, *codes)
    if settings.held_out:
        given |= {"held_out": settings.held_out} | ({"seed": settings.seed} if settings.seed else {})
    given |= {key: form[key] for key in FORM if form.get(key) is not None} | dict(limited or {})
    for name, value in given.items():
        words += _option(OPTIONS[name], _written(name, value))
    if form.get("header") is not None:
        words.append("--header" if form["header"] else "--no-header")
    return common.printable(shlex.join([*words, "--noise" if limited is None else "--eta"])) + " ", " --out model.skops"


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
