"""Asking the store: what a call of the core is on a backend, and what counts as an answer.

A `Lane` is the body of a thread that asks one question at a time. There are two, so that
renewals and looks never wait behind a claim. A lane decides nothing: it stamps the call,
makes it, and reports an answer of the right shape or the failure.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias, cast

from ._log_lines import trouble, write
from ._measures import StoreCounts
from ._messages import (
    Alert,
    Claim,
    Finish,
    Look,
    RecordManual,
    Release,
    Renew,
    Skip,
    Unfinished,
)
from ._named import NamedTuple
from ._one_process import OneProcess
from ._trays import Tray
from ._values import (
    LATEST_MS,
    Alerts,
    Claims,
    Looked,
    Renewed,
    Settled,
)
from .errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue

    from ._clock import Basis, Clock
    from ._log_lines import Say
    from ._measures import Operation
    from ._messages import (
        StoreCall,
    )
    from ._values import (
        Owner,
        Pace,
        Presence,
    )
    from .backends.base import ClaimBackend, LeaseBackend

StoreAnswer: TypeAlias = Claims | Renewed | Looked | Settled | Alerts

_ANSWERS: dict[type[StoreCall], type[StoreAnswer]] = {
    Claim: Claims,
    Skip: Claims,
    Finish: Settled,
    Release: Settled,
    RecordManual: Settled,
    Renew: Renewed,
    Look: Looked,
    Unfinished: Looked,
    Alert: Alerts,
}
_OPERATIONS: dict[type[StoreCall], Operation] = {
    Claim: "claim",
    Skip: "skip",
    Finish: "finish",
    Release: "release",
    RecordManual: "record_manual",
    Renew: "renew",
    Look: "look",
    Unfinished: "unfinished",
    Alert: "alert",
}


class Ask(NamedTuple):
    """A call for the store, when it was due, and what it may say about clocks and this instance."""

    call: StoreCall
    due: float
    basis: Basis
    presence: Presence | None = None


class Reply(NamedTuple):
    """What came of it; `wall` and `received` are our clocks right after the call."""

    lane: Lane
    ask: Ask
    answer: StoreAnswer | BaseException
    sent: float
    received: float
    wall: float


class LaneEnded(NamedTuple):
    """A lane asks nothing more."""

    lane: Lane


class Lane:
    """One question to the store at a time. `run` is the body of the lane's thread.

    `send` and `heard` belong to the scheduler thread.
    """

    def __init__(
        self,
        backend: ClaimBackend,
        owner: Owner,
        lease_ms: int,
        clock: Clock,
        report: Callable[[Reply | LaneEnded], None],
        say: Say = write,
    ) -> None:
        self.asks: Tray[Ask | None] = Tray()
        self.asking_since: float | None = None
        self.counts = StoreCounts()
        self.leaves = False  # something was said of this instance, to be taken back at the end
        self._backend = backend
        self._owner = owner
        self._lease_ms = lease_ms
        self._clock = clock
        self._report = report
        self._say = say
        self._open: list[Ask] = []
        self._replied: Reply | None = None

    def send(self, ask: Ask) -> None:
        """Have a question asked."""
        self._open.append(ask)
        self.asks.put(ask)

    def heard(self, ask: Ask) -> bool:
        """Note that a question was answered; False when that was known already."""
        left = [other for other in self._open if other is not ask]
        known, self._open = len(left) == len(self._open), left
        return not known

    def run(self) -> None:
        """Answer every question, until None comes.

        What another thread raises in this one is survived: the question is still there.
        """
        over = False
        while not over:
            try:
                over = self._answer_next()
            except BaseException as error:
                self._say(trouble("another thread raised this in a store thread", error))
        if self.leaves:
            self._leave()
        self._report(LaneEnded(self))

    def _leave(self) -> None:
        """Take back what was said of this instance; whoever can't is shown as silent later."""
        self.asking_since = self._clock.mono()
        try:
            with OneProcess():
                self._backend.present(self._owner)
        except BaseException as error:
            self._say(trouble("a store call failed", error, logging.DEBUG))
        self.asking_since = None

    def _answer_next(self) -> bool:
        """Answer the first question; return whether there will be none."""
        ask = self.asks.first(self._wait)
        if ask is None:
            return True
        if self._replied is None or self._replied.ask is not ask:
            self._replied = self._reply(ask)
        # Interrupted right after this, it is done again: a reply may come twice.
        self._report(self._replied)
        self.asks.take()
        self._replied = None
        return False

    def _wait(self, bell: SimpleQueue[bool]) -> None:
        self._clock.get(bell, None)

    def _reply(self, ask: Ask) -> Reply:
        answer: StoreAnswer | BaseException
        operation = _OPERATIONS[type(ask.call)]
        sent = self.asking_since = self._clock.mono()
        try:
            with OneProcess():
                raw = self._ask(ask, ask.basis.pace(sent))
            answer = self._checked(ask.call, raw)
        except BaseException as error:
            self._say(trouble("a store call failed", error, logging.DEBUG))
            # Its frames hold connections that have to go, so only the text lives on.
            answer = error.with_traceback(None)
            self.counts.errors[operation] += 1
        received, wall = self._clock.mono(), self._clock.wall()
        self.counts.calls[operation] += 1
        self.asking_since = None
        return Reply(self, ask, answer, sent, received, wall)

    def _ask(self, ask: Ask, pace: Pace) -> object:  # noqa: C901 - a case for each call
        """Make the call. The core sends what needs leases only to a backend that has them."""
        backend = cast("LeaseBackend", self._backend)
        owner = self._owner
        if ask.presence is not None:
            owner, self.leaves = owner._replace(presence=ask.presence), True
        answer: object
        match ask.call:
            case Claim(wishes=wishes, wins=wins):
                answer = backend.claim(wishes, owner=owner, wins=wins, pace=pace)
            case Finish(results=results):
                answer = backend.finish(results, owner=owner)
            case Release(results=results):
                answer = backend.release(results, owner=owner)
            case Skip(wishes=slots):
                answer = backend.skip(slots, owner=owner, pace=pace)
            case Unfinished(jobs=jobs):
                answer = backend.unfinished(jobs, owner=owner)
            case Alert(keys=keys):
                answer = backend.alert(keys, owner=owner)
            case RecordManual(results=results):
                answer = backend.record_manual(results, owner=owner, lease_ms=self._lease_ms)
            case Renew(leases=leases):
                answer = backend.renew(leases, owner=owner, lease_ms=self._lease_ms)
            case Look(jobs=jobs):
                answer = backend.look(jobs, owner=owner)
        return answer

    def _checked(self, call: StoreCall, answer: object) -> StoreAnswer:
        """Refuse what isn't an answer to this call: nothing may be concluded from it."""
        asked = type(call).__name__.lower()
        if not isinstance(answer, _ANSWERS[type(call)]) or not _is_time(answer.store_ms):
            raise BackendError(f"the store answered {asked} with {type(answer).__name__}")
        told = None if isinstance(answer, Renewed | Looked) else len(answer.answers)
        if told is not None and told != _questions(call):
            raise BackendError(f"the store gave {told} answers to {asked} of {_questions(call)}")
        return answer


def _is_time(store_ms: object) -> bool:
    return isinstance(store_ms, int) and 0 <= store_ms < LATEST_MS


def _questions(call: StoreCall) -> int:
    """Return how many runs a call is about."""
    match call:
        case Claim(wishes=asked) | Skip(wishes=asked):
            return len(asked)
        case Finish(results=results) | Release(results=results) | RecordManual(results=results):
            return len(results)
        case Alert(keys=keys):
            return len(keys)
        case _:
            return 0
