"""Events: what listeners are told of the store; of runs they get the `Run`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """The store can't be reached (``store_down``), or answers again (``store_up``).

    ``at`` is when that was noticed and ``since`` when the outage began, both aware and
    in UTC; ``error`` is the text of what the store call raised.
    """

    at: datetime
    error: str
    since: datetime

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON; datetimes as ISO text."""
        fields = asdict(self)
        return {**fields, "at": self.at.isoformat(), "since": self.since.isoformat()}
