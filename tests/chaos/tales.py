"""Small stories for tests of the checker: a ledger and records, told line by line."""

from __future__ import annotations

from tests.chaos.checker import check
from tests.chaos.story import Key, Plan, Story, Terms

TERMS = Terms(lease=3.0, heartbeat=0.6)
PLANS = {
    0: {
        "tick": Plan(10_000, skips_overlap=True, is_abandoned=False),
        "free": Plan(10_000, skips_overlap=False, is_abandoned=False),
        "once": Plan(10_000, skips_overlap=True, is_abandoned=True),
    }
}
SLOT = 10_000  # due at 10 s: the wall clock and CLOCK_MONOTONIC are the same here
END = 40.0


class Tale:
    """Writes a ledger and records, in any order; by itself nothing is due in it."""

    def __init__(self, *, due: bool = False) -> None:
        # With `due`, the slot is in the window, of which all jobs have to say something.
        self.lines = [
            line("begun", "driver", 9.0 if due else 1.0, wall=9.0 if due else 1.0),
            line("calm", "driver", 11.0 if due else 2.0),
        ]
        self.records: dict[Key, dict] = {}
        for name in ("p1", "p2"):
            self.tell("spawned", "driver", 0.0, name=name, version=0)
            self.tell("running", name, 0.5)

    def tell(self, kind, who, at, **facts) -> Tale:
        self.lines.append(line(kind, who, at, **facts))
        return self

    def driver(self, kind, at, name="p1", **facts) -> Tale:
        return self.tell(kind, "driver", at, name=name, **facts)

    def begin(self, at, number=1, *, who="p1", job="tick", slot=SLOT, fence=None) -> Tale:
        """Let an attempt be won and started."""
        about = {"job": job, "slot": slot, "attempt": number, "fence": fence or slot + number}
        self.tell("won", who, at, sent=at - 0.01, **about)
        return self.tell("started", who, at, why="scheduled", **about)

    def renew(self, *times, number=1, who="p1", job="tick", slot=SLOT) -> Tale:
        for at in times:
            kept = [{"job": job, "slot": slot, "attempt": number}]
            self.tell("renewed", who, at, sent=at - 0.01, kept=kept)
        return self

    def abort(self, at, number=1, *, who="p1", job="tick", slot=SLOT) -> Tale:
        return self.tell("aborted", who, at, job=job, slot=slot, attempt=number, why="lost")

    def end(self, at, number=1, *, who="p1", job="tick", slot=SLOT, how="returned") -> Tale:
        return self.tell("ended", who, at, job=job, slot=slot, attempt=number, how=how)

    def record(self, status, number=1, *, who="p1", job="tick", slot=SLOT, **more) -> Tale:
        kept = {"detail": None, "error": None, "started_at": None, "finished_at": None}
        self.records[Key(job, slot, number)] = {
            **kept,
            "status": status,
            "instance_id": who,
            **more,
        }
        return self

    def run(self, at=10.0, number=1, *, who="p1", fence=None, **which) -> Tale:
        """Let an attempt be begun, ended well and recorded."""
        self.begin(at, number, who=who, fence=fence, **which)
        self.end(at + 0.5, number, who=who, **which)
        return self.record("success", number, who=who, **which)

    def story(self) -> Story:
        for name in ("p1", "p2"):
            if not any(one["kind"] == "gone" and one["name"] == name for one in self.lines):
                self.driver("asked", END, name).driver("gone", END + 1, name)
        lines = sorted(self.lines, key=lambda one: one["at"])
        return Story(TERMS, PLANS, lines, self.records)

    def wrong(self) -> set[str]:
        return {violation.kind for violation in check(self.story())}


def line(kind, who, at, **facts):
    return {"kind": kind, "who": who, "at": at, **facts}
