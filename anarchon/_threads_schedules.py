"""Schedules of others, asked on a thread of their own: a slow one holds up only itself.

Our own schedules answer within microseconds and are asked where the answer is needed. What
a user wrote may ask a database or hang; the scheduler thread, which owns every deadline,
waits for it for a moment and then goes on without an answer, as if it had raised.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ._durations import shown
from ._one_process import OneProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._messages import JobSpec, SlotSource

ANSWER_WITHIN = 1.0
"""Seconds that a schedule has; one that needs more is suspended."""

Answer: TypeAlias = "int | BaseException | None"


class Question(NamedTuple):
    """What to call, and where the answer goes."""

    ask: Callable[[], int | None]
    answer: SimpleQueue[Answer]


class AskingThread(Thread):
    """A thread on which schedules are asked."""

    def __init__(self, askers: Askers, questions: SimpleQueue[Question | None]) -> None:
        super().__init__(target=_answer, args=(questions,), name="anarchon-schedules", daemon=True)
        self.askers = askers


class Askers:
    """The thread that asks, and a new one when it is stuck. Used on the scheduler thread.

    Only `timed` and `is_current` may be called from other threads.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._questions: SimpleQueue[Question | None] = SimpleQueue()

    def timed(self, spec: JobSpec) -> JobSpec:
        """Return a job whose schedule answers in time or fails."""
        if not getattr(spec.schedule, "asks_others", False):
            return spec
        return spec._replace(schedule=Timed(spec.schedule, self))

    def is_current(self) -> bool:
        """Say whether the caller is a schedule that is being asked here; from any thread."""
        thread = current_thread()
        return isinstance(thread, AskingThread) and thread.askers is self

    def ask(self, ask: Callable[[], int | None]) -> SimpleQueue[Answer]:
        """Ask, and return where the answer comes."""
        if self._thread is None:
            thread = AskingThread(self, self._questions)
            thread.start()
            self._thread = thread
        question = Question(ask, SimpleQueue())
        self._questions.put(question)
        return question.answer

    def wait(self, answer: SimpleQueue[Answer]) -> Answer:
        """Return the answer. Raises `Empty`, and leaves the thread, when there is none in time."""
        try:
            return answer.get(timeout=ANSWER_WITHIN)
        except Empty:
            self.close()
            raise

    def close(self) -> Iterable[Thread]:
        """Let the thread end when it has answered; return it if there is one."""
        self._questions.put(None)
        thread, self._thread, self._questions = self._thread, None, SimpleQueue()
        return () if thread is None else (thread,)


class Timed:
    """A schedule that is asked by `Askers`. Equal to others of the same schedule."""

    def __init__(self, source: SlotSource, askers: Askers) -> None:
        self.source = source
        self._askers = askers
        self._late: SimpleQueue[Answer] | None = None

    def next_after_ms(self, t_ms: int) -> int | None:
        """Return the least slot greater than `t_ms`.

        Raises:
            TimeoutError: The schedule didn't answer in time, or hasn't yet.
        """
        return self._asked(lambda: self.source.next_after_ms(t_ms))

    def latest_ms(self, t_ms: int) -> int | None:
        """Return the greatest slot at or before `t_ms`.

        Raises:
            TimeoutError: The schedule didn't answer in time, or hasn't yet.
        """
        return self._asked(lambda: self.source.latest_ms(t_ms))

    def _asked(self, ask: Callable[[], int | None]) -> int | None:
        if self._late is not None and self._late.empty():
            raise TimeoutError(f"{shown(self.source)} still hasn't answered")
        self._late = self._askers.ask(ask)
        try:
            answer = self._askers.wait(self._late)
        except Empty:
            raise TimeoutError(
                f"{shown(self.source)} took longer than {ANSWER_WITHIN:g} s; compute slots"
                " without waiting for anything"
            ) from None
        self._late = None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timed) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)


def untimed(spec: JobSpec) -> JobSpec:
    """Return a job with its schedule itself, for a thread that may wait for it."""
    timed = spec.schedule
    return spec._replace(schedule=timed.source) if isinstance(timed, Timed) else spec


def _answer(questions: SimpleQueue[Question | None]) -> None:
    while (question := questions.get()) is not None:
        try:
            with OneProcess():
                answer: Answer = question.ask()
        except BaseException as error:
            answer = error
        question.answer.put(answer)
