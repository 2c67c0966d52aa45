"""For tests of services that use anarchon, and of backends that others write.

- `make_context`: a context to call a handler with; a `ManualContext`.
- `run_job`: a job's handler, run as the scheduler would, on the thread of the test.
- `manual_time`: a service's own scheduler in memory, and in a time that the test moves.
- `assert_due`, `assert_due_between`, `assert_ran_once`: assertions that say what was found.
- `ManualClock`: time that moves only when the test says so.
- `FaultyBackend`: a backend that fails at chosen calls, and counts them.
- `ClaimOnly`: a backend without leases, made of one that has them.
- `BackendContract`, `LeaseBackendContract`: what every backend must do, as pytest classes.
  Subclass one, and override `make_backend`; these two need pytest.

Fixtures for pytest are in `anarchon.contrib.pytest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._testing_claim_only import ClaimOnly
from ._testing_faulty import FaultyBackend, Hold

if TYPE_CHECKING:
    from ._testing_assertions import assert_due, assert_due_between, assert_ran_once
    from ._testing_clock import ManualClock
    from ._testing_context import ManualContext, make_context
    from ._testing_contract import BackendContract, LeaseBackendContract
    from ._testing_manual_time import manual_time
    from ._testing_run_job import run_job

__all__ = [
    "BackendContract",
    "ClaimOnly",
    "FaultyBackend",
    "Hold",
    "LeaseBackendContract",
    "ManualClock",
    "ManualContext",
    "assert_due",
    "assert_due_between",
    "assert_ran_once",
    "make_context",
    "manual_time",
    "run_job",
]

_HOMES = {
    "_testing_assertions": ("assert_due", "assert_due_between", "assert_ran_once"),
    "_testing_clock": ("ManualClock",),
    "_testing_context": ("ManualContext", "make_context"),
    "_testing_manual_time": ("manual_time",),
    "_testing_run_job": ("run_job",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"anarchon.{module}"), name)
    if name in ("BackendContract", "LeaseBackendContract"):
        return _contract(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _contract(name: str) -> Any:
    """Import the contract so that its assertions tell what they compared."""
    import sys

    if "anarchon._testing_contract" not in sys.modules:
        import pytest

        pytest.register_assert_rewrite("anarchon._testing_contract")
    from . import _testing_contract

    return getattr(_testing_contract, name)
