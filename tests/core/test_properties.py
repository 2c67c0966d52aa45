"""Whatever happens in whatever order: what the core may never do, and where it always gets to."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anarchon._messages import (
    Drained,
)
from tests.core.fleet import Play

NUMBER = st.integers(0, 60)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["wake", "wake", "lane", "lane", "lane", "keeper"]), NUMBER),
        st.tuples(st.sampled_from(["late", "lose", "lose after", "rival", "end", "probe"]), NUMBER),
        st.tuples(st.sampled_from(["run now", "sleep", "step", "job", "stop", "pause"]), NUMBER),
        st.tuples(st.just("order"), NUMBER),
    ),
    min_size=30,
    max_size=120,
)
QUICK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # the steps are printed; to shrink them takes minutes
    suppress_health_check=list(HealthCheck),
)


def take(play: Play, step: str, number: int) -> None:
    """Let one thing happen, if it can."""
    place = "keeper" if number % 3 == 0 else "lane"
    flying = play.flying
    if step == "wake":
        play.wake()
    elif step in ("lane", "keeper"):
        if step in flying:
            play.mono += number / 10_000
            play.reply(step)
    elif step == "late" and place in flying:
        play.ask(place)  # executed now, answered some time
    elif step == "lose" and place in flying:
        play.lose(place)
    elif step == "lose after" and place in flying:
        play.ask(place)
        play.lose(place)
    elif step == "rival":
        play.rival(number)
    elif step == "end":
        play.end(number)
    elif step == "probe":
        play.probe(number / 30)
    else:
        happen(play, step, number)


def happen(play: Play, step: str, number: int) -> None:
    """Let one of the rarer things happen."""
    if step == "run now":
        play.run_now(number)
    elif step == "sleep":
        play.mono += number / 7
        play.feed_tick()
    elif step == "step" and number % 4 == 0:
        play.shift_ms += [-3_600_000, -900, -10, 10, 900, 3_600_000][number % 6]
        play.feed_tick()
    elif step == "job" and number % 3 == 0:
        play.change_job(number // 3)
    elif step == "stop" and number > 57:
        play.stop(number - 57)
    elif step == "order":
        play.order(number)
    elif step == "pause":
        play.store.pause(None, duration_ms=number * 10)


@pytest.mark.parametrize(("leases", "steady"), [(True, True), (True, False), (False, True)])
def test_nothing_is_due_before_a_wake_up_and_what_must_hold_holds(leases, steady):
    @QUICK
    @given(seed=st.integers(0, 99), steps=STEPS)
    def play(seed: int, steps: list[tuple[str, int]]) -> None:
        scene = Play(seed, leases=leases, steady=steady)
        for step, number in steps:
            take(scene, step, number)
        calm_down(scene)

    play()


def calm_down(play: Play) -> None:
    """Let every call be answered and every handler end: a stop gets to its end."""
    for _ in range(400):
        if play.stopped:
            break
        if play.flying:
            play.reply(next(iter(play.flying)))
        elif play.live:
            play.end(2)
        elif not play.stopping:
            play.stop(30)
        else:
            play.wake()
    assert play.stopped
    assert play.returns == play.manual
    assert Drained() not in play.feed_tick()
    assert play.core.next_wakeup(play.now) is None
