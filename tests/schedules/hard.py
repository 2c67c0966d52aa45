"""Definitions that once took long, or that look as if they could."""

from __future__ import annotations

from .cases import Case
from .vectors import ms

_DAY, _HOUR = (",".join(str(n) for n in range(most)) for most in (24, 60))
_POSITIONS = ",".join(str(n) for n in range(-366, 367) if n)
_ALL_WEEK = "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA,SU"
_SELDOM = "RRULE:FREQ=DAILY;INTERVAL=25;BYMONTH=9;BYMONTHDAY=21;BYDAY=WE,MO"
_DATES = ",".join(f"206205{n:02d}T193535" for n in range(1, 32))
_LONG = ",".join(str(n) for n in range(10, 60))
INSTANTS = [
    *("1900-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1981-01-01T00:00:00Z"),
    *("2026-03-29T00:59:59Z", "2026-10-25T00:59:59Z", "2099-12-31T23:59:59Z"),
    "2369-12-31T23:59:59Z",
]
_DEFINITIONS = [
    # All that these name falls into gaps, for ever or for decades.
    ("* 30 2 * 3 SUNL", "Europe/Berlin"),
    ("* 30 2 * 3 0#2", "America/New_York"),
    ("*/7 0-59 2 * 3 LSUN", "Europe/Berlin"),
    ("*/30 2 * 10 SUN#1", "Australia/Lord_Howe"),
    ("* 0 * 9 0#1", "America/Santiago"),
    ("* 1 * 3 SUNL", "Europe/London"),
    ("* * 2 L 3 *", "Antarctica/Troll"),
    ("* 30 2 * 3 SUNL *", "Europe/Athens"),
    ("* 30 3 * 3 SUNL 2000-2099", "Europe/Athens"),
    # Each second, before gaps and at the date line.
    ("* * * * * *", "Europe/Berlin"),
    ("* * 2 * * *", "Europe/Berlin"),
    ("0-59 0-59 2 * * *", "Europe/Berlin"),
    ("0-59 0-59 0-22 * * *", "Europe/Berlin"),
    ("* * * 30 12 *", "Pacific/Apia"),
    ("0-59 0-59 1-23 30 12 *", "Pacific/Apia"),
    ("* * 0-3 21 8 * 1993", "Pacific/Kwajalein"),
    # Rarities.
    ("0 0 29 2 *", "UTC"),
    ("0 0 * 2 5#5", "UTC"),
    ("59 59 23 L-28 2 *", "UTC"),
    ("0 0 L-30 * *", "UTC"),
    ("0 0 0 29 2 * 2096,2099", "UTC"),
    ("0 0 0 31 12 * 2099", "Europe/Berlin"),
    ("0 0 0 * 2 3#5 2096-2099", "UTC"),
    ("0 0 31W 2-12/2,1 *", "Asia/Tokyo"),
    ("0 0 29W 2 SUN#5", "Asia/Tokyo"),
    ("0 0 30,31 2,4 1#5", "Asia/Tokyo"),
    ("0 0 0 1 1 * 1970", "UTC"),
    # Long lists.
    (f"{_LONG} {_DAY} L,LW,1W,15W 2 5#5", "Europe/Berlin"),
    (f"59 {_LONG} 1 L,LW,1W,15W 2 5#5", "Europe/Berlin"),
    (f"{','.join(['59'] * 78)} 23 31 12 *", "Europe/Berlin"),
    (f"0 0 {','.join(f'L-{n}' for n in range(1, 31))} 2 1#5", "Europe/Berlin"),
]
_RULES = [
    ("DTSTART:20000229T023000\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "UTC"),
    ("DTSTART:19700101T000000\nRRULE:FREQ=YEARLY;BYDAY=53MO", "UTC"),
    ("DTSTART:19700101T000000\nRRULE:FREQ=DAILY;INTERVAL=250;BYMONTH=2;BYMONTHDAY=29", "UTC"),
    # Many periods, of which few have their turn, and those seldom in August.
    (
        "DTSTART:20040830T160010\nRRULE:FREQ=WEEKLY;INTERVAL=13;BYMONTH=8;BYHOUR=16,18;BYSETPOS=-2",
        "Africa/Abidjan",
    ),
    # As many positions as there can be, in each week.
    (
        f"DTSTART:20200101T000000\n{_ALL_WEEK};BYHOUR={_DAY};BYMINUTE={_HOUR};BYSETPOS={_POSITIONS}",
        "Europe/Berlin",
    ),
    # One that comes in centuries, after many dates that are left out.
    (
        f"DTSTART:20620414T193535\n{_SELDOM}\nRDATE:{_DATES}\nEXDATE:{_DATES}",
        "Pacific/Fakaofo",
    ),
    # One that never comes, beside a date that does.
    (
        "DTSTART:20060101T035000\nRRULE:FREQ=MONTHLY;BYMINUTE=50;BYSETPOS=2\nRDATE:20260101T035000",
        "Europe/Athens",
    ),
    ("DTSTART:19700329T023000\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU", "Europe/Berlin"),
    ("DTSTART:20300101T000000\nRRULE:FREQ=HOURLY;INTERVAL=23;BYHOUR=2;BYDAY=SU", "Europe/Berlin"),
]
HARD = [
    Case(kind, text, zone, ms(t))
    for kind, definitions in (("cron", _DEFINITIONS), ("rrule", _RULES))
    for text, zone in definitions
    for t in INSTANTS
]
