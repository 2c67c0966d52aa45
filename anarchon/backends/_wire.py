"""What is sent to a server, and what comes back: plain scalars in a fixed order.

A server decides by itself, in one script or one function per operation, so the rules are
written there once more, and everything else is shared: a `Call` is what goes there, a
`Reply` what returns, and both look the same for every server.

====================  ==========================================  =========================
operation             head                                        each item
====================  ==========================================  =========================
claim                 owner, instance, wins, tolerance,           job, slot, wants, reason,
                      expected, steady                            beat, unseen, fence seen,
                                                                  lease, heartbeat, budget,
                                                                  skip overlap, catch-up,
                                                                  manual
skip                  owner, instance, tolerance                  job, slot, next slot, detail
finish, release       owner, instance                             a result (below)
record_manual         owner, instance, lease                      a result
renew                 owner, lease                                job, slot, manual, attempt
look, unfinished      owner                                       job
save                  owner, value                                job, slot, manual, attempt
cancel                                                            job, slot, manual
trigger               data                                        job, slot, manual
alert                 owner                                       job, slot
present               owner, expected, state, about               (none)
instances                                                         (none)
history               limit, job, status, and the position        (none)
                      before: slot, job, manual, attempt
pause                 job, duration                               (none)
====================  ==========================================  =========================

Times are whole milliseconds, a flag is 0 or 1, what may be missing is None: `unseen` when
the asker never saw that renewal, `job` of a pause for every job, `duration` of one without
end (0 ends it), `data` of an order; `expected`, `state` and `about` of an instance that takes
back what it said, and `about` where that stays as it was. A result is: job, slot, manual,
attempt, status, reason, started, duration, detail, error, traceback, fence, counted, completes.

Answers are lists that begin with their kind:

- claim and skip: ``won, attempt, left, fence, checkpoint``; ``held, *open``;
  ``waiting, attempt``; ``closed, status, detail, by, line or None`` (the line where the
  asker's token decided); ``free``; ``missing``; ``early, wait``; ``suspect, slot, *open``.
- finish, release, record_manual: ``recorded, status, detail``; ``released``; ``lost``;
  ``undecided``.
- renew: ``ok``, ``lost``, ``done``, ``cancelled``; save, cancel and alert: ``yes``, ``no``.
- instances: token, seen, expected, state, about of each.
- history: its lines.

*open* is: state, attempt, beat, left, lease, heartbeat, owner. An open run elsewhere than
in an answer is: job, slot, manual, *open*. A *line* is the columns of `AttemptRow`, with
its key in front: job, slot, manual, attempt, status, detail, reason, instance, started,
finished, duration, error, traceback.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .._texts import clean
from .._values import (
    Claims,
    Closed,
    Early,
    Free,
    Held,
    Lease,
    Looked,
    Lost,
    Missing,
    OpenRun,
    Recorded,
    Released,
    Renewed,
    RunKey,
    Settled,
    Suspect,
    Undecided,
    Waiting,
    Won,
)
from ._rules import AttemptRow, public_run
from ._storable import is_sound, is_storable, names, owner_words, printable, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .._runs import Run
    from .._values import (
        Answer,
        Owner,
        Pace,
        Result,
        Settlement,
        SkipWish,
        Status,
        Wish,
    )
    from ._rows import Position

Scalar: TypeAlias = str | int | None
Words: TypeAlias = list[Any]  # as they come from a server; their order is in the text above


class Call(NamedTuple):
    """One operation on its way to a server.

    `present` is the head of an operation of that name, which goes along in the same round trip.
    """

    operation: str
    head: tuple[Scalar, ...]
    items: tuple[tuple[Scalar, ...], ...] = ()
    present: tuple[Scalar, ...] = ()


class Reply(NamedTuple):
    """What a server answered: its time, an answer per item, and what the operation adds.

    `open` names other open runs (claim, skip) or those that are wrong (look); `closed` the
    lines of runs that a claim closed in passing; `others` and `next_end_ms` are of a look.
    """

    store_ms: int
    answers: list[Words]
    open: list[Words] = []  # noqa: RUF012 - nobody writes to it
    closed: list[Words] = []  # noqa: RUF012 - nor to this one
    others: int = 0
    next_end_ms: int | None = None


# --- there ------------------------------------------------------------------------


def claim_call(wishes: Sequence[Wish], owner: Owner, wins: int, pace: Pace) -> Call:
    """Return a claim of the wishes that a store can hold."""
    head = (*owner_words(owner), wins, pace.tolerance_ms, pace.expected_ms, pace.steady_ms)
    items = tuple(_wish(wish, pace) for wish in wishes if is_sound(wish))
    return Call("claim", head, items, _present(owner))


def _wish(wish: Wish, pace: Pace) -> tuple[Scalar, ...]:
    unseen_ms, terms = None, wish.terms
    if wish.first_seen is not None:
        # Rounded down: a witness that is a moment short is none.
        unseen_ms = int(round((pace.sent - wish.first_seen) * 1000, 3))
    seen = (wish.beat, unseen_ms, wish.fence_seen)
    asked = (terms.lease_ms, terms.heartbeat_ms, terms.budget)
    key = (wish.key.job, wish.key.slot_ms)
    return (
        *key,
        wish.wants,
        wish.reason,
        *seen,
        *asked,
        int(terms.skip_overlap),
        terms.catch_up_ms,
        wish.key.manual,
    )


def skip_call(wishes: Sequence[SkipWish], owner: Owner, pace: Pace) -> Call:
    """Return a skip of the slots that a store can hold."""
    items = tuple(
        (wish.key.job, wish.key.slot_ms, wish.next_ms, clean(wish.detail))
        for wish in wishes
        if is_storable(wish.key)
    )
    return Call("skip", (*owner_words(owner), pace.tolerance_ms), items)


def settle_call(operation: str, results: Sequence[Result], owner: Owner, *more: Scalar) -> Call:
    """Return a finish, release or manual record of the results that a store can hold."""
    items = tuple(_result(result) for result in results if is_storable(result.key))
    return Call(operation, (*owner_words(owner), *more), items)


def _result(result: Result) -> tuple[Scalar, ...]:
    key, *rest = printable(result)
    return (*key, *rest[:-2], int(result.counted), int(result.completes))


def renew_call(leases: Sequence[Lease], owner: Owner, lease_ms: int) -> Call:
    """Return a renewal of the leases that a store can hold."""
    items = tuple((*lease.key, lease.attempt) for lease in leases if is_storable(lease.key))
    return Call("renew", (owner.token, lease_ms), items, _present(owner))


def look_call(operation: str, jobs: Iterable[str], owner: Owner) -> Call:
    """Return a look, or the question for all that is unfinished."""
    present = () if operation == "look" else _present(owner)
    return Call(operation, (owner.token,), tuple((job,) for job in names(jobs)), present)


def _present(owner: Owner) -> tuple[Scalar, ...]:
    return () if owner.presence is None else (owner.token, *owner.presence)


def history_call(
    job: str | None, limit: int, before: Position | None, status: Status | None
) -> Call:
    """Return the question for lines of history; a position is of the last line known."""
    position: tuple[Scalar, ...] = before or (None, None, None, None)
    return Call("history", (limit, job, status, *position))


# --- and back ---------------------------------------------------------------------


def claims_of(
    wishes: Sequence[Wish] | Sequence[SkipWish],
    fits: Callable[[Any], bool],
    owner: Owner,
    reply: Reply,
) -> Claims:
    """Return the answers to a claim or a skip; `fits` says which wishes were sent."""
    answers = iter(reply.answers)
    return Claims(
        tuple(
            _answer(wish.key, next(answers), owner) if fits(wish) else refusal(wish.key)
            for wish in wishes
        ),
        tuple(_open(words, owner) for words in reply.open),
        tuple(run_of(words) for words in reply.closed),
        reply.store_ms,
    )


_PLAIN: dict[str, Callable[..., Answer]] = {
    "won": Won,
    "waiting": Waiting,
    "early": Early,
    "free": Free,
    "missing": Missing,
}


def _answer(key: RunKey, words: Words, owner: Owner) -> Answer:
    kind, *rest = words
    if kind == "held":
        return Held(key, _open([*key, *rest], owner))
    if kind == "closed":
        status, detail, by, line = rest
        return Closed(key, status, detail, by, None if line is None else run_of(line))
    if kind == "suspect":
        slot_ms, *run = rest
        return Suspect(key, _open([key.job, slot_ms, "", *run], owner))
    return _PLAIN[kind](key, *rest)


def _open(words: Words, owner: Owner) -> OpenRun:
    job, slot_ms, manual, *rest = words
    run = OpenRun(RunKey(job, slot_ms, manual), *rest)
    return run._replace(mine=run.state == "running" and run.owner == owner.token)


def run_of(words: Words) -> Run:
    """Return a line of history as the public record."""
    job, slot_ms, manual, *rest = words
    return public_run(AttemptRow(RunKey(job, slot_ms, manual), *rest))


def settled_of(results: Sequence[Result], reply: Reply) -> Settled:
    """Return the answers to a finish, a release or a manual record."""
    answers = iter(reply.answers)
    return Settled(
        tuple(
            _settlement(result, next(answers) if is_storable(result.key) else ["lost"])
            for result in results
        ),
        reply.store_ms,
    )


def _settlement(result: Result, words: Words) -> Settlement:
    lease = Lease(result.key, result.attempt)
    match words[0]:
        case "recorded":
            return Recorded(lease, *words[1:])
        case "released":
            return Released(lease)
        case "lost":
            return Lost(lease)
        case "undecided":
            return Undecided(lease)
    raise ValueError(f"a store can't answer a result with {words[0]!r}")


def renewed_of(leases: Sequence[Lease], reply: Reply) -> Renewed:
    """Return which leases are lost or done, and which runs somebody asked to cancel."""
    answers: Iterator[Words] = iter(reply.answers)
    told = [next(answers)[0] if is_storable(lease.key) else "lost" for lease in leases]
    pairs = list(zip(leases, told, strict=True))
    lost, cancelled, done = (
        tuple(lease for lease, word in pairs if word == wanted)
        for wanted in ("lost", "cancelled", "done")
    )
    return Renewed(lost, cancelled, reply.store_ms, done)


def looked_of(owner: Owner, reply: Reply) -> Looked:
    """Return the runs of a look, and what it counted."""
    runs = tuple(map(_open, reply.open, repeat(owner)))
    return Looked(runs, reply.others, reply.next_end_ms, reply.store_ms)
