"""``anarchon next``: the next slots of a schedule, with the clock changes round them."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ._cli_read import joined, read_moment, read_schedule
from ._cli_slots import Calendar, wall_time
from ._cli_source import APP, Refused, with_source
from ._cli_tables import Sheet
from ._durations import duration_text, shown
from ._named import NamedTuple
from ._texts import clean, counted, said
from ._tzdata import tzdata_version
from ._values import instant
from .errors import AnarchonError, ConfigurationError, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ._cli_slots import Slot
    from ._cli_source import Source
    from ._schedules_wall import Shift

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_COLUMNS = ("#", "local time", "UTC", "since previous", "clock")
_MOST_CHANGES = 2  # more of them in a row are counted
_MOST_TEXT = 10_000  # characters of stdin; no schedule is that long


@click.command("next", short_help="show the next slots of a schedule, or of a job")
@click.argument("schedule", nargs=-1, required=True)
@click.option(
    *("--timezone", "--tz"),
    metavar="ZONE",
    help="The zone, such as Europe/Athens (default: UTC, or the job's).",
)
@click.option(
    *("-n", "--count"),
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How many slots to show.",
)
@click.option(
    "--after",
    metavar="ISO",
    help="Show what comes after this date or time, such as 2026-12-01T09:00; it is read in"
    " --timezone unless it has an offset (default: now).",
)
@click.option("--latest", is_flag=True, help="Also show the latest slot up to that time.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_source
def next_slots(
    source: Source,
    *,
    schedule: tuple[str, ...],
    timezone: str | None,
    count: int,
    after: str | None,
    latest: bool,
    as_json: bool,
) -> None:
    """Show the next slots of SCHEDULE, and where clocks change between them.

    SCHEDULE is a cron expression in quotes ("0 8 * * 1-5"), an interval (90m), the ISO time
    of a one-off (2026-12-01T09:00), or RFC 5545 text with a DTSTART. "-" reads it from stdin.

    With --app it is the name of a job. With ANARCHON_APP it may be either.
    """
    try:
        asked = _asked(source, schedule, timezone)
    except AnarchonError as error:
        raise Refused(_in_options(error)) from error
    moment = datetime.now(UTC) if after is None else _moment(after, asked.calendar.timezone)
    try:
        found = Found(asked, moment, count, with_latest=latest)
    except Exception as error:
        if asked.job is None:
            raise
        # Somebody's own schedule, which may do anything.
        text = f"job {asked.job!r}: its schedule can't be computed: {clean(said(error))}"
        raise Refused(" ".join(text.split())) from error
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        found.show()


class Asked(NamedTuple):
    """Whose slots are asked for: of a schedule in a text, or of a job."""

    calendar: Calendar
    text: str
    job: str | None = None


def _asked(source: Source, words: Sequence[str], timezone: str | None) -> Asked:
    if source.is_typed and source.names_app:
        return _of_job(source, " ".join(words), timezone)
    text = _from_stdin() if words == ("-",) else ""
    try:
        text = text or joined(words)
        return Asked(Calendar(read_schedule(text, timezone), timezone, text), text)
    except ConfigurationError as error:
        name = " ".join(words)
        if source.names_app:
            try:
                return _of_job(source, name, timezone)
            except JobNotFound as unknown:
                raise JobNotFound(f"{unknown}; and it is no schedule: {error}") from error
        if name.isidentifier():
            raise ConfigurationError(
                f"{error}; if it is a job, give --app module:scheduler (or set {APP})"
            ) from error
        raise


def _of_job(source: Source, name: str, timezone: str | None) -> Asked:
    scheduler = source.app()
    scheduler.next_slots(name, 1)  # raises what there is to say of the name, or of its schedule
    job = scheduler._registry.get(name)  # noqa: SLF001 - of this package
    return Asked(Calendar(job.schedule, None, shown_in=timezone), shown(job.schedule), name)


def _in_options(error: AnarchonError) -> str:
    """Return a message with the option where it names the argument of a call."""
    return re.sub(r"\btimezone=(?!\w)", "--timezone", str(error))


def _moment(text: str, timezone: str | None) -> datetime:
    try:
        return read_moment(text, timezone)
    except ConfigurationError as error:
        raise Refused(str(error)) from error
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--after'") from error


def _from_stdin() -> str:
    try:
        text = sys.stdin.read(_MOST_TEXT).strip() if sys.stdin else ""
    except UnicodeDecodeError as error:
        raise Refused("what stdin brings is no text; give a schedule in ASCII") from error
    if not text:
        raise Refused("stdin is empty; give the schedule there, or in place of the -")
    return text


class Found:
    """What was asked for, computed, in two forms."""

    def __init__(self, asked: Asked, after: datetime, count: int, *, with_latest: bool) -> None:
        calendar, self._text, self._job = asked
        self._calendar = calendar
        self._after = after
        self._with_latest = with_latest
        self._latest = calendar.latest(after) if with_latest else None
        self._slots = calendar.after(after, count)
        self._ended = len(self._slots) < count
        shown_slots = ([self._latest] if self._latest else []) + self._slots
        self._pairs = list(zip([None, *shown_slots], shown_slots, strict=False))
        finest_ms = min((_grain_ms(slot.slot_ms) for slot in shown_slots), default=60_000)
        self._precision = {60_000: "minutes", 1000: "seconds", 1: "milliseconds"}[finest_ms]

    # --- JSON ---

    def to_dict(self) -> dict[str, Any]:
        """Return everything in a form for `json`."""
        calendar = self._calendar
        latest = {"latest": self._latest and self._slot_dict(self._latest)}
        return {
            **({"job": self._job} if self._job else {}),
            "schedule": self._text,
            "description": self._description(),
            "timezone": calendar.timezone,
            "tzdata": tzdata_version(),
            "after": _json_utc(self._after),
            **(latest if self._with_latest else {}),
            "slots": [self._slot_dict(slot) for slot in self._slots],
            "clock_changes": [
                self._shift_dict(shift)
                for earlier, later in self._pairs
                if earlier
                for shift in calendar.shifts(earlier, later)
            ],
            "ended": self._ended,
        }

    def _slot_dict(self, slot: Slot) -> dict[str, Any]:
        left_out = {"left_out": wall_time(slot.left_out[0]).isoformat()} if slot.left_out else {}
        return {
            "slot": slot.slot_ms,
            "utc": _json_utc(instant(slot.slot_ms)),
            "local": self._calendar.local(slot.slot_ms).isoformat(timespec="milliseconds"),
            "marks": [slot.mark] if slot.mark else [],
            **left_out,
        }

    def _shift_dict(self, shift: Shift) -> dict[str, Any]:
        return {
            "at": shift.at * 1000,
            "utc": _json_utc(instant(shift.at * 1000)),
            "from": wall_time(shift.at + shift.old).isoformat(),
            "to": wall_time(shift.at + shift.new).isoformat(),
            "name": self._calendar.name_after(shift),
        }

    # --- text ---

    def show(self) -> None:
        """Write a table to stdout."""
        sheet = Sheet(sys.stdout)
        name = f"{self._job}: " if self._job else ""
        sheet.heading(f"{name}{self._description() or self._text}")
        zone = f"zone {self._calendar.timezone}, tzdata {tzdata_version()}"
        sheet.line(f"{zone}, after {_utc(self._after, 'seconds')}")
        sheet.line("")
        if self._with_latest and not self._latest:
            sheet.line(f"No slot up to {_utc(self._after, 'seconds')}.")
        rows = list(self._rows(sheet.arrow))
        if rows:
            sheet.table(_COLUMNS, rows)
        if self._ended:
            sheet.line("No more slots." if self._slots else "No slots after that.")

    def _description(self) -> str | None:
        describe: Callable[[], str] | None = getattr(self._calendar.schedule, "describe", None)
        try:
            return None if describe is None else describe()
        except ImportError:  # click alone is here, from another package; slots are what counts
            return None

    def _rows(self, arrow: str) -> Iterator[tuple[str, ...] | str]:
        number = 0 if self._latest else 1
        for earlier, later in self._pairs:
            changes = self._calendar.shifts(earlier, later) if earlier else []
            yield from self._change_texts(changes, arrow)
            local = self._calendar.local(later.slot_ms)
            yield (
                str(number) if number else "latest",
                f"{_WEEKDAYS[local.weekday()]} {_spaced(local.isoformat(' ', self._precision))}",
                _utc(instant(later.slot_ms), self._precision),
                self._distance(earlier, later),
                self._mark_text(later, local),
            )
            number += 1

    def _distance(self, earlier: Slot | None, later: Slot) -> str:
        if earlier and earlier is not self._latest:
            return f"+{duration_text(later.slot_ms - earlier.slot_ms)}"
        ms = round((instant(later.slot_ms) - self._after).total_seconds() * 1000)
        text = duration_text(abs(ms) if abs(ms) < 1000 else abs(ms) // 1000 * 1000)
        return f"{text} ago" if later is self._latest else f"in {text}"

    def _mark_text(self, slot: Slot, local: datetime) -> str:
        if slot.mark == "gap":
            first = _clock(wall_time(slot.left_out[0]), local)
            others = " and later" if len(slot.left_out) > 1 else ""
            return f"stands for {first}{others}"
        return (slot.mark or "").replace("-", " ")

    def _change_texts(self, changes: Sequence[Shift], arrow: str) -> list[str]:
        texts = [self._change_text(shift, arrow) for shift in changes[-_MOST_CHANGES:]]
        if len(changes) <= _MOST_CHANGES:
            return texts
        return [f"clocks change {counted(len(changes), 'time')}, at last: {texts[-1]}"]

    def _change_text(self, shift: Shift, arrow: str) -> str:
        before, after = wall_time(shift.at + shift.old), wall_time(shift.at + shift.new)
        way = "forward" if shift.is_gap else "back"
        distance = duration_text(abs(shift.new - shift.old) * 1000)
        name = self._calendar.name_after(shift)
        return (
            f"clocks go {way} {distance} at {before.isoformat(' ', _time_spec(before))}"
            f" {arrow} {_clock(after, before)} {name}"
        )


def _grain_ms(ms: int) -> int:
    return next(grain for grain in (60_000, 1000, 1) if ms % grain == 0)


def _time_spec(wall: datetime) -> str:
    return "seconds" if wall.second else "minutes"


def _clock(wall: datetime, beside: datetime) -> str:
    """Return a wall time, with its date only where that is another than of the one beside."""
    time = wall.time().isoformat(_time_spec(wall))
    return time if wall.date() == beside.date() else f"{wall.date()} {time}"


def _spaced(local: str) -> str:
    """Return an ISO time with a blank before its offset."""
    return f"{local[:-6]} {local[-6:]}" if local[-6] in "+-" else f"{local[:-9]} {local[-9:]}"


def _utc(moment: datetime, precision: str, separator: str = " ") -> str:
    return moment.astimezone(UTC).isoformat(separator, precision).replace("+00:00", "Z")


def _json_utc(moment: datetime) -> str:
    return _utc(moment, "milliseconds", "T")
