"""The bounds of claim timing: fairness, lateness, shares, calls, hand-over and takeover.

Each function runs one fleet of one seed, checks its bounds and returns its figures. `ticks`
is how long: the bounds were measured over 3,000 ticks, and a share of the wins needs as many,
since chance alone makes some instance win more often in few.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from anarchon._values import BACKFILLED, RunKey

from .calm import PERIOD_MS, Calm
from .fleet import settings
from .world import EPOCH, Host, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from .instance import Instance
    from .world import World

    Figures = dict[str, float]

FAIR = {3: 1.35, 10: 1.35, 50: 1.6, 200: 2.8}
TAKE = {3: 5.0, 10: 1.5, 50: 1.1}
PERIOD = PERIOD_MS / 1000
WARM_UP = 40  # ticks after which most instances know how many they are
DAY_MS = 86_400_000
SOON = 1.5  # seconds within which an order is claimed by those who know of it
KEPT = 1200  # what a core of a large fleet may keep: 1,000 owners that it has seen, and itself


def hold(name: str, what: str, value: float, most: float) -> None:
    """Fail if a figure exceeds its bound."""
    if value > most:
        raise Violation(name, f"{what} is {value:g}, at most {most:g}")


def one_job(seed: int, n: int, ticks: int, *, warm: int = WARM_UP, fair: bool = True) -> Figures:
    """One slot a tick: exactly n claims and 1 finish, spread fairly, started soon."""
    calm = Calm(seed, n, 1, settings()).settle_in(warm).run(ticks * PERIOD)
    tally = calm.tally
    if (calm.calls("Claim"), calm.calls("Finish")) != (n * ticks, ticks):
        raise Violation("quiet", f"{calm.store.calls} for {ticks} ticks of {n} instances")
    hold("quiet", "renewals", calm.calls("Renew"), 0)
    if fair:
        hold("shared", f"fair of {n}", tally.fair(), FAIR[n])
    hold("shared", "median lateness", tally.percentile(0.5), 25)
    hold("shared", "p99 lateness", tally.percentile(0.99), 120)
    hold("never-early", "earliness", -min(tally.late_ms), 1)
    hold("bounded", "size of a core", calm.kept(), KEPT)
    return {
        "fair": tally.fair(),
        "p50_ms": tally.percentile(0.5),
        "p99_ms": tally.percentile(0.99),
    }


def ten_jobs(seed: int, n: int, ticks: int, *, warm: int = WARM_UP) -> Figures:
    """Ten slots a tick: they spread over the fleet, by at most two claims an instance."""
    calm = Calm(seed, n, 10, settings()).settle_in(warm).run(ticks * PERIOD)
    take = calm.tally.biggest_take()
    claims = calm.calls("Claim") / ticks
    hold("shared", f"biggest take of {n}", take, TAKE[n])
    hold("no-polling", "claims a tick", claims, 2 * n)
    hold("quiet", "finishes a tick", calm.calls("Finish") / ticks, 10)
    return {"take": take, "claims": claims}


def thousand_jobs(seed: int, n: int, ticks: int, *, warm: int = 5) -> Figures:
    """A thousand slots a tick, 200 ms each: few claims, and done almost as soon as possible.

    A hundred of them are enough for instances to hear of each other before.
    """
    calm = Calm(seed, n, 100, settings(), seconds=0.2).settle_in(warm)
    calm.add(900)
    tally = calm.run(ticks * PERIOD).tally
    claims = calm.calls("Claim") / (1000 * ticks)
    hold("no-polling", f"claims a slot of {n}", claims, 1.0)
    hold("no-polling", "claims without a worker", tally.unfree, 0)
    hold("every-slot", "slots not run", 1000 * ticks - len(tally.late_ms), 0)
    workers = n * calm.settings.workers
    ideal = -(-1000 // workers) * 0.2
    last = max(tally.late_ms) / 1000
    if n <= 10:
        hold("shared", f"last start of {n}", last, 1.1 * ideal)
    return {"claims": claims, "last": last, "ideal": ideal}


def loaded(seed: int, load: float, ticks: int, *, warm: int = 5, seconds: float = 0.5) -> Figures:
    """As much work as `load` says, in runs of so many seconds: being full costs no more calls."""
    n, workers = 3, 4
    jobs = round(load * n * workers * PERIOD / seconds)
    calm = Calm(seed, n, jobs, settings(workers=workers), seconds=seconds)
    calm.settle_in(warm).run(ticks * PERIOD)
    claims = calm.calls("Claim") / len(calm.tally.late_ms)
    hold("no-polling", f"claims a run at load {load:g}", claims, 1.2)
    hold("no-polling", "claims without a worker", calm.tally.unfree, 0)
    return {"claims": claims}


def one_differs(seed: int, ticks: int, *, faster: bool) -> Figures:
    """One of ten hosts is far faster, or five minutes ahead: it wins little more often."""

    def hosts(world: World, n: int) -> list[Host]:
        rng = world.rng
        first = Host(world, trip=0.00005) if faster else Host(world, offset=300.0, trip=0.0005)
        return [first] + [
            Host(world, offset=rng.uniform(-0.002, 0.002), wake=0.005, hop=0.0002, trip=0.0005)
            for _ in range(n - 1)
        ]

    calm = Calm(seed, 10, 1, settings(), hosts=hosts).settle_in(WARM_UP).run(ticks * PERIOD)
    hold("shared", "fair with one other host", calm.tally.fair(), 1.5)
    hold("never-early", "earliness", -min(calm.tally.late_ms), 1)
    return {"fair": calm.tally.fair()}


# --- hand-over and takeover -------------------------------------------------------


def handed_over(seed: int, n: int, times: int) -> Figures:
    """After a graceful stop the next attempt starts within two heartbeats."""
    waits = _followed(seed, n, times, lambda inst: inst.stop(10.0))
    hold("hand-over-bound", "seconds until the next attempt", max(waits), 2 * 10.0)
    return {"median": sorted(waits)[len(waits) // 2], "longest": max(waits)}


def crashed(seed: int, n: int, times: int, *, restarts: bool = False) -> Figures:
    """After a crash the next attempt starts within two heartbeats after the lease.

    With `restarts` it is a new instance that knows nothing of the run.
    """
    waits = _followed(seed, n, times, lambda inst: inst.crash(), restarts=restarts)
    hold("crash-bound", "seconds until the next attempt", max(waits), 30.0 + 2 * 10.0)
    return {"median": sorted(waits)[len(waits) // 2], "longest": max(waits)}


def asked_for(seed: int, n: int, *, control: float | None = None) -> Figures:
    """A fleet that has nothing to do runs what it is asked for, and one past slot after another.

    It looks for that each period; without one it is told to one of its processes.
    """
    calm = Calm(seed, n, 1, settings()._replace(control=control), period_ms=DAY_MS).run(60.0)
    calm.count_from_here()
    last_ms = calm.specs[0].schedule.slot_at(calm.store.time.wall_ms())
    keys = [RunKey("j0", last_ms - back * DAY_MS, f"{BACKFILLED}{back}") for back in (2, 1, 0)]
    calm.store.backend.trigger(keys, data=None)
    if control is None:
        calm.fleet.up()[0].ordered("j0")
    calm.run((control or 0.0) + 3 * SOON)
    hold("every-order", "past slots not run", len(keys) - len(calm.tally.starts_at), 0)
    return {"calls": sum(calm.store.calls.values())}


def _followed(
    seed: int, n: int, times: int, end: Callable[[Instance], None], *, restarts: bool = False
) -> list[float]:
    """End the runner of one long run, again and again; return how long nobody ran it."""
    rng = Random(seed)
    once_ms = round(EPOCH * 1000)  # the one slot is due as the simulation begins
    calm = Calm(seed, n, 1, settings(), seconds=1e6, period_ms=once_ms, budget=times + 2)
    calm.run(5.0)
    waits = []
    for _ in range(times):
        calm.run(rng.uniform(11.0, 60.0))
        runner = next(inst for inst in calm.fleet.up() if inst.handlers)
        calm.count_from_here()
        ended_at = calm.world.now
        end(runner)
        # The slot is no longer one to catch up, so that only its open run leads to it.
        late = [calm.specs[0]._replace(terms=calm.specs[0].terms._replace(catch_up_ms=0))]
        calm.run(1.0 if restarts else 60.0)
        calm.fleet.start(runner.host, calm.settings).begin(late)
        calm.run(60.0)
        if not calm.tally.starts_at:
            raise Violation("crash-bound", "nobody went on with the run")
        waits.append(calm.tally.starts_at[0][0] - ended_at)
    return waits
