"""Backends for the demo in which something doesn't happen; the demo has to notice."""

from __future__ import annotations

from anarchon import SqliteBackend
from anarchon._demo_instance import NAMESPACE
from anarchon._values import Lease, Released, Settled


class NoRelease(SqliteBackend):
    """Says that runs were handed over, and hands none over."""

    def release(self, results, *, owner):
        answers = tuple(Released(lease_of(result)) for result in results)
        return Settled(answers, self.look((), owner=owner).store_ms)


class NoTakeover(SqliteBackend):
    """Never shows a run whose runner died; one that was handed over it does show."""

    def look(self, jobs, *, owner):
        return without_dead(super().look(jobs, owner=owner), "wrong")

    def unfinished(self, jobs, *, owner):
        return without_dead(super().unfinished(jobs, owner=owner), "wrong")

    def claim(self, wishes, *, owner, wins, pace):
        claims = super().claim(wishes, owner=owner, wins=wins, pace=pace)
        return without_dead(claims, "open")


def lease_of(result):
    return Lease(result.key, result.attempt)


def without_dead(answer, field):
    return answer._replace(
        **{field: tuple(r for r in getattr(answer, field) if r.state != "running")}
    )


def no_release(database):
    return NoRelease(database, namespace=NAMESPACE)


def no_takeover(database):
    return NoTakeover(database, namespace=NAMESPACE)
