"""What the demo proved, from the shared history and from what the instances said."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ._demo_instance import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ._demo_screen import Screen
    from ._demo_show import Act
    from ._values import Run

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


def judge(signum: signal.Signals, act: Act | None, history: Sequence[Run]) -> Verdict:
    """Compare what was done, what was said and what is recorded."""
    expected = EXPECTED[signum]
    if act is None:
        return Verdict(f"{expected.title}: not seen, because no instance ran report in time", False)
    attempts = {run.attempt: run for run in history if run.slot == act.victim.slot}
    first = attempts.get(act.victim.number)
    follower = attempts.get(act.victim.number + 1)
    deed = f"{expected.title}: {act.victim.name} ({act.victim.instance_id}) {expected.deed}"
    if act.successor is None or first is None or follower is None:
        return Verdict(f"{deed}, and no other instance went on with the run", False)
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
        return Verdict(f"{text}; but the attempt before it is recorded as {first.status}", False)
    if follower.reason != "takeover" or follower.instance_id == first.instance_id:
        return Verdict(f"{text}; but that is no {expected.title} by another instance", False)
    if seconds > expected.limit_seconds:
        return Verdict(f"{text}; that is too late", False)
    return Verdict(text, True)


def tally(job: str, history: Sequence[Run], names: dict[str, str]) -> str:
    """Count the slots of a job and who ran them; `names` maps instance ids to names."""
    slots: dict[int, list[Run]] = {}
    for run in history:
        slots.setdefault(run.slot, []).append(run)
    successes = Counter(run.slot for run in history if run.status == "success")
    once = sum(count == 1 for count in successes.values())
    skipped = sum(all(run.status == "skipped" for run in runs) for runs in slots.values())
    winners = Counter(
        names.get(run.instance_id or "", "?") for run in history if run.status == "success"
    )
    shares = ", ".join(f"{name} {count}" for name, count in sorted(winners.items()))
    text = f"{job}: {len(slots)} slots, {once} completed exactly once ({shares or 'by nobody'})"
    return (
        f"{text}, {skipped} skipped because the run before was still going on" if skipped else text
    )


def show_summary(
    screen: Screen,
    acts: dict[signal.Signals, Act],
    histories: dict[str, list[Run]],
    names: dict[str, str],
) -> bool:
    """Print the summary; True when everything that was promised was seen."""
    screen.heading("What happened")
    for job, history in histories.items():
        screen.item(tally(job, history, names))
    verdicts = [judge(signum, acts.get(signum), histories["report"]) for signum in EXPECTED]
    for verdict in verdicts:
        screen.item(verdict.text)
    good = all(verdict.good for verdict in verdicts)
    missed = [EXPECTED[s].title for s, v in zip(EXPECTED, verdicts, strict=True) if not v.good]
    screen.heading(
        "Both a hand-over and a takeover were seen in time."
        if good
        else f"Not seen as promised: {' and '.join(missed)}."
    )
    return good


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S")
