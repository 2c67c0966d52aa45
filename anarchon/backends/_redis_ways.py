"""Ways to the server that may be written to: straight, through sentinels, or in a cluster.

A way keeps no connection. It remembers where a cluster said that the namespace lives, and
forgets it when nobody answers there, or when what is answered is of no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ._redis_talk import ReplyError, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._redis_doors import Door
    from ._redis_talk import Address, Talk

    Remap = Callable[[str, int], Address]


class Way(Protocol):
    """How to come to the server."""

    def connected(self, deadline: float) -> Talk:
        """Return a conversation with the server to ask first."""
        ...

    def moved(self, address: Address, deadline: float) -> Talk:
        """Return a conversation with the server that was named instead."""
        ...

    def asked(self, address: Address, deadline: float) -> Talk:
        """Return a conversation with a server that was named for this once."""
        ...

    def failed(self, address: Address | None) -> None:
        """Hear that a server which took a conversation was of no use in it."""
        ...


class Straight:
    """To one server, or to the nodes of a cluster, whichever of them answers."""

    def __init__(self, doors: Callable[[], Sequence[Door]], remap: Remap | None = None) -> None:
        self._doors = doors
        self._remap = remap
        self._home: Door | None = None  # where the cluster said that the namespace lives
        self._failed: Address | None = None

    def connected(self, deadline: float) -> Talk:
        """Try the server remembered, then all others, each for its share of the time.

        The one that was of no use last time comes last.
        """
        home = self._home
        doors = sorted(self._doors(), key=lambda door: door.address == self._failed)
        if home is not None:
            doors = [home, *(door for door in doors if door.address != home.address)]
        enter = _opened if len(doors) == 1 else _answering
        try:
            return first_of(doors, deadline, enter)
        except (OSError, ReplyError):
            self._home = None
            raise

    def moved(self, address: Address, deadline: float) -> Talk:
        """Go there, now and from now on."""
        door = self._at(address)
        talk = door.opened(deadline)
        self._home = door
        return talk

    def asked(self, address: Address, deadline: float) -> Talk:
        """Go there for this once."""
        return self._at(address).opened(deadline)

    def failed(self, address: Address | None) -> None:
        """Ask the others first, next time."""
        self._home, self._failed = None, address

    def _at(self, address: Address) -> Door:
        return self._doors()[0].at(self._remap(*address) if self._remap else address)


class Sentinels(Straight):
    """To the master that the sentinels name, each time."""

    def __init__(self, sentinels: Callable[[], Sequence[Door]], master: Door, name: str) -> None:
        super().__init__(lambda: [master])
        self._sentinels = sentinels
        self._master = master
        self._name = name

    def connected(self, deadline: float) -> Talk:
        """Ask one sentinel after the other; whoever says it is no master isn't talked to."""
        return first_of(list(self._sentinels()), deadline, self._led)

    def _led(self, sentinel: Door, deadline: float) -> Talk:
        talk = sentinel.opened(deadline)
        try:
            found = talk.ask(deadline, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
        finally:
            talk.close()
        if found is None:
            raise ConnectionRefusedError(f"the sentinel knows no master named {self._name!r}")
        talk = self._master.at((found[0], int(found[1]))).opened(deadline)
        try:
            _check_role(talk, deadline)
        except BaseException:
            talk.close()
            raise
        return talk


def _opened(door: Door, deadline: float) -> Talk:
    return door.opened(deadline)


def _answering(door: Door, deadline: float) -> Talk:
    """Return a conversation in which an answer came: a frozen server takes connections too."""
    talk = door.opened(deadline)
    try:
        talk.ask(deadline, "TIME")
    except BaseException:
        talk.close()
        raise
    return talk


def _check_role(talk: Talk, deadline: float) -> None:
    """Raise unless this is a master; a user who may not ask finds out when writing."""
    try:
        role = talk.ask(deadline, "ROLE")
    except ReplyError as error:
        if error.code == "NOPERM":
            return
        raise
    if role[0] != "master":
        raise ConnectionRefusedError("the server that the sentinel named is no master (yet)")


def first_of(doors: Sequence[Door], deadline: float, enter: Callable[[Door, float], Talk]) -> Talk:
    """Return what the first door leads to that can be entered in its share of the time."""
    failed: Exception = ConnectionRefusedError("no server is known")
    for number, door in enumerate(doors):
        left = seconds_left(deadline)
        try:
            return enter(door, deadline - left + left / (len(doors) - number))
        except (OSError, ReplyError) as error:
            failed = error
    raise failed
