"""What the demo proved, from the shared history and from what the instances said."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

from ._demo_instance import LEASE_SECONDS
from ._named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ._demo_screen import Screen
    from ._demo_show import Act, Show
    from ._runs import Run

HANDOVER_SECONDS = 2.0
TAKEOVER_SECONDS = LEASE_SECONDS + 2.0


class Expectation(NamedTuple):
    """What should follow a signal, and how soon."""

    title: str
    deed: str
    first_status: frozenset[str]  # of the attempt that was broken off
    limit_seconds: float


EXPECTED = {
    signal.SIGTERM: Expectation(
        "hand-over", "was asked to stop", frozenset({"interrupted"}), HANDOVER_SECONDS
    ),
    signal.SIGKILL: Expectation("takeover", "was killed", frozenset({"lost"}), TAKEOVER_SECONDS),
}


class Verdict(NamedTuple):
    """A sentence for the summary, and whether it is what was promised."""

    text: str
    good: bool
    shown: bool = True  # False: the time was over before


def judge(show: Show, signum: signal.Signals, history: Sequence[Run]) -> Verdict:
    """Compare what was done, what was said and what is recorded."""
    expected, act = EXPECTED[signum], show.acts.get(signum)
    if signum not in show.given_up and (act is None or act.successor is None):
        before = (
            "an instance had run report for a while"
            if act is None
            else f"another instance went on, after {act.victim.name} {expected.deed}"
        )
        text = f"{expected.title}: not shown: the time was over before {before}"
        return Verdict(text, good=False, shown=False)
    if act is None:
        return Verdict(f"{expected.title}: not seen, because no instance ran report", good=False)
    return _compared(expected, act, history)


def _compared(expected: Expectation, act: Act, history: Sequence[Run]) -> Verdict:
    attempts = {run.attempt: run for run in history if run.slot == act.victim.slot}
    first = attempts.get(act.victim.number)
    follower = attempts.get(act.victim.number + 1)
    deed = f"{expected.title}: {act.victim.name} ({act.victim.instance_id}) {expected.deed}"
    if act.successor is None or first is None or follower is None:
        return Verdict(f"{deed}, and no other instance went on with the run", good=False)
    recorded = follower.started_at and follower.started_at.timestamp() - act.at_ms / 1000
    seconds = max(recorded or 0.0, (act.successor.at_ms - act.at_ms) / 1000)
    text = (
        f"{deed}; {seconds:.2f} s later {act.successor.name} ({follower.instance_id}) started "
        f"attempt {follower.attempt} of report @ {_clock(follower.scheduled_at)} "
        f"(promised: within {expected.limit_seconds:g} s), which ended as {follower.status}"
    )
    return _checked(text, expected, first, follower, seconds)


def _checked(
    text: str, expected: Expectation, first: Run, follower: Run, seconds: float
) -> Verdict:
    if first.status not in expected.first_status:
        return Verdict(
            f"{text}; but the attempt before it is recorded as {first.status}", good=False
        )
    if follower.reason != "takeover" or follower.instance_id == first.instance_id:
        return Verdict(f"{text}; but that is no {expected.title} by another instance", good=False)
    if seconds > expected.limit_seconds:
        return Verdict(f"{text}; that is too late", good=False)
    return Verdict(text, good=True)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular where it is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tally(job: str, history: Sequence[Run], names: dict[str, str]) -> str:
    """Count the slots of a job and who ran them; `names` maps instance ids to names."""
    slots: dict[int, list[Run]] = {}
    for run in history:
        slots.setdefault(run.slot, []).append(run)
    successes = Counter(run.slot for run in history if run.status == "success")
    winners = Counter(
        names.get(run.instance_id or "", "?") for run in history if run.status == "success"
    )
    shares = ", ".join(f"{name} {count}" for name, count in sorted(winners.items()))
    once = sum(count == 1 for count in successes.values())
    skipped = sum(all(run.status == "skipped" for run in runs) for runs in slots.values())
    broken_off = len(slots) - len(successes) - skipped
    parts = [
        f"{job}: {counted(len(slots), 'slot')}",
        f"{once} completed exactly once ({shares})" if once else "none completed",
        f"{len(successes) - once} completed more than once",
        f"{skipped} skipped because the run before was still going on",
        f"{broken_off} not completed when the demo ended",
    ]
    return ", ".join(part for part in parts if not part.startswith("0 "))


def show_summary(screen: Screen, show: Show, histories: dict[str, list[Run]]) -> bool:
    """Print the summary; True when everything that was promised was seen."""
    screen.heading("What happened")
    for job, history in histories.items():
        screen.item(tally(job, history, show.names))
    verdicts = {signum: judge(show, signum, histories["report"]) for signum in EXPECTED}
    for verdict in verdicts.values():
        screen.item(verdict.text)
    wrong = [EXPECTED[s].title for s, v in verdicts.items() if v.shown and not v.good]
    late = [EXPECTED[s].title for s, v in verdicts.items() if not v.shown]
    if wrong:
        screen.heading(f"Not seen as promised: {' and '.join(wrong)}.")
    if late:
        screen.heading(f"Not shown in that time: {' and '.join(late)}. Give more --minutes.")
    if not wrong and not late:
        screen.heading("Both a hand-over and a takeover were seen in time.")
    return not wrong and not late


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S")
