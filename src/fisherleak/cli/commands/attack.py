"""``fisherleak attack``: what each attacker gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fisherleak._support.numbers import percent
from fisherleak.cli import _common as common
from fisherleak.cli import _layout as layout
from fisherleak.cli import _options as flags
from fisherleak.cli._print import attack_table, attackers_in_words, how_it_was_read, say_reading, screen_or_all
from fisherleak.cli._wording import in_options, told
from fisherleak.errors import InvalidInputError

if TYPE_CHECKING:
    from fisherleak.auditing import report_summary as record

ONE_RELEASE = (
    "All rows share the noise of this one release: another release would give other figures, which may lie outside these "
    "intervals. Attack with --noise instead of --released for the average over releases."
)


@flags.expand_option_groups
def attack(
    table: flags.Table,
    attribute: Annotated[list[str], flags.column("--attribute", help="The column to infer. Repeatable.")],
    *,
    target: flags.Target = None,
    noise: Annotated[
        float | None, typer.Option("--noise", metavar="SIGMA", help="Scale of the noise on every coefficient.")
    ] = None,
    quick: flags.Quick = False,
    released: flags.Released = None,
    model: flags.Model = None,
    l2: flags.L2 = None,
    person: flags.Person = None,
    reading: flags.Reading,
    missing: flags.Missing = None,
    held_out: flags.HeldOut = None,
    seed: flags.Seed = None,
    form: flags.Form,
    verbose: flags.Verbose = False,
    quiet: flags.Quiet = False,
    json: flags.Json = False,
    debug: flags.Debug = False,
) -> int:
    """Run the attackers against a model of a table and print how often each is correct.

    \b
    Examples:
      fisherleak attack people.csv --target sick --attribute city --noise 1
      fisherleak attack people.csv --released model.skops --attribute city --json
    """
    from fisherleak._support.checks import check_positive
    from fisherleak._support.json import plain, versions
    from fisherleak.auditing.attackers import attack_all
    from fisherleak.auditing.fitted_models.under_attack import table_under_attack
    from fisherleak.auditing.plain_records import as_json
    from fisherleak.auditing.run import attacked_columns
    from fisherleak.auditing.summary_parts import outcomes_of

    given: dict[str, Any] = {"target": target, "model": model, "l2": l2, "held_out": held_out, "seed": seed}
    given["person"] = person
    given |= {"missing": missing, **reading}
    with common.quietly(quiet, json):
        if released is None:
            if noise is None:
                raise InvalidInputError("--noise is missing: give the scale of the noise on every coefficient.")
            noise = check_positive(noise, "noise")
        by = common.what_decides(released, given, noise)
        trained, settings, saved = common.fitted_or_released(by, table, form)
        against: Any = None if saved is None else saved.model
        added: Any = noise if saved is None else saved.noise_on(trained)
        noise = noise if saved is None else saved.scale
        chosen, _ = attacked_columns(trained.design, attribute)
        attacked = attack_all(table_under_attack(trained, against), chosen, added, seed=settings.seed, quick=quick)
    outcomes, notes = outcomes_of(attacked), list(attacked.notes)
    if json:
        document = {"schema": "fisherleak.attacks/1", "noise": noise, "attacks": as_json(outcomes), "notes": notes}
        common.emit_json(told(plain({**document, "versions": versions()})))
        say_reading(trained.design.decided, quiet)
    elif not quiet:
        said = [*([ONE_RELEASE] if against is not None else []), *notes]
        people = trained.design.people is not None
        show_attack(outcomes, said, trained.design.decided, people=people, verbose=verbose)
    return 0


def show_attack(
    attacks: Sequence[record.AttackResult],
    notes: Sequence[str],
    read: Sequence[str],
    *,
    people: bool,
    verbose: bool,
) -> None:
    """How often attackers are correct: the best of each column first."""
    first = [line for sentence in _best(attacks) for line in layout.lines("", sentence)]
    blocks = [layout.lines("", in_options(note)) for note in notes]
    blocks += [["", *attack_table(attacks, people)[:1]], *([line] for line in attack_table(attacks, people)[1:])]
    if verbose:
        blocks += [layout.lines("  - ", each) for each in attackers_in_words(attacks)]
    screen_or_all(first, [*blocks, *how_it_was_read(read)], verbose)


def _best(attacks: Sequence[record.AttackResult]) -> list[str]:
    """Of each column, the attacker who gains most from the release; those without a model have no worst row."""
    found = []
    for name in dict.fromkeys(a.attribute for a in attacks):
        own = [a for a in attacks if a.attribute == name and a.worst is not None]
        if not own:
            continue
        best = max(own, key=lambda a: a.accuracy - a.baseline)
        right, without = percent(best.accuracy, best.baseline), percent(best.baseline)
        found.append(
            f"{name}: an attacker is correct {right} of the time ({best.attacker}); without the release {without}."
        )
    return found
