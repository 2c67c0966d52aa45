"""What happened, in few words: the log of a simulation, and the part of it that a violation needs.

A failing seed is simulated once more with a log. Of that, the last lines count that speak of
the run concerned, of what went wrong around it, and of the lives of instances.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from anarchon._messages import JobSpec
from anarchon._values import Lease, RunKey, SkipWish, Terms, Wish

from .scenario import Scenario
from .world import EPOCH, Violation

if TYPE_CHECKING:
    from .shape import Shape

LAST = 40  # lines of a short trace
KEY = re.compile(r"RunKey\(job='([^']*)', slot_ms=(-?\d+), manual='([^']*)'\)")
SLOT = re.compile(r"\b(\w+)@(\d+)\b")
LIVES = {"begins", "dies", "wakes", "fault", "healing", "gets", "the store forgets of"}
UNANSWERED = "no answer to"
QUIET = {"takes"}  # inputs and wake-ups: only in a whole trace


def brief(thing: object) -> str:
    """Return a message as text that fits a line: slots in seconds since the start."""
    text = repr(thing)
    if isinstance(thing, str):
        text = thing
    elif isinstance(thing, RunKey):
        text = f"{thing.job}@{thing.slot_ms / 1000 - EPOCH:g}{thing.manual and '/' + thing.manual}"
    elif isinstance(thing, Lease):
        text = f"{brief(thing.key)}#{thing.attempt}"
    elif isinstance(thing, Wish):
        seen = f" beat {thing.beat}" if thing.wants > 1 else ""
        text = f"{brief(thing.key)}#{thing.wants}{seen}"
    elif isinstance(thing, SkipWish):
        text = brief(thing.key)
    elif isinstance(thing, Terms | JobSpec):
        text = type(thing).__name__
    elif hasattr(thing, "_asdict"):
        said = [f"{name}={brief(one)}" for name, one in thing._asdict().items() if _tells(one)]
        text = f"{type(thing).__name__}({', '.join(said)})"
    elif isinstance(thing, tuple | list):
        text = f"[{', '.join(map(brief, thing))}]"
    return text


def _tells(value: object) -> bool:
    return value not in (None, "", ()) and not isinstance(value, datetime)


def line(now: float, words: tuple[object, ...]) -> str:
    """Return one line of a log."""
    return f"{now:9.4f} " + " ".join(map(brief, words))


def _names(text: str) -> list[str]:
    """Return the runs that a violation's text names, as the log writes them."""
    keys = [RunKey(job, int(slot), manual) for job, slot, manual in KEY.findall(text)]
    keys += [RunKey(job, int(slot)) for job, slot in SLOT.findall(text)]
    return [brief(key) for key in keys]


def short_trace(seed: int, shape: Shape) -> list[str]:
    """Simulate once more; return the last lines that speak of what a violation is about."""
    log: list[tuple[float, tuple[object, ...]]] = []
    scenario = Scenario(seed, shape)
    scenario.referee.log = lambda now, words: log.append((now, words))
    text = ""
    try:
        scenario.run()
    except Violation as violation:
        text = str(violation)
    names, insts = _names(text), set(re.findall(r"\bi\d+\b", text))
    kept = [(now, words) for now, words in log if _concerns(words, names, insts)]
    return [*_folded(kept)[-LAST:], text]


def _concerns(words: tuple[object, ...], names: list[str], insts: set[str]) -> bool:
    """Whether a line speaks of these runs, or of what they depend on."""
    said = [str(word) for word in words[:2]]
    if not LIVES.isdisjoint(said):
        return True
    if not QUIET.isdisjoint(said):
        return False
    if not names or said[1:] == [UNANSWERED]:
        return said[0] in insts
    whole = line(0.0, words)
    return any(re.search(re.escape(name) + r"(?![\d.])", whole) for name in names)


def _folded(log: list[tuple[float, tuple[object, ...]]]) -> list[str]:
    """Return lines, with what is said again and again of one instance said once."""
    lines: list[str] = []
    since: dict[str, int] = {}  # of each text: where it stands, unless something else was said
    for now, words in log:
        text = line(now, words)[10:]
        if text in since:
            lines[since[text]] = f"{lines[since[text]].split(' ... ')[0]} ... {now:.4f}"
            continue
        if {"->", UNANSWERED}.isdisjoint(str(word) for word in words[:2]):
            since.clear()
        since[text] = len(lines)
        lines.append(line(now, words))
    return lines
