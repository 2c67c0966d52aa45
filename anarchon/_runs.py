"""The public record of a run.

It has a module of its own because `dataclasses` takes as long to load as half of this
package: whoever only imports and defines never needs a record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ._values import BACKFILLED, TRIGGERED, moment

if TYPE_CHECKING:
    from ._values import Reason, Status


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one attempt of a run, as history and events show it.

    ``slot`` is milliseconds since 1970 UTC and the same on every instance and attempt;
    the three datetimes are aware, in UTC; ``duration_ms`` is monotonic time.
    """

    run_id: str
    job: str
    slot: int
    scheduled_at: datetime
    attempt: int
    status: Status
    detail: str | None = None
    reason: Reason = "scheduled"
    manual: bool = False
    instance_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    error: str | None = None
    traceback: str | None = None

    def __str__(self) -> str:
        """Return one short line: the run, and how this attempt went."""
        detail = f" ({self.detail})" if self.detail else ""
        took = "" if self.duration_ms is None else f", {self.duration_ms} ms"
        where = "" if self.instance_id is None else f", on {self.instance_id}"
        told = f"{self.status}{detail}, attempt {self.attempt}{took}{where}"
        return f"{self.job} @ {moment(self.scheduled_at)}: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that is ready for JSON; datetimes as ISO text."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }


def called_for(run: Run) -> str:
    """Return how a run was asked for, in words; nothing for one that its slot was due for."""
    if not run.manual:
        return ""
    if run.run_id.startswith(TRIGGERED):
        return "triggered"
    return "backfilled" if run.run_id.startswith(BACKFILLED) else "run by hand"
