"""Schedules of others, asked on a thread of their own: a slow one holds up only itself.

Our own schedules answer within microseconds and are asked where the answer is needed. What
a user wrote may ask a database or hang. The scheduler thread, which owns every deadline,
waits a moment for it, and then goes on; the answer comes to its inbox as a `Later`.
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Literal, TypeAlias
from weakref import WeakValueDictionary

from ._messages import Later, NotYet
from ._one_process import OneProcess
from ._trays import Tray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._clock import Clock
    from ._messages import JobSpec, SlotSource

MOMENT = 0.01
"""So many seconds the scheduler thread waits: enough for whoever only computes.

It doesn't wait for a schedule whose last answer was late.
"""

Answer: TypeAlias = "int | BaseException | None"
Method: TypeAlias = Literal["next_after_ms", "latest_ms"]


class Question:
    """What to call, where the answer goes, and whether somebody still waits for it there."""

    __slots__ = ("answer", "is_late", "method", "t_ms", "timed")

    def __init__(self, timed: Timed, method: Method, t_ms: int) -> None:
        self.timed = timed
        self.method: Method = method
        self.t_ms = t_ms
        self.answer: SimpleQueue[Answer] = SimpleQueue()
        self.is_late = False


class AskingThread(Thread):
    """A thread on which schedules are asked."""

    def __init__(self, askers: Askers, questions: Tray[Question | None]) -> None:
        super().__init__(
            target=askers.serve, args=(questions,), name="anarchon-schedules", daemon=True
        )
        self.askers = askers


class Askers:
    """The thread that asks, and a new one whenever it is busy for more than a moment.

    `timed` belongs to who adds jobs, `is_current` to everybody, `serve` to its own thread,
    and the rest to the scheduler thread. `tell` is called on the asking threads.
    """

    def __init__(self, clock: Clock, tell: Callable[[Later], object]) -> None:
        self._clock = clock
        self._tell = tell
        self._timed: WeakValueDictionary[SlotSource, Timed] = WeakValueDictionary()
        self._thread: Thread | None = None
        self._questions: Tray[Question | None] = Tray()

    def timed(self, spec: JobSpec) -> JobSpec:
        """Return a job whose schedule answers within a moment or says `NotYet`."""
        if not getattr(spec.schedule, "asks_others", False):
            return spec
        # Jobs on one object share it, so that it is never asked by two threads at once.
        timed = self._timed.setdefault(spec.schedule, Timed(spec.schedule, self))
        return spec._replace(schedule=timed)

    def is_current(self) -> bool:
        """Say whether the caller is a schedule that is being asked here; from any thread."""
        thread = current_thread()
        return isinstance(thread, AskingThread) and thread.askers is self

    def ask(self, question: Question) -> Answer:
        """Return the answer. Raises `NotYet`, and leaves the thread, when it takes longer."""
        if self._thread is None:
            self._thread = self._new_thread()
        self._questions.put(question)
        try:
            return question.answer.get(timeout=0.0 if question.timed.is_slow else MOMENT)
        except Empty:
            question.is_late = question.timed.is_slow = True
        try:
            return question.answer.get_nowait()  # it came before it was late
        except Empty:
            self.close()
            raise NotYet from None

    def close(self) -> Iterable[Thread]:
        """Let the thread end when it has answered; return it if there is one."""
        self._questions.put(None)
        thread, self._thread, self._questions = self._thread, None, Tray()
        return () if thread is None else (thread,)

    def serve(self, questions: Tray[Question | None]) -> None:
        """Be an asking thread. What another thread raises in it is survived."""
        over = False
        while not over:
            with suppress(BaseException):
                over = self._serve_next(questions)

    def _serve_next(self, questions: Tray[Question | None]) -> bool:
        """Answer the first question; return whether there will be none."""
        question = questions.first(lambda bell: self._clock.get(bell, None))
        if question is None:
            return True
        answer = _answer(question)
        question.answer.put(answer)
        if question.is_late:
            question.timed.is_free_of(question)
            self._tell(Later(question.timed, question.method, question.t_ms, answer))
        questions.take()
        return False

    def _new_thread(self) -> Thread:
        thread = AskingThread(self, self._questions)
        self._clock.enrol(thread)
        try:
            thread.start()
        except BaseException:
            self._clock.dismiss(thread)
            raise
        return thread


class Timed:
    """A schedule that is asked by `Askers`, one question at a time."""

    def __init__(self, source: SlotSource, askers: Askers) -> None:
        self.source = source
        self._askers = askers
        self.is_slow = False  # its last answer came later
        self._question: Question | None = None

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`.

        Raises:
            NotYet: The answer comes later, or that to an earlier question does.
        """
        return self._asked("next_after_ms", t_ms)

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`.

        Raises:
            NotYet: The answer comes later, or that to an earlier question does.
        """
        return self._asked("latest_ms", t_ms)

    def is_free_of(self, question: Question) -> None:
        """Take in that a late question was answered; on the thread that has asked it."""
        if self._question is question:
            self._question = None

    def _asked(self, method: Method, t_ms: int) -> int | None:
        if self._question is not None:
            raise NotYet
        self._question = question = Question(self, method, t_ms)
        try:
            answer = self._askers.ask(question)
        except NotYet:
            raise
        except BaseException:
            self._question = None
            raise
        self._question, self.is_slow = None, False
        if isinstance(answer, BaseException):
            raise answer
        return answer


def untimed(spec: JobSpec) -> JobSpec:
    """Return a job with its schedule itself, for a thread that may wait for it."""
    timed = spec.schedule
    return spec._replace(schedule=timed.source) if isinstance(timed, Timed) else spec


def _answer(question: Question) -> Answer:
    ask = getattr(question.timed.source, question.method)
    try:
        with OneProcess():
            answer: int | None = ask(question.t_ms)
    except BaseException as error:
        return error
    return answer
