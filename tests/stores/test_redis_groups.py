"""Redis servers that belong together: a cluster, and a primary that sentinels watch."""

from __future__ import annotations

import contextlib

import pytest
import redis
from redis.cluster import ClusterNode

from anarchon._values import Lease, Limits, Owner, Presence, RunKey, Won
from anarchon.backends._redis_scripts import keys_of
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendUnavailable
from tests.servers.processes import wait_until
from tests.servers.redis_groups import RedisCluster, SentinelTrio
from tests.stores.helpers import claim, finish, now_ms
from tests.stores.hostile import Hostile

LIMITS = Limits(3.0, 3.0, 3.0)
A = Owner("a", "a")


@contextlib.contextmanager
def opened(given, **options):
    backend = RedisBackend(given, **options)
    backend.open(LIMITS)
    try:
        backend.prepare(["job"])
        yield backend
    finally:
        backend.close()


# --- cluster ----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["redis-6.2", "redis-8.2"])
def cluster(request):
    with RedisCluster(request.param) as cluster:
        yield cluster


def owner_of(cluster, namespace):
    return cluster.owner(keys_of(namespace)[0])


def test_a_namespace_is_found_from_any_node(cluster):
    for number, node in enumerate(cluster.nodes):
        with opened(node.url, namespace="found") as backend:
            slot_ms = now_ms() - 1000 + number
            assert isinstance(claim(backend, "job", slot_ms), Won)
            finish(backend, "job", slot_ms)
            assert len(backend.history("job", limit=9)) == number + 1
            assert backend._idle[0].talk.address[1] == owner_of(cluster, "found").port


def test_where_a_namespace_lives_is_remembered(cluster):
    home = owner_of(cluster, "remembered")
    other = next(node for node in cluster.nodes if node is not home)
    with opened(other.url, namespace="remembered") as backend:
        before = int(other.info("stats")["total_connections_received"])
        for _ in range(3):
            backend.history("job", limit=1)
        asked = int(other.info("stats")["total_connections_received"]) - before
        assert asked == 1  # our own question


def test_a_client_of_a_cluster(cluster):
    nodes = [ClusterNode(node.host, node.port) for node in cluster.nodes]
    client = redis.RedisCluster(startup_nodes=nodes)
    with opened(client, namespace="client") as backend:
        assert repr(backend) == "<RedisBackend cluster namespace='client'>"
        assert isinstance(claim(backend, "job", now_ms()), Won)
        assert backend.history("job", limit=9)
    assert client.ping(target_nodes=redis.RedisCluster.RANDOM)
    client.close()


def test_nodes_that_are_gone_cost_a_share_of_the_time(own_server):
    cluster = own_server(RedisCluster())
    home = owner_of(cluster, "gone")
    others = [node for node in cluster.nodes if node is not home]
    nodes = [ClusterNode(node.host, node.port) for node in [*others, home]]
    client = redis.RedisCluster(startup_nodes=nodes)
    for node in cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    others[0].freeze()
    try:
        with opened(client, namespace="gone") as backend:
            assert isinstance(claim(backend, "job", now_ms()), Won)
    finally:
        others[0].thaw()
    client.close()


def slot_moves(cluster, namespace, source, target):
    """Begin to move a namespace from a node to another; return its slot and how to end it."""
    slot = source.ask("CLUSTER", "KEYSLOT", keys_of(namespace)[0])
    ids = {node: node.ask("CLUSTER", "MYID") for node in (source, target)}
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])

    def end():
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target])

    return slot, end


def test_a_namespace_that_moves_is_followed(own_server):
    cluster = own_server(RedisCluster())
    source = owner_of(cluster, "moves")
    target = next(node for node in cluster.nodes if node is not source)
    with opened(source.url, namespace="moves") as backend:
        slot_ms = now_ms()
        fill(backend, slot_ms)
        slot, end = slot_moves(cluster, "moves", source, target)
        # While some keys are here and some there, nobody can do anything.
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
        assert len(keys) == len(keys_of("moves"))
        source.ask("MIGRATE", target.host, target.port, keys[0], 0, 2000)
        with pytest.raises(BackendUnavailable, match="TRYAGAIN"):
            claim(backend, "job", slot_ms)
        # When all are there, the old node says: ask the other, this once.
        for key in keys[1:]:
            source.ask("MIGRATE", target.host, target.port, key, 0, 2000)
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert backend.renew([Lease(RunKey("job", slot_ms), 1)], owner=A, lease_ms=9000).lost == ()
        assert backend._idle[0].talk.address[1] == source.port
        # At the end it says: it moved.
        end()
        assert isinstance(claim(backend, "job", slot_ms), Won)
        assert backend._idle[0].talk.address[1] == target.port
        assert len(backend.history("job", limit=9)) == 3


def fill(backend, slot_ms):
    """Have something in every key, and the run of a slot at last."""
    claim(backend, "job", slot_ms - 9)
    finish(backend, "job", slot_ms - 9)
    backend.pause("job", duration_ms=None)
    claim(backend, "job", slot_ms - 5)
    backend.resume("job")
    assert isinstance(claim(backend, "job", slot_ms), Won)
    assert backend.save(Lease(RunKey("job", slot_ms), 1), owner=A, value="{}")
    backend.trigger([RunKey("job", slot_ms, "trigger-1")], data=None)
    assert backend.alert([RunKey("job", slot_ms)], owner=A).answers == (True,)
    backend.present(A._replace(presence=Presence(slot_ms, "{}", "{}")))


def test_a_right_to_ask_that_is_missing_is_named(own_server):
    """It is needed only while the namespace moves."""
    acl = ["app on >app ~* +@all -asking"]
    cluster = own_server(RedisCluster(acl=acl))
    source = owner_of(cluster, "asking")
    target = next(node for node in cluster.nodes if node is not source)
    with opened(f"redis://app:app@{source.host}:{source.port}", namespace="asking") as backend:
        slot_ms = now_ms()
        fill(backend, slot_ms)
        slot, _ = slot_moves(cluster, "asking", source, target)
        for key in source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.ask("MIGRATE", target.host, target.port, key, 0, 2000)
        with pytest.raises(BackendUnavailable, match=r"'asking'.*grant"):
            claim(backend, "job", slot_ms)
        target.ask("ACL", "SETUSER", "app", "+asking")
        assert isinstance(claim(backend, "job", slot_ms), Won)


def test_after_being_asked_for_once_it_may_have_moved(shared_server):
    """Nodes of a cluster learn of a move one after the other."""
    server = shared_server("redis-8.2")
    moved = f"+OK\r\n-MOVED 1 {server.host}:{server.port}\r\n".encode()
    with Hostile(moved, 0.0) as target:
        ask = "-ASK 1 {}:{}\r\n".format(*target.address).encode()
        with Hostile(ask, 0.0) as source:
            url = "redis://{}:{}".format(*source.address)
            with opened(url, namespace="moved at once") as backend:
                assert isinstance(claim(backend, "job", now_ms()), Won)
                assert backend._idle[0].talk.address == (server.host, server.port)


@pytest.mark.parametrize("kind", ["unknown-endpoint", "hostname"])
def test_a_node_that_has_no_name_is_on_the_same_host(own_server, kind):
    """What is said for it is nothing, or a question mark."""
    cluster = own_server(RedisCluster())
    home = owner_of(cluster, "nameless")
    other = next(node for node in cluster.nodes if node is not home)
    other.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
    with opened(other.url, namespace="nameless") as backend:
        assert isinstance(claim(backend, "job", now_ms()), Won)
        assert backend._idle[0].talk.address == (other.host, home.port)


def test_a_cluster_that_is_down_is_told(own_server):
    cluster = own_server(RedisCluster())
    home = owner_of(cluster, "down")
    with opened(home.url, namespace="down") as backend:
        next(node for node in cluster.nodes if node is not home).kill()

        def is_told():
            try:
                claim(backend, "job", now_ms())
            except BackendUnavailable as error:
                return "CLUSTERDOWN" in str(error) and "missing nodes" in str(error)
            return False

        wait_until(is_told, "the cluster is down")


def test_a_node_that_left_its_cluster_is_left(own_server):
    """It still answers, but not to what it is asked; the others know better."""
    cluster = own_server(RedisCluster())
    home = owner_of(cluster, "left")
    others = [node for node in cluster.nodes if node is not home]
    nodes = [ClusterNode(node.host, node.port) for node in [home, *others]]
    client = redis.RedisCluster(startup_nodes=nodes)
    for node in cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    slot = home.ask("CLUSTER", "KEYSLOT", keys_of("left")[0])
    ids = {node: node.ask("CLUSTER", "MYID") for node in cluster.nodes}
    with opened(client, namespace="left") as backend:
        home.ask("FLUSHALL")
        home.ask("CLUSTER", "RESET", "SOFT")
        others[0].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[home])
        for node in others:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[others[0]])
        with pytest.raises(BackendUnavailable, match="CLUSTERDOWN"):
            claim(backend, "job", now_ms())
        assert isinstance(claim(backend, "job", now_ms()), Won)
        assert backend._idle[0].talk.address[1] == others[0].port
    client.close()


# --- sentinel ---------------------------------------------------------------------


@pytest.fixture
def trio(own_server):
    return own_server(SentinelTrio())


def test_a_failover_is_followed(trio):
    sentinel = redis.Sentinel(trio.addresses)
    slot_ms = now_ms()
    with opened((sentinel, trio.group)) as backend:
        first = claim(backend, "job", slot_ms)
        assert isinstance(first, Won)
        trio.redises[1].catch_up(trio.primary)
        new = trio.failover()
        with pytest.raises(BackendUnavailable):
            claim(backend, "job", slot_ms)
        again = claim(backend, "job", slot_ms)  # the very next call
        assert isinstance(again, Won)
        assert again.fence == first.fence
        assert backend._idle[0].talk.address[1] == new.port


def test_what_master_for_gives_will_do(trio):
    client = redis.Sentinel(trio.addresses).master_for(trio.group)
    with opened(client) as backend:
        assert isinstance(claim(backend, "job", now_ms()), Won)
    assert client.ping()
    client.close()


def test_sentinels_that_are_gone_are_passed_by(trio):
    trio.sentinels[0].kill()
    trio.sentinels[1].freeze()
    try:
        with opened((redis.Sentinel(trio.addresses), trio.group)) as backend:
            assert isinstance(claim(backend, "job", now_ms()), Won)
    finally:
        trio.sentinels[1].thaw()


def is_replica(server):
    """Whether a server is a replica by now; one that becomes it closes all its connections."""
    with contextlib.suppress(ConnectionError):
        return server.info("replication")["role"] == "slave"
    return False


def test_a_demoted_primary_is_left(trio):
    """Its connections may still be open, as to one that was cut off and came back."""
    with opened((redis.Sentinel(trio.addresses), trio.group)) as backend:
        old = trio.primary
        trio.sentinels[0].ask("SENTINEL", "FAILOVER", trio.group)
        wait_until(lambda: is_replica(old), "the old one is a replica")
        new = next(one for one in trio.redises if one is not old)
        wait_until(lambda: trio.sentinels[0].current_port() == new.port, "the new one is known")
        answers = []
        for _ in range(3):
            with contextlib.suppress(BackendUnavailable):
                answers.append(claim(backend, "job", now_ms()))
        assert isinstance(answers[0], Won)
        assert backend._idle[0].talk.address[1] == new.port


def test_an_unknown_name_is_told(trio):
    backend = RedisBackend((redis.Sentinel(trio.addresses), "nobody"))
    with pytest.raises(BackendUnavailable, match="no master named 'nobody'"):
        backend.open(LIMITS)
    backend.close()
