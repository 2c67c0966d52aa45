"""For tests of services that use anarchon, and of backends that others write.

- `ManualClock`: time that moves only when the test says so.
- `FaultyBackend`: a backend that fails at chosen calls, and counts them.
- `ClaimOnly`: a backend without leases, made of one that has them.
- `BackendContract`, `LeaseBackendContract`: what every backend must do, as pytest classes.
  Subclass one, and override `make_backend`; these two need pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._testing_claim_only import ClaimOnly
from ._testing_faulty import FaultyBackend, Hold

if TYPE_CHECKING:
    from ._testing_clock import ManualClock
    from ._testing_contract import BackendContract, LeaseBackendContract

__all__ = [
    "BackendContract",
    "ClaimOnly",
    "FaultyBackend",
    "Hold",
    "LeaseBackendContract",
    "ManualClock",
]


def __getattr__(name: str) -> Any:
    if name == "ManualClock":
        from ._testing_clock import ManualClock

        return ManualClock
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
