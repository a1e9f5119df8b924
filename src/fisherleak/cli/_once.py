"""Commands that refuse an option given twice: the parser would take the last value and pass over the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from fisherleak.errors import InvalidInputError

__all__ = ["OnceCommand"]


class OnceCommand(TyperCommand):
    """A command whose options take one value each, but for those that are lists; flags may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count what was given, then parse."""
        if not ctx.resilient_parsing:  # not while a line is completed
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(map(id, given)).items():
                self._check(next(each for each in given if id(each) == option), count)
        return super().parse_args(ctx, args)

    @staticmethod
    def _check(option: Any, count: int) -> None:
        single = option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)
        if single and count > 1:
            raise InvalidInputError(f"{option.opts[0]} is given {count} times, and takes one value: give it once.")
