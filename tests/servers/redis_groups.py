"""Redis servers that belong together: a cluster, and a primary that sentinels watch."""

from __future__ import annotations

from tests.servers.processes import Server, wait_until
from tests.servers.redis import RedisServer, quoted_values
from tests.servers.resp import Client, ReplyError

SLOTS = 16_384


class Group:
    """Several servers that start and end together; `own_server` takes it as it takes one."""

    servers: list[Server]

    @property
    def is_running(self) -> bool:
        """Say whether all of them run."""
        return all(server.is_running for server in self.servers)

    def start(self) -> None:
        """Start those that don't run."""
        for server in self.servers:
            if not server.is_running:
                server.start()

    def delete(self) -> None:
        for server in self.servers:
            server.delete()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self.delete()


class RedisCluster(Group):
    """Three primaries of one variant that share all slots; `nodes` are the servers."""

    def __init__(self, variant: str = "redis-8.2", **options) -> None:
        settings = {"cluster-enabled": "yes", "cluster-node-timeout": 2000}
        self.nodes = [RedisServer(variant, settings=dict(settings), **options) for _ in range(3)]
        self.servers = list(self.nodes)
        self._has_met = False

    @property
    def url(self) -> str:
        """Return where the first node is."""
        return self.nodes[0].url

    def start(self) -> None:
        """Start the nodes that don't run, and wait until all of them serve."""
        super().start()
        if not self._has_met:
            self._meet()
            self._has_met = True
        wait_until(self._is_complete, "cluster is complete")

    def _meet(self) -> None:
        """Share the slots, and make the nodes known to each other."""
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            bounds = (SLOTS * part // len(self.nodes) for part in (number, number + 1))
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.ask("CLUSTER", "ADDSLOTS", *range(*bounds))
        for node in others:
            first.ask("CLUSTER", "MEET", node.host, node.port)

    def owner(self, key: str) -> RedisServer:
        """Return the node that has a key."""
        slot = self.nodes[0].ask("CLUSTER", "KEYSLOT", key)
        return self.nodes[((slot + 1) * len(self.nodes) - 1) // SLOTS]

    def _is_complete(self) -> bool:
        infos = [node.ask("CLUSTER", "INFO").decode() for node in self.nodes]
        wanted = ("cluster_state:ok", f"cluster_known_nodes:{len(self.nodes)}")
        return all(word in info for info in infos for word in wanted)


class Sentinel(Server):
    """A sentinel that watches a primary as `group` and agrees with `quorum - 1` others."""

    def __init__(self, primary: RedisServer, group: str, quorum: int) -> None:
        super().__init__("sentinel")
        self._primary = primary
        self.group = group
        self._quorum = quorum

    def command(self) -> list[str]:
        config = self.folder / "sentinel.conf"
        if not config.exists():  # it writes what it learnt into its file
            lines = [
                ("bind", self.host),
                ("dir", self.folder),
                ("sentinel", "monitor", self.group, *self._watched(), self._quorum),
                ("sentinel", "down-after-milliseconds", self.group, 500),
                ("sentinel", "failover-timeout", self.group, 3000),
            ]
            config.write_text("".join(f"{quoted_values(line)}\n" for line in lines))
        return [self._primary.program, str(config), "--sentinel", "--port", str(self.port)]

    def answers(self) -> bool:
        try:
            info = self.ask("INFO", "server")
        except (OSError, ReplyError):
            return False
        return f"process_id:{self.pid}\r\n" in info.decode()

    def ask(self, *words: str | bytes | float):
        """Run one command and return its reply."""
        with Client((self.host, self.port)) as client:
            return client(*words)

    def current_port(self) -> int:
        """Return the port of the one that is the primary now."""
        return int(self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.group)[1])

    def is_ready(self) -> bool:
        """Say whether it knows the replica and two more sentinels, so that a failover works."""
        words = self.ask("SENTINEL", "MASTER", self.group)
        state = dict(zip(words[::2], words[1::2], strict=True))
        found = (state[b"num-slaves"], state[b"num-other-sentinels"], state[b"flags"])
        return found == (b"1", b"2", b"master")

    def _watched(self) -> tuple[str, int]:
        return self._primary.host, self._primary.port


class SentinelTrio(Group):
    """A primary with a replica, `redises`, watched by three `sentinels` as `group`."""

    group = "jobs"

    def __init__(self, variant: str = "redis-8.2") -> None:
        primary = RedisServer(variant)
        replica = RedisServer(variant, primary=primary)
        self.redises = [primary, replica]
        self.sentinels = [Sentinel(primary, self.group, quorum=2) for _ in range(3)]
        self.servers = [*self.redises, *self.sentinels]

    def start(self) -> None:
        """Start those that don't run, and wait until a failover can be done."""
        for redis in self.redises:
            if not redis.is_running:
                redis.start()
            if redis.primary is not None:
                # What sentinels find when they start they know at once, all else much later.
                redis.catch_up(redis.primary)
        super().start()
        wait_until(self._is_ready, "sentinels know each other")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return where the sentinels are."""
        return [(sentinel.host, sentinel.port) for sentinel in self.sentinels]

    @property
    def primary(self) -> RedisServer:
        """Return the one that is the primary now, as the first sentinel says."""
        port = self.sentinels[0].current_port()
        return next(redis for redis in self.redises if redis.port == port)

    def failover(self) -> RedisServer:
        """Kill the primary, wait until the other is it, and return that.

        The killed one can be started afterwards: the sentinels make it a replica.
        """
        old = self.primary
        (new,) = (redis for redis in self.redises if redis is not old)
        old.kill()
        wait_until(lambda: self._is_led_by(new), "failover is done")
        new.primary = None  # for its next start
        old.primary = new
        return new

    def _is_ready(self) -> bool:
        return all(sentinel.is_ready() for sentinel in self.sentinels)

    def _is_led_by(self, redis: RedisServer) -> bool:
        if any(sentinel.current_port() != redis.port for sentinel in self.sentinels):
            return False
        return redis.info("replication")["role"] == "master"
