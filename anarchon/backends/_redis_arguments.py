"""What `RedisBackend` is given, and the way to the server that it means.

Nothing here connects, and no message shows a password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from .._durations import shown
from .._texts import type_name
from ..errors import BackendError, ConfigurationError
from ._redis_doors import Door, driver
from ._redis_ways import Sentinels, Straight

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from ._redis_ways import Way

FINDINGS = ("clock-offset", "maxmemory-policy", "persistence", "replica-count")
MOST_REPLICAS = 100
_FORM = "Give something like redis://user:password@host:6379/0, rediss://… or unix:///path."


def way_to(given: object) -> tuple[Way, str]:
    """Return the way to a server, and its name for people.

    Raises:
        ConfigurationError: It is neither a URL nor a client that can be meant.
    """
    if isinstance(given, str):
        return _by_url(given)
    try:
        redis = driver()
    except ImportError:
        raise _unknown(given) from None
    if isinstance(given, redis.RedisCluster):
        return _in_cluster(given)
    if isinstance(given, tuple) and len(given) == 2:
        sentinel, name = given
        if isinstance(sentinel, redis.Sentinel) and isinstance(name, str):
            given = sentinel.master_for(name)
    if isinstance(given, redis.Redis):
        return _by_client(given)
    raise _unknown(given)


def _unknown(given: object) -> ConfigurationError:
    return ConfigurationError(
        f"RedisBackend can't use an object of the class {type_name(given)}: give a URL, a "
        'redis.Redis, a redis.RedisCluster, or a pair (redis.Sentinel, "name of the master"); '
        "a client of redis.asyncio won't do."
    )


# --- a URL ------------------------------------------------------------------------


def _by_url(url: str) -> tuple[Way, str]:
    parts = _checked(url)
    if parts.scheme == "unix":
        name = f"unix://{unquote(parts.path)}"
    else:
        host, port = parts.hostname or "localhost", parts.port or 6379
        name = f"{parts.scheme}://{host}:{port}/{_database(parts) or 0}"
    return Straight(lambda: [_door_of(url)]), name


def _checked(url: str) -> SplitResult:
    """Return the parts of a URL; redis-py takes much for a URL that can't be meant."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is read, and refused, when it is asked for
        database = _database(parts)
    except ValueError:
        raise _unreadable() from None  # what urllib says may quote a part of the password
    if "@" in parts.path or "@" in parts.query:
        raise _unreadable()  # what stands before it is a part of the password, perhaps
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ConfigurationError(f"The Redis URL has an unknown scheme. {_FORM}")
    if parts.fragment:
        raise ConfigurationError(f"The Redis URL has a # in it, which is written %23. {_FORM}")
    if parts.scheme == "unix":
        if parts.path in ("", "/"):
            raise ConfigurationError(f"The Redis URL has no path of a socket. {_FORM}")
    elif database and not (database.isascii() and database.isdigit()):
        raise ConfigurationError(f"The database of a Redis URL is a number. {_FORM}")
    return parts


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        "The Redis URL can't be read. In a password @ : / ? # and % are written as %40 %3A %2F "
        f"%3F %23 %25, and so is an @ that stands anywhere else. {_FORM}"
    )


def _database(parts: SplitResult) -> str:
    return parse_qs(parts.query).get("db", [parts.path.strip("/")])[0]


def _door_of(url: str) -> Door:
    connection = driver().connection
    try:
        arguments: dict[str, Any] = connection.parse_url(url)
    except ValueError as error:
        # It names the option, not its value.
        raise BackendError(f"redis-py can't read the Redis URL: {error}") from None
    return Door(arguments.pop("connection_class", connection.Connection), arguments)


# --- clients ----------------------------------------------------------------------


def _by_client(client: Any) -> tuple[Way, str]:
    redis = driver()
    pool = client.connection_pool
    door = _door_to(client)
    if not isinstance(pool, redis.sentinel.SentinelConnectionPool):
        return Straight(lambda: [door]), _shown(door)
    if not pool.is_master:
        raise ConfigurationError(
            "RedisBackend writes, so it needs the master: give sentinel.master_for(…), not "
            "slave_for."
        )
    plain, tls = redis.connection.Connection, redis.connection.SSLConnection
    made = tls if issubclass(door.connection_class, tls) else plain
    manager, name = pool.sentinel_manager, pool.service_name
    way = Sentinels(
        lambda: [_door_to(sentinel) for sentinel in manager.sentinels],
        door._replace(connection_class=made),
        name,
    )
    return way, f"sentinel:{name}"


def _door_to(client: Any) -> Door:
    pool = client.connection_pool
    return Door(pool.connection_class, pool.connection_kwargs)


def _shown(door: Door) -> str:
    database = door.arguments.get("db") or 0
    if door.address is None:
        return f"unix://{door.arguments['path']}"
    host, port = door.address
    return f"redis://{host}:{port}/{database}"


def _in_cluster(client: Any) -> tuple[Way, str]:
    nodes = client.nodes_manager

    def doors() -> list[Door]:
        known = {**nodes.startup_nodes, **nodes.nodes_cache}.values()
        return [_door_to(client.get_redis_connection(node)) for node in known]

    return Straight(doors, nodes.remap_host_port), "cluster"


# --- options ----------------------------------------------------------------------


def replicas_of(durability: object) -> int:
    """Return how many replicas a claim waits for.

    Raises:
        ConfigurationError: `durability` is neither None nor ``"wait:1"`` and the like.
    """
    if durability is None:
        return 0
    if isinstance(durability, str) and durability.startswith("wait:"):
        count = durability.removeprefix("wait:")
        if count.isascii() and count.isdigit() and 0 < int(count) <= MOST_REPLICAS:
            return int(count)
    raise ConfigurationError(
        f'durability={shown(durability)} is unknown: give None, or "wait:1" to wait until one '
        "replica has a claim before its run starts."
    )
