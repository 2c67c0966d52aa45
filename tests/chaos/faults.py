"""What strikes a fleet: each fault begins here, and has its end put into the driver's book."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.driver import Driver
    from tests.chaos.fleet import Member

CLOCKS = (-3600.0, -10.0, -2.0, -0.5, 0.5, 2.0, 10.0, 3600.0)  # seconds


class Fault(NamedTuple):
    """How often it comes, compared with others, and what it does; it returns its name."""

    weight: float
    strike: Callable[[Driver], str | None]  # None: it can't, now


# --- on one process ---


def kill(driver: Driver) -> str | None:
    """Kill a process, and start another one."""
    if (victim := driver.choose()) is None:
        return None
    driver.fleet.kill(victim)
    driver.fleet.spawn(driver.version)
    return "kill"


def kill_all(driver: Driver) -> str | None:
    """Kill everybody at once, as when a machine dies; those that come then find what is left."""
    victims = [member for member in driver.fleet.members if not member.is_struck]
    for victim in victims:
        driver.fleet.kill(victim)
    for _ in victims:
        driver.fleet.spawn(driver.version)
    return "kill all"


def freeze(driver: Driver) -> str | None:
    """Stop a process for up to two leases."""
    if (victim := driver.choose()) is None:
        return None
    driver.fleet.freeze(victim)
    number = None
    if not driver.store.is_networked and driver.store.is_held():
        number = driver.trouble("frozen writer")  # it has the lock of the file
    victim.is_struck = True

    def thaw() -> None:
        driver.fleet.thaw(victim)
        victim.is_struck = False
        driver.mend(number)

    driver.later(driver.rng.uniform(0.2, 2 * driver.setting.lease), thaw)
    return "freeze"


def stop(driver: Driver) -> str | None:
    """Ask a process to stop, and start another one beside it."""
    if (leaver := driver.choose()) is None:
        return None
    driver.replace(leaver)
    return "stop"


def deploy(driver: Driver) -> str | None:
    """Bring a new version: everybody is replaced, one after another."""
    driver.version += 1
    wait = 0.0
    for member in driver.fleet.members:
        driver.later(wait, lambda member=member: roll(driver, member))
        wait += driver.rng.uniform(0.2, 2.0)
    return "deploy"


def roll(driver: Driver, member: Member) -> None:
    if member not in driver.fleet.members:
        return
    if member.is_struck:
        driver.later(0.5, lambda: roll(driver, member))
    else:
        driver.replace(member)


def clock(driver: Driver) -> str | None:
    """Set the clock of a process's host wrong, and right again."""
    if (victim := driver.choose()) is None:
        return None
    number = driver.trouble("clock", victim)
    victim.shift_clock(driver.rng.choice(CLOCKS))

    def back() -> None:
        victim.shift_clock(0.0)
        driver.mend(number)

    driver.later(driver.rng.uniform(0.5, 2 * driver.setting.lease), back)
    return "clock"


# --- on the way to a server ---


def delayed(driver: Driver, member: Member) -> None:
    member.way.proxy.delay(driver.rng.choice([0.02, 0.1, 0.5]))


def dropped(driver: Driver, member: Member) -> None:
    member.way.proxy.drop()
    member.way.proxy.reset_all()


def refused(driver: Driver, member: Member) -> None:
    member.way.proxy.refuse()
    member.way.proxy.reset_all()


def black_hole(driver: Driver, member: Member) -> None:
    member.way.proxy.black_hole()


def half_open(driver: Driver, member: Member) -> None:
    member.way.proxy.half_open()


def reset(driver: Driver, member: Member) -> None:
    member.way.proxy.reset()


def swallowed(driver: Driver, member: Member) -> None:
    member.way.proxy.swallow_reply(hang=driver.rng.random() < 0.5)


WAYS = (delayed, dropped, refused, black_hole, half_open, reset, swallowed)


def way(driver: Driver) -> str | None:
    """Let one process's way to the store fail, for up to a lease and a half."""
    victim = driver.choose()
    return None if victim is None else _spoil(driver, [victim])


def all_ways(driver: Driver) -> str | None:
    """Let everybody's way to the store fail alike."""
    name = _spoil(driver, [one for one in driver.fleet.members if not one.is_struck])
    return f"all {name}"


def _spoil(driver: Driver, victims: list[Member]) -> str | None:
    spoil = driver.rng.choice(WAYS)
    numbers = [driver.trouble(spoil.__name__, victim) for victim in victims]
    for victim in victims:
        victim.is_struck = True
        spoil(driver, victim)

    def pass_again() -> None:
        for victim in victims:
            victim.way.proxy.passing()
            victim.is_struck = False
        for number in numbers:
            driver.mend(number)

    driver.later(driver.rng.uniform(0.2, 1.5 * driver.setting.lease), pass_again)
    return spoil.__name__.replace("_", " ")


# --- on the store itself ---


def restart(driver: Driver) -> str | None:
    """End the server, politely or not, and start it again."""
    server = driver.store.server
    if not server.is_running:
        return None
    number = driver.trouble("server down")
    end = driver.rng.choice([server.stop, server.kill])
    end()

    def start() -> None:
        server.start()
        driver.mend(number)

    driver.later(driver.rng.uniform(0.0, driver.setting.lease), start)
    return f"server {end.__name__}"


def lock(driver: Driver) -> str | None:
    """Hold the lock of the file, as a program does that forgot its transaction."""
    if driver.store.is_locked or any(member.is_struck for member in driver.fleet.members):
        return None
    number = driver.trouble("locked file")
    if not driver.store.lock():
        driver.mend(number)
        return None

    def unlock() -> None:
        driver.store.unlock()
        driver.mend(number)

    driver.later(driver.rng.uniform(0.2, 1.5 * driver.setting.lease), unlock)
    return "lock"


EVERYWHERE = (
    Fault(3.0, kill),
    Fault(3.0, freeze),
    Fault(3.0, stop),
    Fault(0.7, deploy),
    Fault(0.3, kill_all),
)
ON_SERVERS = (Fault(4.0, way), Fault(1.0, all_ways), Fault(1.0, restart), Fault(1.5, clock))
ON_FILES = (Fault(1.0, lock),)


def faults_of(store) -> tuple[Fault, ...]:
    """Return what may strike processes on a store."""
    return (*EVERYWHERE, *(ON_SERVERS if store.is_networked else ON_FILES))
