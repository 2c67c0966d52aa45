"""Many at once: exactly one winner, whatever the threads do."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool
from threading import Barrier
from typing import TYPE_CHECKING

from .._values import Closed, Free, Held, Lost, Recorded, Won
from .bench import Contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from .bench import Bench

RACERS = 16
SLOTS = 20


def at_once(call: Callable[[int], object]) -> list[object]:
    """Call it with 0, 1, 2 … on as many threads, let go together."""
    gate = Barrier(RACERS)

    def run(number: int) -> object:
        gate.wait()
        return call(number)

    with ThreadPool(RACERS) as pool:
        return pool.map(run, range(RACERS), chunksize=1)


class Races(Contract):
    """What holds in any order holds at once."""

    def test_one_of_many_wins_each_slot(self, bench: Bench) -> None:
        """Everybody else is told who holds it, or how it ended."""
        for slot in range(-SLOTS, 0):
            answers = at_once(lambda n, slot=slot: bench.claim(slot, by=str(n)))  # type: ignore[misc]
            winners = [n for n, answer in enumerate(answers) if isinstance(answer, Won)]
            assert len(winners) == 1
            rest = [answer for answer in answers if not isinstance(answer, Won)]
            assert all(isinstance(answer, Held) for answer in rest)
            assert {answer.run.owner for answer in rest if isinstance(answer, Held)} == {
                str(winners[0])
            }
            assert isinstance(bench.finish(slot, by=str(winners[0])), Recorded)
        assert [row[2] for row in bench.told()] == ["success"] * SLOTS

    def test_one_of_many_takes_each_run_of_a_batch(self, bench: Bench) -> None:
        """No run is won twice, none is left, and nobody wins more than asked for."""
        wishes = [bench.wish(0, job=f"job-{number}") for number in range(RACERS)]

        def claim(number: int) -> object:
            return bench.claims(*wishes, by=str(number), wins=1).answers

        everything = at_once(claim)
        won = []
        for answers in everything:
            assert isinstance(answers, tuple)
            mine = [answer.key for answer in answers if isinstance(answer, Won)]
            assert len(mine) == 1
            assert all(isinstance(answer, Won | Held | Free) for answer in answers)
            won += mine
        assert sorted(won) == sorted(wish.key for wish in wishes)

    def test_one_of_many_records_a_skip(self, bench: Bench) -> None:
        """So its event comes once."""
        bench.claim(-10)
        answers = at_once(lambda n: bench.claim(0, by=str(n)))
        runs = [answer.run for answer in answers if isinstance(answer, Closed)]
        assert len(runs) == RACERS
        assert len([run for run in runs if run is not None]) == 1
        assert len(bench.history()) == 2

    def test_one_of_many_records_a_missed_slot(self, bench: Bench) -> None:
        """So its event comes once."""
        answers = at_once(lambda n: bench.skip(-10, -1, by=str(n)))
        runs = [answer.run for answer in answers if isinstance(answer, Closed)]
        assert len([run for run in runs if run is not None]) == 1

    def test_only_the_owner_finishes(self, bench: Bench) -> None:
        """However many say that they did."""
        bench.claim(0, by="7")
        answers = at_once(lambda n: bench.finish(0, by=str(n), detail=str(n)))
        assert [n for n, answer in enumerate(answers) if not isinstance(answer, Lost)] == [7]
        assert bench.told() == [(0, 1, "success", "7")]

    def test_fences_differ(self, bench: Bench) -> None:
        """Also of runs that start within one millisecond."""
        answers = at_once(lambda n: bench.claim(-n / 1000, by=str(n), skip_overlap=False))
        fences = [answer.fence for answer in answers if isinstance(answer, Won)]
        assert fences
        assert len(set(fences)) == len(fences)
