"""What is in the keys of a Redis store whose clock stands still."""

from __future__ import annotations

import json

from anarchon.backends._redis_scripts import PARTS, keys_of

# The places of a run that is kept.
RUN = (
    *("state", "attempt", "first", "owner", "ends", "lease", "heartbeat", "beat", "fence"),
    *("deaths", "budget", "catch_up", "cancel", "status", "detail", "by", "since"),
)


class Kept:
    """A store on a clock that stands still, and what is in its keys."""

    def __init__(self, server, name, bench):
        self.ask = server.ask
        self.key = dict(zip(PARTS, keys_of(name), strict=True))
        self.bench = bench

    def stored(self, part):
        """Return what is in one key: fields, or members with their scores; nothing is empty."""
        by_score = self.ask("TYPE", self.key[part]) == b"zset"
        words = ("ZRANGE", self.key[part], 0, -1, "WITHSCORES")
        told = self.ask(*words) if by_score else self.ask("HGETALL", self.key[part])
        texts = [word.decode() for word in told]
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def keys(self):
        """Return the parts that are there."""
        return {part for part in PARTS if self.ask("EXISTS", self.key[part])}

    def spoil(self, part, place, value):
        """Put another value at a place of every array that a hash holds."""
        for field, raw in self.stored(part).items():
            values = json.loads(raw)
            values[place] = value
            self.ask("HSET", self.key[part], field, json.dumps(values))
