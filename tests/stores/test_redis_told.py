"""What a Redis keeps of instances and of alerts, what damages it, and how little it costs."""

from __future__ import annotations

import json
import re

import pytest

from anarchon._values import Held, Limits, Owner, Pace, Presence, Won
from anarchon.backends._wire import Call
from anarchon.backends.redis import RedisBackend
from anarchon.errors import BackendError, BackendUnavailable
from tests.servers.redis import RedisServer
from tests.stores.helpers import claim, now_ms, wish
from tests.stores.test_redis_damage import RAW

NOW = 1_800_005_000_000  # at which the clock stands
DAY_MS = 24 * 3_600_000
SAID = [NOW, NOW + 1, '{"n":1}', '{"pid":7}']


def speaker(token="a", about='{"pid":7}', *, expected=NOW + 1, state='{"n":1}'):
    """Return an owner that says something of itself."""
    return Owner(token, f"instance-{token}", Presence(expected, state, about))


def shown(kept):
    return {one.token: [*one[1:]] for one in kept.bench.backend.instances().instances}


def put(kept, part, field, raw):
    text = raw if isinstance(raw, bytes) else json.dumps(raw, separators=(",", ":"))
    kept.ask("HSET", kept.key[part], field, text)


def tells(kept, slot=0, by="a", job="m"):
    (answer,) = kept.bench.any.alert([kept.bench.key(slot, job)], owner=Owner(by, by)).answers
    return answer


def claims_of(kept, owner):
    bench = kept.bench
    return bench.backend.claim([bench.wish(0)], owner=owner, wins=1, pace=bench.pace())


IN_PASSING = {
    "claim": claims_of,
    "renew": lambda kept, owner: kept.bench.any.renew([], owner=owner, lease_ms=9000),
    "unfinished": lambda kept, owner: kept.bench.any.unfinished([], owner=owner),
}
SPOKEN = {"present": lambda kept, owner: kept.bench.backend.present(owner), **IN_PASSING}


# --- instances ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", SPOKEN)
def test_what_is_said_is_written(kept, how):
    """In a namespace that was flushed as well."""
    kept.ask("DEL", kept.key["meta"])
    SPOKEN[how](kept, speaker())
    assert kept.stored("instances") == {"a": f'[{NOW},{NOW + 1},"{{\\"n\\":1}}","{{\\"pid\\":7}}"]'}
    assert kept.stored("meta") == {"format": "1"}
    assert how == "claim" or kept.keys() == {"meta", "instances"}
    kept.bench.clock.advance(5)
    SPOKEN[how](kept, speaker(about=None, expected=NOW + 9, state="{}"))
    assert shown(kept) == {"a": [NOW + 5, NOW + 9, "{}", '{"pid":7}']}
    assert list(kept.stored("instances")) == ["a"]


def test_odd_texts_stay_as_they_are(kept):
    odd = json.dumps({"\0\x7f/\\\"'é😀%s%": [1e300, None]}, ensure_ascii=False) + "\0" * 200
    token = "\0é\x01%"
    kept.bench.backend.present(speaker(token, odd, state=odd))
    assert shown(kept) == {token: [NOW, NOW + 1, odd, odd]}
    kept.bench.backend.present(Owner(token, "x"))
    assert not kept.stored("instances")


def test_an_instance_that_expects_nothing_stays(kept):
    kept.bench.backend.present(speaker(expected=253_402_300_800_000))
    kept.bench.clock.advance(1000 * DAY_MS)
    kept.bench.backend.present(speaker("b"))
    assert "a" in shown(kept)


def test_one_is_forgotten_when_it_is_late_by_more_than_a_day(kept):
    """By what is said of itself alone, not by what goes along."""
    for late in (-1, 0, 1):
        put(kept, "instances", f"late by {late}", [NOW, NOW - DAY_MS - late, "{}", "{}"])
    for say in IN_PASSING.values():
        say(kept, speaker())
    assert len(kept.stored("instances")) == 4
    kept.bench.backend.present(speaker())
    assert kept.stored("instances").keys() == {"late by -1", "late by 0", "a"}
    kept.bench.backend.present(Owner("late by 0", "x"))
    assert kept.stored("instances").keys() == {"late by -1", "a"}


def test_its_own_words_are_forgotten_as_those_of_others(kept):
    put(kept, "instances", "a", [0, NOW - DAY_MS - 1, "{}", "old"])
    kept.bench.backend.present(speaker(about=None))
    assert shown(kept) == {"a": [NOW, NOW + 1, '{"n":1}', ""]}


@pytest.mark.parametrize("how", IN_PASSING)
def test_nothing_is_written_of_who_says_nothing(kept, how):
    IN_PASSING[how](kept, Owner("a", "a"))
    assert not kept.stored("instances")


def test_a_look_writes_nothing(kept):
    kept.bench.any.look(["job"], owner=speaker())
    assert kept.keys() == {"meta"}


def test_who_asks_writes_nothing(kept):
    assert kept.bench.backend.instances() == ((), NOW)
    assert kept.keys() == {"meta"}


ODD = (None, "x", 1.5, 2**60, -(2**60), True, [1], {"a": 1}, 1e300)
WRONG = [
    *RAW,
    *([*SAID[:place], value, *SAID[place + 1 :]] for place in range(2) for value in ODD),
    *([*SAID[:place], value, *SAID[place + 1 :]] for place in (2, 3) for value in (None, 1, [1])),
    SAID[:3],
]


@pytest.mark.parametrize("raw", WRONG, ids=str)
def test_an_instance_that_can_not_be_read_harms_only_itself(kept, raw):
    kept.bench.backend.present(speaker("b"))
    put(kept, "instances", "a", raw)
    assert shown(kept) == {"b": SAID}
    assert isinstance(claims_of(kept, speaker()).answers[0], Won)
    assert shown(kept) == {"a": SAID, "b": SAID}
    put(kept, "instances", "a", raw)
    kept.bench.backend.present(speaker("c"))
    assert shown(kept) == {"b": SAID, "c": SAID}


@pytest.mark.parametrize("raw", [*RAW, SAID[:3], [*SAID[:3], 7], [*SAID[:3], None]], ids=str)
def test_what_was_said_before_can_not_be_read(kept, raw):
    put(kept, "instances", "a", raw)
    claims_of(kept, speaker(about=None))
    assert shown(kept) == {"a": [*SAID[:3], ""]}


def test_what_nobody_of_ours_wrote_is_forgotten(kept):
    for number, raw in enumerate(RAW):
        put(kept, "instances", f"odd-{number}", raw)
    put(kept, "instances", b"\xff", [NOW, NOW, "{}", "{}"])
    kept.bench.backend.present(speaker())
    assert set(shown(kept)) == {"a", "\ufffd"}
    assert kept.ask("HLEN", kept.key["instances"]) == 2


def test_a_call_looks_at_a_thousand_at_most(kept):
    """Any of them, so that all of them leave at last."""
    gone = json.dumps([0, 0, "{}", "{}"], separators=(",", ":"))
    words = [word for number in range(1500) for word in (f"token-{number}", gone)]
    kept.ask("HSET", kept.key["instances"], *words)
    assert calls(kept, lambda: shown(kept), "hget") == 1001  # the format is one
    assert len(shown(kept)) == 1000
    kept.bench.backend.present(speaker())
    assert len(kept.stored("instances")) == 501
    kept.bench.backend.present(speaker())
    assert shown(kept) == {"a": SAID}


def calls(kept, ask, command):
    """Return how often a command is called by what a question runs."""
    kept.ask("CONFIG", "RESETSTAT")
    ask()
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", kept.ask("INFO", "commandstats").decode())
    return int(found[1]) if found else 0


@pytest.mark.parametrize("how", IN_PASSING)
def test_what_goes_along_costs_no_answer_where_it_can_not_be_kept(kept, how):
    """But who says it for its own sake is told."""
    kept.ask("SET", kept.key["instances"], "x")
    answer = IN_PASSING[how](kept, speaker())
    assert how != "claim" or isinstance(answer.answers[0], Won)
    with pytest.raises(BackendError, match="somebody else uses keys"):
        kept.bench.backend.present(speaker())
    with pytest.raises(BackendError, match="somebody else uses keys"):
        shown(kept)


@pytest.mark.parametrize("variant", ["redis-6.2", "redis-8.2", "valkey-8"])
def test_a_full_server_answers_what_it_would_without(own_server, variant):
    """A claim that is lost writes nothing, and a full server answers it."""
    server = own_server(RedisServer(variant))
    backend = RedisBackend(server.url)
    backend.open(Limits())
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms), Won)
    kept_run = server.ask("HGETALL", "anarchon:{anarchon}:runs")
    server.ask("CONFIG", "SET", "maxmemory", 1)
    b = speaker("b")
    lost = backend.claim([wish("job", slot_ms)], owner=b, wins=1, pace=Pace(0.0))
    assert isinstance(lost.answers[0], Held)
    assert len(backend.unfinished(["job"], owner=b).wrong) == 1
    assert backend.renew([], owner=b, lease_ms=9000).lost == ()
    with pytest.raises(BackendUnavailable, match="OOM"):
        backend.present(b)
    assert backend.instances().instances == ()
    assert server.ask("HGETALL", "anarchon:{anarchon}:runs") == kept_run
    backend.close()


# --- alerts ---------------------------------------------------------------------------------


def test_the_newest_slot_that_was_told_of_is_kept(kept):
    kept.ask("DEL", kept.key["meta"])
    assert tells(kept, 1)
    assert kept.keys() == {"meta", "alerts"}
    assert kept.stored("meta") == {"format": "1"}
    assert kept.stored("alerts") == {"m": f'[{NOW + 1000},"a"]'}
    assert not tells(kept, 0)
    assert not tells(kept, 1, "b")
    assert kept.stored("alerts") == {"m": f'[{NOW + 1000},"a"]'}
    assert tells(kept, 2, "b")
    assert tells(kept, 2, "b", "é\0")
    assert kept.stored("alerts") == {"m": f'[{NOW + 2000},"b"]', "é\0": f'[{NOW + 2000},"b"]'}


def test_both_answers_are_words_of_the_wire(kept):
    calls = [Call("alert", (token,), (("m", NOW), ("m", NOW))) for token in "ab"]
    replies = [kept.bench.any._ask(call, 5.0) for call in calls]
    assert [reply.answers for reply in replies] == [[["yes"]] * 2, [["no"]] * 2]


def test_what_was_told_of_and_what_was_finished_writes_nothing(kept):
    kept.bench.run_through(1, job="m")
    assert not tells(kept, 1)
    assert not kept.stored("alerts")
    assert tells(kept)
    assert calls(kept, lambda: [tells(kept), tells(kept, by="b"), tells(kept, -1)], "hset") == 0


def test_a_run_that_can_not_be_read_is_told_of(kept):
    """It counts as lost."""
    kept.bench.run_through(0, job="m")
    kept.ask("HSET", kept.key["runs"], *kept.stored("runs"), "x")
    assert tells(kept)


FINE = [NOW + 5000, "x"]
UNTOLD = [
    *RAW,
    FINE[:1],
    *([value, "x"] for value in (*ODD, 253_402_300_800_000)),
    *([NOW + 5000, value] for value in (None, 1, [1], {}, True)),
]


@pytest.mark.parametrize("raw", UNTOLD, ids=str)
def test_an_alert_that_can_not_be_read_was_never_told(kept, raw):
    put(kept, "alerts", "other", FINE)
    put(kept, "alerts", "m", raw)
    assert not tells(kept, job="other")
    assert tells(kept)
    assert not tells(kept, by="b")
    assert kept.stored("alerts")["m"] == f'[{NOW},"a"]'


def test_one_that_can_be_read_was(kept):
    put(kept, "alerts", "m", FINE)
    assert not tells(kept)
    assert not tells(kept, 5)
    assert tells(kept, 5, "x")
    assert tells(kept, 5.001)
