"""The states of a scheduler and what moves it from one to the next, as a table.

``_lifecycle.py`` applies it; the diagrams in the documentation are generated from it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

State: TypeAlias = Literal["idle", "starting", "running", "stopping"]
LifecycleEvent: TypeAlias = Literal["start", "opened", "failed", "stop", "stopped"]

LIFECYCLE: dict[tuple[State, LifecycleEvent], State] = {
    ("idle", "start"): "starting",
    ("starting", "opened"): "running",
    ("starting", "failed"): "idle",  # whatever was open is closed again
    ("starting", "stop"): "stopping",  # a start in progress is cancelled
    ("running", "stop"): "stopping",
    ("stopping", "stopped"): "idle",
}
