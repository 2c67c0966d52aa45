"""Rules that a store's own queries guard as well: each holds by itself."""

from __future__ import annotations

import pytest

from anarchon._values import RunKey
from anarchon.backends._rules import Moment, RunState
from anarchon.backends._rules_end import may_trim

DAY_MS = 24 * 3_600_000
NOW = Moment(1_000 * DAY_MS, 5_000)


def run(state="closed", *, slot_ms=1, manual="", end_ms=0, wall_end_ms=0):
    key = RunKey("job", slot_ms, manual)
    return RunState(key, state, 1, end_ms=end_ms, wall_end_ms=wall_end_ms, lease_ms=1000)


@pytest.mark.parametrize(
    ("kept", "may"),
    [
        (run(), True),
        (run(manual="token"), True),
        (run(slot_ms=NOW.wall_ms), True),
        (run(slot_ms=NOW.wall_ms + 1), False),
        (run("running"), False),  # however dead: a backup or its owner will decide it
        (run("waiting"), False),
        (run("running", manual="token"), True),
        (run("running", manual="token", end_ms=5_001), False),
        (run("running", manual="token", wall_end_ms=NOW.wall_ms - 3_600_000), False),
        (run("running", manual="token", wall_end_ms=NOW.wall_ms - 3_600_001), True),
    ],
)
def test_what_may_leave_history(kept, may):
    assert may_trim(kept, NOW) is may
