"""``fisherleak release``: train, calibrate, perturb, save."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fisherleak._support.numbers import number, number_at_least, number_at_most, percent
from fisherleak.cli import _common as common
from fisherleak.cli import _layout as layout
from fisherleak.cli import _options as flags
from fisherleak.cli._common import printable
from fisherleak.cli._print import even, how_it_was_read, say_reading, screen_or_all
from fisherleak.cli._wording import told
from fisherleak.training.defaults import DEFAULT_L2

if TYPE_CHECKING:
    from fisherleak.training.utility import Tradeoff

ANY_RECORD = "admissible"
"""On a model card: the limit is for any record within the bounds."""
UNIT = "A unit is about the column's standard deviation or, with declared bounds, their width divided by the square root of 12."
"""In which a limit on rows counts numbers (section 1.4)."""


@flags.expand_option_groups
def release(
    table: flags.Table,
    out: Annotated[
        Path, typer.Option("--out", metavar="MODEL", help="File for the model; its model card is MODEL.json.")
    ],
    *,
    eta: Annotated[
        float | None,
        typer.Option(
            "--eta",
            metavar="X",
            help="Limit on every row's eta. A column's unit is its standard deviation or, with --bounds, their width / √12.",
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", metavar="SIGMA", help="The noise scale, in place of a limit."),
    ] = None,
    target: flags.Target = None,
    attribute: Annotated[
        list[str] | None,
        flags.column("--attribute", help="Limit the eta of this column alone, in the column's unit. Repeatable."),
    ] = None,
    over: flags.Over = "any-record",
    bounds: flags.Bounds = None,
    shape: flags.Shape = None,
    shape_from: Annotated[
        str | None,
        typer.Option(
            "--shape-from",
            metavar="TABLE",
            help="Public rows with the same columns, from which the covariance of the noise is computed.",
        ),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="First reweight rows with IRFIL, and count the weights. Needs --over max.")
    ] = False,
    model: flags.Model = None,
    l2: Annotated[
        float | None,
        typer.Option(
            "--l2",
            metavar="X",
            help=f"Penalty per row on standardised coefficients (default: {DEFAULT_L2:g}; with --eta for any record within "
            f"the bounds, {DEFAULT_L2:g} or more, computed from numbers of the model card).",
        ),
    ] = None,
    reading: flags.Reading,
    missing: flags.Missing = None,
    id_: flags.Id = None,
    person: flags.Person = None,
    rows_per_person: flags.RowsPerPerson = None,
    levels: flags.Levels = None,
    public: flags.Public = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign the model card with this private key (Ed25519, PEM, not encrypted)."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Record the release in this file. It is made if it is not there; keep it internal.",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit",
            metavar="X",
            help="Refuse a larger eta over all recorded releases. Needs --ledger.",
        ),
    ] = None,
    overwrite: flags.Overwrite = False,
    form: flags.Form,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Train a model, add noise that keeps a limit, save it with its model card.

    It is trained on all rows that have the target unless --held-out says otherwise. The model without noise is never written.
    Without --l2, the penalty is computed from numbers of the model card, which says how.

    \b
    Examples:
      fisherleak release wages.csv --target wage --eta 0.5 --out wage.skops
      fisherleak release people.csv --target sick --eta 0.5 --bounds age=0:120 --out model.skops
      fisherleak release people.csv --target income --eta 0.5 --shape hessian --bounds income=0:9000 --out model.skops
      fisherleak release wages.csv --target wage --person worker --rows-per-person 12 --eta 0.5 --out model.skops
      fisherleak release people.csv --target income --attribute age --eta 0.1 --out model.skops
      fisherleak release people.csv --target sick --id name --eta 0.3 --out m2.skops --ledger people.ledger.json --limit 1
      fisherleak release people.csv --target sick --levels city=Bonn,Genua --eta 0.5 --out model.skops --sign key.pem
    """
    from fisherleak.protection.ledger.ledger import OverspentError
    from fisherleak.releasing.cards.signatures import card_path
    from fisherleak.releasing.files.released_files import save_model
    from fisherleak.releasing.ledgers import id_columns

    over = common.over_from(over)
    settings = common.settings_from(
        target=target,
        model=model,
        l2=l2,
        held_out=0.0 if held_out is None else held_out,
        seed=seed,
        public=public,
        levels=common.levels_from(levels),
        id=id_,
        person=person,
        missing=missing,
        **reading,
    )
    with common.quietly(quiet, json):
        written = {"--out": [out, card_path(out)], "--ledger": [] if ledger is None else [ledger]}
        common.check_places(written, [table, sign, shape_from, form["columns"]])
        known = settings.id_columns | (frozenset() if ledger is None else id_columns(ledger))
        raw = common.source_table(table, texts=known, **form)
        public_rows = None if shape_from is None else common.source_table(shape_from, **form)
        limited = attribute or None
        read: list[str] = []
        try:
            card, cost = save_model(
                *(raw, settings, out),
                eta=eta,
                noise=noise,
                attribute=limited,
                over=over,
                bounds=common.bounds_from(bounds),
                balance=balance,
                shape=shape,
                shape_from=public_rows,
                rows_per_person=rows_per_person,
                overwrite=overwrite,
                sign=sign,
                ledger=ledger,
                limit=limit,
                choose_l2=l2 is None,
                tell=read.extend,
                warn=read.append,
            )
        except OverspentError as error:
            return common.say(str(error), status=1)
    if json:
        common.emit_json(card)
        say_reading(read, quiet)
    elif not quiet:
        show_release(told(card), cost, str(out), read, verbose=verbose)
    return 0


def show_release(card: dict[str, Any], cost: Tradeoff, model: str, read: Sequence[str], *, verbose: bool) -> None:
    """What was released, what it promises, and what it costs; every assumption where all is asked for."""
    size, rows = number(card["model"]["parameters"]), number(card["data"]["rows"])
    where = "held-out rows" if cost.held_out else "training rows"
    first = [f"Released {printable(model)} with its model card {printable(model)}.json", ""]
    first += layout.pair_lines(
        [
            ("promise", _promise(card)),
            ("noise", _noise_of(card)),
            ("utility", f"{_label(cost)} {_paid(cost)} ({where})"),
            *((_label(each), _paid(each)) for each in cost.also),
            ("model", f"{card['model']['kind']}, {size} parameters, about {rows} rows"),
        ]
    )
    said = ["\nUnder these assumptions:", *card["assumptions"]] if verbose else ["", *_short_assumptions(card)]
    signed = f"Signed: 'fisherleak verify {printable(model)} --key PUB' checks it, with your public key as PUB."
    blocks = [layout.lines("", each) for each in _beware(card, cost)]
    blocks += [layout.lines("", signed)] if "signature" in card else []
    blocks += [said[0].split("\n"), *(layout.lines("  - ", each) for each in said[1:]), *how_it_was_read(read)]
    count = number(len(card["assumptions"]))
    more = ["", f"-v prints all {count} assumptions; they are on the model card too."]
    screen_or_all(first, blocks, verbose, more=more)


def _promise(card: dict[str, Any]) -> str:
    """The limit in words: whose eta it bounds, and what that means for an estimate."""
    limit, on = card["eta"]["limit"], card["eta"]["limit_on"].removesuffix(", in standard units")
    if limit is None:
        return "none: the noise was given"
    told = card["noise"].get("calibrated") or {}
    whose = "any record within the bounds" if told.get("over") == ANY_RECORD else "the rows that are in the table"
    size, single = number_at_least(1 / limit), bool(card["eta"]["limit_columns"])
    least = f"No unbiased estimate of a {'' if single else 'numeric '}value has an error below {size} unit{'s' * (size != '1')}"
    least += " of its column." if single else f". {UNIT}"
    return f"eta of at most {number_at_most(limit)} for {on}, for {whose}. {least}"


def _short_assumptions(card: dict[str, Any]) -> list[str]:
    """What a reader must know of a release, in short sentences; the model card has all of it."""
    from fisherleak.releasing.cards.cards import unbounded

    told = card["noise"].get("calibrated") or {}
    found = []
    if card["settings"]["public"] == "preprocessing":
        found.append("What standardising learned from your rows is taken as public, and the promise does not count it.")
    if unbounded(card):
        found.append(
            "Bounds were not declared for every numeric column, so some come from your rows; --bounds avoids that."
        )
    if told and told.get("over") != ANY_RECORD:
        found.append(
            "This noise scale was computed from your data, so publishing it reveals a little about one record. "
            "Leave out --over to avoid that."
        )
        if isinstance(card["noise"].get("shape"), str):
            found.append("What the covariance of the noise reveals by itself is not counted in the promise.")
    found.append("This is not differential privacy and not anonymity. An audit measures membership.")
    if "ledger" not in card:
        found.append("Every further release of the same data reveals more; --ledger adds them up.")
    return found


def _beware(card: dict[str, Any], cost: Tradeoff) -> list[str]:
    """What to do where the noise leaves nothing of the model."""
    little = cost.how_little(cost.points[0].utility)
    if not little:
        return []
    return [
        "",
        f"Beware: with this noise the model is {little} better than the baseline.",
        "Allow a larger --eta, declare narrower --bounds, or get more rows.",
    ]


def _noise_of(card: dict[str, Any]) -> str:
    size, shape = number(card["noise"]["scale"]), card["shape"]
    if shape["name"] == "isotropic":
        return f"scale {size} on every coefficient"
    return f"scale {size}, covariance: {shape['name']}" + (f" of {printable(shape['from'])}" if shape["from"] else "")


def _label(cost: Tradeoff) -> str:
    return cost.metric.label.partition(" (")[0]


def _paid(cost: Tradeoff) -> str:
    """What one noise costs."""
    noisy, without, constant = (
        _utility(each, cost) for each in (cost.points[0].utility, cost.without_noise, cost.constant)
    )
    return f"{noisy} on average with such noise, {without} without, {constant} for the baseline"


def _utility(value: float | None, cost: Tradeoff) -> str:
    if value is None or cost.metric.name != "accuracy":
        return even(value, cost.metric.name)
    return percent(value, cost.constant)
