"""A Redis store whose clock is moved by hand: its scripts read a key instead of the time."""

from __future__ import annotations

import functools

from anarchon._testing_contract.bench import HandClock
from anarchon.backends import _redis_scripts
from anarchon.backends.redis import RedisBackend

ASKS, READS = "call('TIME')", "call('HMGET', 'time by hand', 's', 'us')"


class KeptClock(HandClock):
    """The time in a key of the server."""

    def __init__(self, server) -> None:
        super().__init__()
        self._client = server.client()
        self._store()

    def advance(self, ms):
        super().advance(ms)
        self._store()

    def step(self, ms):
        super().step(ms)
        self._store()

    def begin_again(self):
        """Go back to the moment at which every clock that is moved by hand begins."""
        super().__init__()
        self._store()

    def close(self):
        self._client.close()

    def _store(self):
        seconds, ms = divmod(self.wall_ms(), 1000)
        # Nearly the next millisecond: what has begun counts, and nothing is rounded up.
        self._client("HSET", "time by hand", "s", seconds, "us", 1000 * ms + 999)


class ByHand(RedisBackend):
    """A store on that clock."""

    def __init__(self, url, *, clock, **options):
        super().__init__(url, **options)
        self.clock = clock

    def _answer(self, link, call, deadline):
        script, arguments = _redis_scripts.script_for(call)
        (words,) = link.run(told(script), arguments, deadline)
        return _redis_scripts.reply_of(words)


@functools.cache
def told(script):
    """Return a script with another way to know the time."""
    text = script.text.replace(ASKS, READS)
    assert text != script.text
    return _redis_scripts._script(script.name, text)
