"""What of a seed is simulated: all of it, or the part that a shrunk case needs.

Every part of a simulation draws from randomness of its own, so that what is left out changes
nothing else but by what it does.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_INSTANCES = 4  # of a fleet, unless a sweep allows for more


class Shape(NamedTuple):
    """What is cut off a seed; None: nothing.

    `instances` is the upper bound of the fleet's size that the seed draws, `kinds` the faults it
    draws from. Then come the cuts: only the first `hosts`, the first `jobs`, the faults of these
    numbers, and noise for so many `seconds`.
    """

    instances: int = MOST_INSTANCES
    kinds: tuple[str, ...] | None = None
    hosts: int | None = None
    jobs: int | None = None
    faults: tuple[int, ...] | None = None
    seconds: float | None = None

    def command(self, seed: int) -> str:
        """Return the command line that simulates this again."""
        words = [f"python -m tests.sim --seed {seed}"]
        if self.instances != MOST_INSTANCES:
            words.append(f"--instances {self.instances}")
        if self.kinds is not None:
            words.append(f"--kinds {','.join(self.kinds)}")
        if self.hosts is not None:
            words.append(f"--only-hosts {self.hosts}")
        if self.jobs is not None:
            words.append(f"--only-jobs {self.jobs}")
        if self.faults is not None:
            words.append(f"--only-faults {','.join(map(str, self.faults)) or 'none'}")
        if self.seconds is not None:
            words.append(f"--seconds {self.seconds:g}")
        return " ".join(words)


WHOLE = Shape()
