"""The contract of backends, as pytest classes: one suite for every store.

Each test names one guard or effect of one operation. A subclass says how to make a
backend, and everything else follows::

    class TestMine(LeaseBackendContract):
        lease_ms = 1000  # a store with a clock of its own: tests wait for real leases

        def make_backend(self, folder):
            return MyBackend(...)  # on a store of its own, empty, not open
"""

from __future__ import annotations

from .alerts import Alarms
from .claims import Fences, FirstClaims, Skips
from .ends import Finishes, ManualRuns, Misses, Pauses
from .exact import Exact
from .history import Histories, Trims
from .leases import Cancels, Releases, Renewals, Saves
from .looks import Looks
from .orders import Backfills, Triggers
from .passing import Counts, Passing
from .presence import LeasePresents, Presents
from .races import Races
from .takeovers import Blocks, Deaths, Handovers, Takeovers
from .trims import ExactTrims
from .witness import SteadyLeases, Witnesses

__all__ = ["BackendContract", "LeaseBackendContract"]


class BackendContract(
    FirstClaims,
    Fences,
    Skips,
    Finishes,
    Misses,
    ManualRuns,
    Pauses,
    Histories,
    Trims,
    Races,
    Presents,
):
    """What every backend must do, with leases or without."""


class LeaseBackendContract(
    BackendContract,
    Takeovers,
    Deaths,
    Blocks,
    Handovers,
    Passing,
    Counts,
    Witnesses,
    SteadyLeases,
    Renewals,
    Looks,
    Releases,
    Saves,
    Cancels,
    Triggers,
    Backfills,
    LeasePresents,
    Alarms,
    Exact,
    ExactTrims,
):
    """What a backend with leases must do."""
