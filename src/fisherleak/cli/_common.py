"""What the commands share: what options mean, refusals in one sentence, and text that suits terminals and pipes.

Help and completion load this module and the commands: they load the rest of the library when they run.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import math
import os
import re
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fisherleak._support.atomic import resolved
from fisherleak._support.progress import hidden
from fisherleak.cli._complete import OVER
from fisherleak.cli._interrupts import INTERRUPTED, interrupt
from fisherleak.cli._wording import in_options
from fisherleak.errors import FisherleakError, InvalidInputError

if TYPE_CHECKING:
    from fisherleak.releasing.files.released_files import SavedModel
    from fisherleak.tables import RawTable, Room
    from fisherleak.training.trained_model import Settings, Trained

BAD = 2
EXAMPLE_TARGET = "progression"
LONGEST = 1000
PARSER_INTERRUPTED = 130
"""What newer parsers make of an interrupt before the command runs; no command gives it back."""


CLOSED = "standard output is closed, and nothing was done: open it, or send it to /dev/null."
UNPRINTED = "standard output could not be written ({}): not all was printed. Files that were asked for are written."


class InterruptedByUserError(Exception):
    """The user pressed Ctrl-C."""


class UnprintedError(Exception):
    """Standard output takes no more."""


def settings_from(**given: Any) -> Settings:
    """Settings from options; those that were not given keep their default."""
    from fisherleak.training.trained_model import Settings

    given = {{"number": "numbers", "category": "categories"}.get(name, name): value for name, value in given.items()}

    if given.get("target") is None:
        raise InvalidInputError("--target is missing: name the column that the model predicts.")
    lists: dict[str, Any] = {
        key: tuple(value or ())
        for key, value in given.items()
        if key in ("numbers", "categories", "drop", "na", "unite")
    }
    single: dict[str, Any] = {key: value for key, value in given.items() if key not in lists and value is not None}
    return Settings(**single, **lists)


def levels_from(given: Sequence[str] | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Declared levels from COLUMN=a,b,c; a column whose name has an equals sign keeps all but the last of them."""
    found = []
    for text in given or ():
        name, sign, levels = text.rpartition("=")
        if not sign or not name or not levels:
            raise InvalidInputError(f"--levels must be COLUMN=CATEGORY,CATEGORY,…; got {text!r}.")
        found.append((name, tuple(level.strip() for level in levels.split(","))))
    return tuple(found)


def bounds_from(given: Sequence[str] | None) -> dict[str, tuple[float, float]]:
    """Declared bounds from COLUMN=LOW:HIGH; a column whose name has an equals sign keeps all but the last of them."""
    found: dict[str, tuple[float, float]] = {}
    for text in given or ():
        name, sign, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            pair = (float(low), float(high))
        except ValueError:
            pair = (math.nan, math.nan)
        if not (sign and name and colon and math.isfinite(pair[0]) and math.isfinite(pair[1]) and pair[0] < pair[1]):
            raise InvalidInputError(
                f"--bounds must be COLUMN=LOW:HIGH, two numbers, the first the smaller; got {text!r}."
            )
        if name in found:
            raise InvalidInputError(f"--bounds name '{name}' twice; give each column once.")
        found[name] = pair
    return found


def over_from(given: str) -> str:
    """What --over names; the word of version 0.2 is read with a sentence on standard error."""
    from fisherleak.engine.noise.calibration_record import read_over

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FutureWarning)
        over = read_over(given, OVER)
    for each in caught:
        say(in_options(str(each.message)))
    return over


def spread_from(given: Sequence[str] | None) -> dict[str, float]:
    """Declared spreads from COLUMN=X; a column whose name has an equals sign keeps all but the last of them."""
    found: dict[str, float] = {}
    for text in given or ():
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (sign and name and 0 < value < math.inf):
            raise InvalidInputError(
                f"--spread must be COLUMN=X, with a number above zero in the column's unit; got {text!r}."
            )
        if name in found:
            raise InvalidInputError(f"--spread names '{name}' twice; give each column once.")
        found[name] = value
    return found


def what_decides(released: Path | None, given: Mapping[str, Any], noise: float | None) -> Settings | Path:
    """What decides the model that is measured: options, or a released file, beside which these options are refused."""
    if released is None:
        return settings_from(**given)
    decided_by_card(**given, noise=noise)
    return released


def fitted_or_released(
    decided: Settings | Path, table: str, form: Mapping[str, Any]
) -> tuple[Trained, Settings, SavedModel | None]:
    """The model that is fitted to a table by settings; or that of a released file, fitted again, and the file."""
    from fisherleak.releasing.files.released_files import load_model, retrain
    from fisherleak.training.trained_model import train

    if not isinstance(decided, Path):
        return train(source_table(table, texts=decided.id_columns, **form), decided), decided, None
    saved = load_model(decided)
    return retrain(saved, source_table(table, texts=saved.settings.id_columns, **form)), saved.settings, saved


def decided_by_card(**given: Any) -> None:
    """Refuse options that the model card of a released model decides."""
    for name, value in given.items():
        if value is not None and value is not False and value not in ([], ()):  # 0 is a value
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(f"{option} cannot be given with --released: the model card decides it.")


def check_places(written: Mapping[str, Sequence[Path]], read: Sequence[str | Path | None]) -> None:
    """Refuse to write over what is read, or one file over another; ``written`` has the files of each option."""
    sources = {resolved(file) for name in read for file in _files_named(name)}
    places: dict[Path, str] = {}
    for option, files in written.items():
        for file in files:
            if resolved(file) in sources:
                raise InvalidInputError(
                    f"{option} would write over '{file}', which is read by this command: choose another file."
                )
            if resolved(file) in places:
                other = places[resolved(file)]
                raise InvalidInputError(f"{option} and {other} would both write '{file}': choose another file for one.")
        places |= {resolved(file): option for file in files}


def files_of(model: Path | None) -> list[Path]:
    """The files of a released model: its own, and its card."""
    from fisherleak.releasing.cards.signatures import card_path

    return [] if model is None else [model, card_path(model)]


def _files_named(name: str | Path | None) -> list[Path]:
    """The files that a name, a folder of Parquet files or a pattern stands for; none for standard input."""
    if name is None or str(name) == "-":
        return []
    with contextlib.suppress(OSError, ValueError):
        path = Path(name)
        if path.is_dir():
            return [*path.glob("*.parquet")]
        return [path] if path.exists() else [Path(file) for file in glob.glob(str(name))]  # noqa: PTH207
    return []


def source_table(path: str | None, room: Room | None = None, **form: Any) -> RawTable:
    """The table that was named, for one use, or the one that scikit-learn carries; in parts where it does not fit the room.

    ``form`` is what was said about how a CSV file is written.
    """
    from fisherleak.tables import example_table, read_table

    if path is None:
        return example_table().once()
    memory = None if room is None or room.cluster else room.memory
    said = {name: value for name, value in form.items() if value is not None}
    delimiter, encoding = said.pop("delimiter", None), said.pop("encoding", None)
    if "columns" in said:
        said["columns"] = _names_in(said["columns"])
    return read_table(path, delimiter, encoding, memory, **said).once()


def _names_in(given: str) -> tuple[str, ...]:
    """Names of columns from the command line, or from the file that it names."""
    from fisherleak.tables.read.first_line import given_names

    with contextlib.suppress(OSError, ValueError):
        if Path(given).is_file():
            given = Path(given).read_text(encoding="utf-8")
    return given_names(given)


@contextlib.contextmanager
def room_for(cluster: str | None, memory: str | None) -> Iterator[Room]:
    """Where rows may lie: in memory as long as they fit, else read part by part, here or on a cluster."""
    from fisherleak.rows import at_most, connected, memory_of
    from fisherleak.tables import Room

    size = None if memory is None else _bytes(memory)
    if cluster is None:
        room = Room.here() if size is None else Room(size)
        with at_most(room.threads):
            yield room
    else:
        with connected(cluster, size) as client:
            yield Room(0, cluster=True, there=memory_of(client))


def _bytes(text: str) -> int:
    """A size such as 2GB or 500 MiB."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B\s*", text)
    if not found or not 0 < float(found[1]) < 1e6:
        raise InvalidInputError(
            f"--memory must be a size above zero with its unit, such as 4GB or 500MB; got {text!r}."
        )
    return int(float(found[1]) * (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " "))


# printing


def printable(text: Any) -> str:
    """Text without control characters, which terminals would obey."""
    return "".join(c if c.isprintable() else "�" for c in str(text))


def emit(text: str) -> None:
    """Print to standard output, after all files are written; a reader who has left is no error."""
    try:
        print(text, flush=True)
    except OSError as error:
        # later flushes, at exit too, must not meet the broken pipe, or the full disk, again
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UnprintedError(error.strerror or str(error)) from None


def emit_json(value: Any) -> None:
    emit(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=True))


@contextlib.contextmanager
def quietly(quiet: bool, as_json: bool) -> Iterator[None]:
    """No bars where nobody wants them."""
    with hidden(quiet or as_json, in_options), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def command_line(context: typer.Context) -> str:
    """The command as it was typed, for the record."""
    given: Sequence[str] = context.obj if isinstance(context.obj, list) else []
    return printable(shlex.join(["fisherleak", *given]))


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of the GNU C library."""
SMALL_FILE = 2**26
"""Bytes of a table up to which memory is kept: it may have many columns, and has not many rows."""


def keep_memory(table: str | None) -> None:
    """Have the C library keep what large arrays leave for the next ones, where the table is small.

    With thousands of columns, arrays of 100 MB come and go by the hundreds. A third of an audit went into fetching their pages.
    """
    try:
        large = table is not None and Path(table).stat().st_size > SMALL_FILE
    except (OSError, ValueError):  # whoever reads it says why it cannot be read
        return
    if sys.platform != "linux" or large:
        return
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # of another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


# refusals


def interruptible(command: Callable[..., int]) -> Callable[..., int]:
    """The command, with an interrupt as an ordinary exception: the parser would print a line of its own."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        try:
            return command(*args, **kwargs)
        except (KeyboardInterrupt, EOFError):
            raise InterruptedByUserError from None

    return wrapped


def status_of(run: Callable[[], Any], debug: bool = False) -> int:
    """Run, turn whatever goes wrong into one sentence on standard error, and give back the exit status.

    With ``debug`` the traceback stands above the sentence.
    """
    if sys.stderr is None:  # closed by whoever started this
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process runs
    if sys.stdout is None:
        return say(CLOSED)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        with _terminated_as_interrupted(), _traced(debug):
            result = run()
        if result == PARSER_INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except (InterruptedByUserError, KeyboardInterrupt, typer.Abort):
        return say(INTERRUPTED)
    except BrokenPipeError:
        return 0
    except FisherleakError as error:
        return say(in_options(str(error)))
    except MemoryError:
        return say("there is not enough memory for this table: leave columns out with --drop, or take fewer rows.")
    except UnprintedError as error:
        return say(UNPRINTED.format(error))
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        return say(f"the system refused{where}: {error.strerror or error}; a file is written whole or not at all.")
    except Exception as error:
        if hasattr(error, "format_message"):  # bad usage, as the parser words it
            said = str(error.format_message())
            if said.startswith("Got unexpected extra argument"):
                said = said if len(said) <= 120 else f"{said[:117]}…)"
                said += ": one TABLE is read. Put a pattern of files in quotes, or name their folder."
            return say(said)
        text = f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__
        return say(f"this should not happen ({text}): please report it with the command and the version.")


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A request to end is an interrupt, so that temporary files are cleared away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _traced(debug: bool) -> Iterator[None]:
    """Shows where an exception comes from, if that is wanted, and lets it pass."""
    try:
        yield
    except Exception as error:
        if debug and not isinstance(error, (typer.Exit, BrokenPipeError)):
            lines = "".join(traceback.format_exception(error)).splitlines()
            with contextlib.suppress(OSError, ValueError):
                print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)
        raise


def say(sentence: str, status: int = BAD) -> int:
    """One sentence on standard error; gives back the exit status."""
    line = printable(" ".join(sentence.split()))
    if len(line) > LONGEST:  # a name given by the user may have any length
        line = f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    with contextlib.suppress(OSError, ValueError):
        print(f"fisherleak: {line}", file=sys.stderr, flush=True)
    return status
