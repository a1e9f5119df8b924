"""``fisherleak attack``: what each attacker gets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._print import say_reading, show_attack
from fisherleak.cli._wording import told
from fisherleak.errors import InvalidInputError

ONE_RELEASE = (
    "All rows share the noise of this one release: another would give other figures, outside these intervals too. Attack with "
    "--noise instead of --released for the average over releases."
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
