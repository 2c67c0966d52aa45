"""Definitions and instants drawn at random: many shapes, odd zones, close to clock changes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cache
from random import Random
from typing import NamedTuple

from .oracle import DAY, EPOCH, FIRST, HOUR, zone_of
from .reading import ALIASES, MONTHS, NO_NAMES, WEEKDAYS
from .recurrences import recurrence

# Zones with changes of every kind, each with years in which something special came.
ZONES: dict[str, tuple[int, ...]] = {
    "UTC": (),
    "Africa/Abidjan": (1912,),
    "Africa/Cairo": (2010, 2014, 2023, 2026),
    "Africa/Casablanca": (2018, 2023, 2026, 2031),
    "Africa/El_Aaiun": (1976, 2024),
    "Africa/Juba": (2021,),
    "Africa/Khartoum": (2000, 2017),
    "Africa/Monrovia": (1972,),
    "Africa/Windhoek": (1994, 2017),
    "America/Anchorage": (1967, 1983),
    "America/Araguaina": (2012, 2013),
    "America/Argentina/San_Luis": (2008, 2009),
    "America/Asuncion": (2010, 2024),
    "America/Caracas": (2007, 2016),
    "America/Goose_Bay": (1988, 2010, 2011),
    "America/Grand_Turk": (2015, 2018),
    "America/Havana": (2024, 2026),
    "America/Metlakatla": (1983, 2015, 2018, 2019),
    "America/New_York": (1974, 2007, 2026),
    "America/Nuuk": (2023, 2024),
    "America/Port-au-Prince": (2005, 2016, 2017),
    "America/Santiago": (2015, 2016, 2022, 2026),
    "America/Sao_Paulo": (2017, 2018),
    "America/Scoresbysund": (1981, 2024),
    "America/Sitka": (1983,),
    "America/St_Johns": (1988, 2006, 2010, 2011),
    "America/Toronto": (1919, 2026),
    "America/Whitehorse": (2020,),
    "Antarctica/Casey": (2009, 2018, 2020, 2023),
    "Antarctica/Macquarie": (2010, 2011),
    "Antarctica/Troll": (2005, 2026),
    "Asia/Almaty": (2004, 2024),
    "Asia/Amman": (2012, 2022),
    "Asia/Anadyr": (2010, 2011),
    "Asia/Beirut": (2022, 2026),
    "Asia/Choibalsan": (2008, 2015),
    "Asia/Colombo": (1996, 2006),
    "Asia/Dhaka": (2009,),
    "Asia/Famagusta": (2016, 2017),
    "Asia/Gaza": (2011, 2023, 2026, 2040),
    "Asia/Hong_Kong": (1941, 1979),
    "Asia/Kathmandu": (1985, 1986),
    "Asia/Manila": (1936, 1990),
    "Asia/Novosibirsk": (1993, 2016),
    "Asia/Pyongyang": (2015, 2018),
    "Asia/Singapore": (1905, 1982),
    "Asia/Tehran": (2005, 2022),
    "Atlantic/Azores": (1992, 2026),
    "Atlantic/Stanley": (2010,),
    "Australia/Adelaide": (2008, 2026),
    "Australia/Broken_Hill": (2000,),
    "Australia/Eucla": (2006, 2009),
    "Australia/Lord_Howe": (1981, 1985, 2026),
    "Europe/Amsterdam": (1937, 1940),
    "Europe/Athens": (2026,),
    "Europe/Berlin": (1945, 2025, 2026, 2027),
    "Europe/Chisinau": (1990, 2026),
    "Europe/Dublin": (1916, 1968, 1971, 2026),
    "Europe/Istanbul": (2014, 2016),
    "Europe/Kaliningrad": (2011, 2014),
    "Europe/Lisbon": (1992, 1996),
    "Europe/London": (1968, 2026),
    "Europe/Samara": (1991, 2009, 2010),
    "Europe/Volgograd": (1988, 2018, 2020),
    "Europe/Warsaw": (1915, 1977),
    "Indian/Maldives": (1959,),
    "Pacific/Apia": (2010, 2011),
    "Pacific/Chatham": (1974, 2026),
    "Pacific/Easter": (2019, 2026),
    "Pacific/Fakaofo": (2011,),
    "Pacific/Fiji": (2019, 2021),
    "Pacific/Kiritimati": (1979, 1994),
    "Pacific/Kwajalein": (1969, 1993),
    "Pacific/Norfolk": (1974, 2015, 2019),
    "Pacific/Tongatapu": (1999, 2016),
}


class Case(NamedTuple):
    """One definition and one instant (milliseconds since 1970)."""

    kind: str
    text: str
    zone: str | None
    t_ms: int

    def __str__(self) -> str:
        return f"{self.kind} {self.text!r} in {self.zone} at {shown(self.t_ms)} ({self.t_ms})"


def shown(ms: int | None) -> str:
    if ms is None:
        return "none"
    return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


@cache
def changes_in(key: str, year: int) -> list[int]:
    """Return the instants of a year at which the offset of a zone changes."""
    zone = zone_of(key)
    first, end = ((date(y, 1, 1) - FIRST).days for y in (year, year + 1))
    found = []
    for start in range(first, end, 5):
        if zone.offset(start * DAY - 1) != zone.offset((start + 5) * DAY - 1):
            found += [t for day in range(start, start + 5) for t in zone.changes(day)]
    return found


def draw_change(rng: Random, key: str) -> int | None:
    """Return the instant of a change of the clock, if one was met."""
    years = [*ZONES.get(key, ()), rng.randint(1970, 2037), rng.randint(1970, 2037)]
    if rng.random() < 0.1:
        years = [rng.randint(1900, 2100)]
    changes = changes_in(key, rng.choice(years))
    return rng.choice(changes) if changes else None


def draw_instant(rng: Random, change: int | None) -> int:
    """Return an instant: mostly close to the change, sometimes far from any."""
    if change is None or rng.random() < 0.1:
        return rng.randint(-70 * 366 * DAY, 130 * 366 * DAY) * 1000 + rng.choice([0, 0, 1, 999])
    reach = rng.choice([0, 0, 1, 60, 2 * HOUR, 3 * HOUR, DAY, DAY, 3 * DAY, 40 * DAY])
    around = change + rng.randint(-reach, reach)
    return around * 1000 + rng.choice([0, 0, 0, -1, 1, 500])


def numbered(seed: int, number: int) -> Case:
    """Return one of the cases of a seed: the same on every machine and in every order."""
    return draw(Random(f"{seed}:{number}"))


def draw(rng: Random) -> Case:
    key = rng.choice(list(ZONES))
    change = draw_change(rng, key)
    t_ms = draw_instant(rng, change)
    kind = rng.choices(["cron", "rrule", "interval", "once"], [80, 12, 2, 6])[0]
    if kind == "interval":
        return Case(kind, interval(rng), None, t_ms)
    # Wall times on either side of the change, so that many expressions meet it.
    middle = t_ms // 1000 if change is None else change
    before, after = zone_of(key).offset(middle - 1), zone_of(key).offset(middle)
    reach = rng.choice([0, 2 * HOUR])
    aim = middle + rng.randint(min(before, after) - reach, max(before, after) + reach)
    wall = (EPOCH + timedelta(seconds=aim)).replace(tzinfo=None)
    if kind == "once":
        return Case(kind, once(rng, wall), key, t_ms)
    if kind == "rrule":
        return Case(kind, recurrence(rng, wall), key, t_ms)
    return Case(kind, cron(rng, wall), key, t_ms)


def interval(rng: Random) -> str:
    units = {"w": 3, "d": 40, "h": 50, "m": 100, "s": 300, "ms": 5000}
    chosen = sorted(rng.sample(range(6), rng.randint(1, 2)))
    named = [list(units.items())[place] for place in chosen]
    return "".join(f"{rng.randint(100 if u == 'ms' else 1, most)}{u}" for u, most in named)


def once(rng: Random, wall: datetime) -> str:
    wall = max(wall, datetime(1971, 1, 1))  # noqa: DTZ001 - a wall time
    text = wall.isoformat(rng.choice("T "))
    if rng.random() < 0.3:
        text += f".{rng.randint(0, 999):03d}"
    return text + rng.choice(["", "", "", "Z", "+02:00", "-0930"])


# --- cron ---------------------------------------------------------------------------


def cron(rng: Random, wall: datetime) -> str:
    """Return an expression that has something to do with a wall time."""
    if rng.random() < 0.03:
        return rng.choice(list(ALIASES))
    if rng.random() < 0.06:
        return rare(rng)
    fields = [
        field(rng, 0, 59, wall.minute),
        often(rng, field(rng, 0, 23, wall.hour, close=0.75), rng.choice(["0-23", "1-0"]), 0.93),
        days(rng, wall),
        often(rng, "*", field(rng, 1, 12, wall.month, MONTHS), 0.7),
        weekdays(rng, wall),
    ]
    if rng.random() < 0.5:
        fields.insert(0, often(rng, rng.choice("0*"), field(rng, 0, 59, wall.second), 0.5))
        if rng.random() < 0.3:
            fields.append(years(rng, wall))
    if rng.random() < 0.04:
        fields[0] = long_list(rng, 250 - len(" ".join(fields[1:])))
    blank = rng.choice([" ", " ", " ", "\t", "  "])
    text = blank.join(fields)
    return text if rng.random() < 0.9 else rng.choice([text.lower(), f" {text}\t"])


def rare(rng: Random) -> str:
    """Return an expression of days that come seldom, never, or next to a month's end."""
    days_and_months = ["29 2", "30 2", "30,31 feb", "31 4,6", "30W 2", "29W 2", "L-30 2", "L-29 2"]
    days_and_months += ["1W *", "1W */2", "1W,L *", "1,15W *", "31W *"]
    weekday = rng.choice(["*", "*", "*", "?", "1", "5#5", "MONL"])
    return f"{rng.randint(0, 59)} {rng.randint(0, 23)} {rng.choice(days_and_months)} {weekday}"


def often(rng: Random, usual: str, other: str, share: float) -> str:
    return usual if rng.random() < share else other


def long_list(rng: Random, length: int) -> str:
    return ",".join(str(rng.randint(0, 59)) for _ in range(max(length, 9) // 3))


def field(
    rng: Random, low: int, high: int, aim: int, names: list[str] = NO_NAMES, *, close: float = 0.5
) -> str:
    if rng.random() < 0.15:
        return "*"
    count = rng.choice([1, 1, 1, 1, 2, 3])
    return ",".join(element(rng, low, high, aim, names, close) for _ in range(count))


def element(rng: Random, low: int, high: int, aim: int, names: list[str], close: float) -> str:
    def one() -> str:
        number = aim if rng.random() < close else rng.randint(low, high)
        if names and rng.random() < 0.4:
            name = names[(number - low) % len(names)]
            return rng.choice([name, name.lower(), name.capitalize()])
        return str(number)

    step = rng.choice([1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 99])
    form = rng.randrange(8)
    if form <= 2:
        return one()
    if form == 3:
        number = one()
        return f"{number}-{number}"
    if form == 4:
        return f"{one()}-{one()}"
    if form == 5:
        return f"{one()}-{rng.randint(low, high)}/{step}"
    return f"*/{step}" if form == 6 else f"{one()}/{step}"


def days(rng: Random, wall: datetime) -> str:
    def special() -> str:
        near = rng.choice([1, 1, 31, wall.day, rng.randint(1, 31)])
        return rng.choice(["L", "LW", "l", f"L-{rng.randint(1, 30)}", f"{near}W", f"{near}W"])

    draw = rng.random()
    if draw < 0.55:
        return rng.choice(["*", "*", "?"])
    if draw < 0.75:
        return field(rng, 1, 31, wall.day)
    parts = [special() for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), element(rng, 1, 31, wall.day, NO_NAMES, 0.5))
    return ",".join(parts)


def weekdays(rng: Random, wall: datetime) -> str:
    aim = wall.isoweekday() % 7

    def special() -> str:
        day = rng.choice([aim, rng.randint(0, 7)])
        name = rng.choice([str(day), WEEKDAYS[day % 7], WEEKDAYS[day % 7].lower()])
        nth = rng.choice([(wall.day + 6) // 7, rng.randint(1, 5)])
        return rng.choice([f"{name}#{nth}", f"{name}#{nth}", f"{name}L", f"L{name}"])

    draw = rng.random()
    if draw < 0.55:
        return rng.choice(["*", "*", "?"])
    if draw < 0.75:
        return field(rng, 0, 7, aim, WEEKDAYS)
    parts = [special() for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), element(rng, 0, 7, aim, WEEKDAYS, 0.5))
    return ",".join(parts)


def years(rng: Random, wall: datetime) -> str:
    near = min(max(wall.year, 1970), 2099)
    other = rng.randint(1970, 2099)
    low, high = sorted((near, other))
    return rng.choice(
        ["*", str(near), f"{low}-{high}", f"{low}-{high}/3", f"{near},{other}", "*/4"]
    )
