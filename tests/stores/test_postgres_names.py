"""What comes into a PostgreSQL store as text: names that never meet, secrets that never show."""

from __future__ import annotations

import logging
import pickle
import traceback
import uuid

import pytest

from anarchon._values import Held, Limits, Owner, RunKey, Won
from anarchon.backends import _postgres_advice as advice
from anarchon.backends import _postgres_words as words
from anarchon.backends._wire import Call
from anarchon.backends.postgres import PostgresBackend
from anarchon.errors import BackendUnavailable, ConfigurationError
from tests.servers.processes import free_port
from tests.stores.helpers import claim, finish, lease, now_ms
from tests.stores.postgres_places import database_on

LIMITS = Limits(5.0, 5.0, 5.0)
NAMES = [
    "job", "Job", "job ", " job", "jo\0b", "jo\\0b", "jo\u24000b", "jo\u2400\u24000b", "jo\u2400b",
    "o'clock", 'quo"te', "back\\slash", "back\\\\slash", "%", "%s", "_", "$1", ";--", "{}", "a,b",
    "é", "e\u0301", "😀", "\uffff", "\x7f", "\n", "null", "NULL", "x" * 200, "x" * 199, "😀" * 200,
]  # fmt: skip


@pytest.fixture(scope="module")
def database(shared_server):
    with database_on(shared_server, "postgres-15") as database:
        backend = PostgresBackend(database.url)
        backend.open(Limits(20.0, 20.0, 20.0))
        backend.prepare([])
        backend.close()
        yield database


@pytest.fixture
def backend(database):
    backend = PostgresBackend(database.url, namespace=f"names {uuid.uuid4()}")
    backend.open(LIMITS)
    yield backend
    backend.close()


def test_no_two_names_meet(backend):
    slot_ms = now_ms()
    for number, name in enumerate(NAMES):
        assert isinstance(claim(backend, name, slot_ms, by=str(number)), Won)
    for number, name in enumerate(NAMES):
        held = claim(backend, name, slot_ms)
        assert isinstance(held, Held)
        assert (held.run.owner, held.key.job) == (str(number), name)
        assert [run.job for run in backend.history(name, limit=9)] == [name]
    looked = backend.unfinished(NAMES, owner=Owner("z", "z"))
    assert [run.key.job for run in looked.wrong] == NAMES
    pages = []
    while page := backend.history(None, limit=7, before=pages[-1] if pages else None):
        pages += page
    assert sorted(run.job for run in pages) == sorted(NAMES)


def test_namespaces_do_not_meet_either(database):
    slot_ms = now_ms()
    spaces = [name for name in NAMES if name.isprintable() and name == name.strip()]
    for number, space in enumerate(spaces):
        backend = PostgresBackend(database.url, namespace=space)
        backend.open(LIMITS)
        assert isinstance(claim(backend, "job", slot_ms, by=str(number)), Won)
        backend.close()
        assert [run.instance_id for run in backend.history(None, limit=9)] == [str(number)]


@pytest.mark.parametrize("token", NAMES[:20])
def test_owners_and_checkpoints_are_texts_as_well(backend, token):
    slot_ms = now_ms()
    assert isinstance(claim(backend, "job", slot_ms, by=token), Won)
    assert backend.save(lease("job", slot_ms), owner=Owner(token, "x"), value=token)
    again = claim(backend, "job", slot_ms, by=token)
    assert isinstance(again, Won)
    assert again.checkpoint == token
    finish(backend, "job", slot_ms, by=token, detail=token)


def test_a_key_that_no_index_holds_fails_alone(backend, database):
    """A name of ten thousand letters that don't repeat; nobody else is disturbed."""
    long = "".join(chr(0x4E00 + number) for number in range(10_000))
    with pytest.raises(BackendUnavailable):
        claim(backend, long, now_ms())
    assert backend.history(long, limit=9) == []
    assert not backend.cancel(RunKey(long, 0))
    assert isinstance(claim(backend, "job", now_ms()), Won)
    database.allowed += ("index row",)


@pytest.mark.parametrize("text", [*NAMES, "\\u0000", "\\\0", "\u2400" * 3, "\0" * 3, "\\\\u2400"])
def test_texts_go_there_and_back(text):
    call = Call("x", (text,), ((text, 1, None),))
    sent = words.head_of(call).decode()
    assert sent.isascii()
    assert "\\u0000" not in sent.replace("\\\\", "")
    import json

    stored = json.loads(sent)[0]
    assert "\0" not in stored
    answer = json.dumps([1, [[stored]]], ensure_ascii=False).encode()
    assert words.reply_of(answer).answers == [[text]]


# --- secrets ---

SECRET = "s3cr3t%"


def shows(error: BaseException) -> bool:
    return SECRET in "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    "address",
    [
        f"host=h password={SECRET} nonsense",
        f"host=h password='{SECRET}",
        f"{SECRET}",
        f"host=h pasword={SECRET}",
        f"postgresql://u:{SECRET}@h/d",
        f"postgresql://u:{SECRET}25/x@h/d",
        f"postgresql://u:x@{SECRET}25@h/d",
        f"postgresql://u@h:{SECRET}25/d",
        f"postgresql://u@h/d?password={SECRET}25&what=1",
        f"dbname=postgresql://u:{SECRET}@h/d",
        f"host=h dbname='password={SECRET}'",
        f"host=postgresql://u:{SECRET}@h/d",
        f"host=u:{SECRET}@h",
    ],
)
def test_an_address_that_can_not_be_read_is_not_shown(address):
    with pytest.raises(ConfigurationError) as caught:
        PostgresBackend(address)
    assert not shows(caught.value)
    assert "%40" in str(caught.value)


@pytest.mark.parametrize(
    "form",
    ["postgresql://u:{0}25@127.0.0.1:{1}/d", "host=127.0.0.1 port={1} user=u password='{0}'"],
)
def test_a_password_is_in_no_error_no_repr_and_no_log(form, caplog):
    caplog.set_level(logging.DEBUG)
    backend = PostgresBackend(form.format(SECRET, free_port()))
    with pytest.raises(BackendUnavailable) as caught:
        backend.open(LIMITS)
    backend.close()
    assert not shows(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert SECRET not in repr(backend) + caplog.text
    assert "127.0.0.1" in repr(backend)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("service=jobs", "service=jobs "),
        ("hostaddr=192.0.2.1 port=1", "hostaddr=192.0.2.1 port=1 "),
        ("", ""),
    ],
)
def test_a_store_is_named_by_its_place(address, shown):
    assert repr(PostgresBackend(address)) == f"<PostgresBackend {shown}namespace='anarchon'>"


def test_a_wrong_password_is_told_without_it(shared_server):
    server = shared_server("postgres-15")
    role = f"guarded {uuid.uuid4()}"
    server.create_role(role, "right")
    backend = PostgresBackend(server.conninfo("postgres", user=role, password=SECRET))
    with pytest.raises(BackendUnavailable, match="doesn't take this password") as caught:
        backend.open(LIMITS)
    backend.close()
    assert not shows(caught.value)
    nowhere = PostgresBackend(server.conninfo("nowhere"))
    with pytest.raises(BackendUnavailable, match="no such database"):
        nowhere.open(LIMITS)
    nowhere.close()


def test_what_a_function_raises_may_quote_an_address():
    def function():
        import psycopg

        return psycopg.connect(f"host=h {SECRET}")

    backend = PostgresBackend(function)
    with pytest.raises(BackendUnavailable) as caught:
        backend.open(LIMITS)
    backend.close()
    assert SECRET not in str(caught.value)


# --- findings ---


@pytest.mark.parametrize("silence", ["fsync", ["fsink"], 7, [None], [["fsync"]]])
def test_an_unknown_finding_is_refused(silence):
    with pytest.raises(ConfigurationError, match="there are: clock-offset, fsync"):
        PostgresBackend("postgresql://h", silence=silence)


FINE = advice.Found(
    150000, "15", False, False, "UTF8", "on", "", "on", "on", "public", 0, [], "read committed", []
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "offset_ms", "names"),
    [
        ({}, 0, []),
        ({}, 1001, ["clock-offset"]),
        ({}, 999, []),
        ({"synchronous_commit": "off"}, 0, ["synchronous-commit"]),
        ({"synchronous_commit": "local"}, 0, []),
        ({"synchronous_commit": "local", "standbys": "x"}, 0, ["synchronous-commit"]),
        ({"synchronous_commit": "remote_write", "standbys": "x"}, 0, []),
        ({"fsync": "off", "full_page_writes": "off"}, 0, ["fsync", "full-page-writes"]),
        ({"unlogged": ["anarchon_run"]}, 0, ["unlogged-tables"]),
        ({"isolation": "serializable"}, 0, ["isolation"]),
        ({"other_schemas": ["web"]}, 0, ["other-schema"]),
    ],
)
def test_what_is_found(changes, offset_ms, names):
    found = FINE._replace(**changes)
    assert [one.name for one in advice.findings(found, offset_ms, frozenset())] == names
    assert advice.findings(found, offset_ms, frozenset(names)) == ()
    assert set(names) <= set(advice.FINDINGS)


def test_a_real_server_is_asked(database):
    database.ask(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    database.ask("ALTER TABLE anarchon_checkpoint SET UNLOGGED")
    told = []
    for silence in ((), ("fsync", "synchronous-commit")):
        backend = PostgresBackend(database.url, silence=silence)
        info = backend.open(LIMITS)
        backend.close()
        assert not info.steady
        assert info.version.startswith("15.")
        assert abs(info.store_ms - now_ms()) < 5000
        told.append([one.name for one in info.findings])
    assert told == [["fsync", "synchronous-commit", "unlogged-tables"], ["unlogged-tables"]]
    database.ask("ALTER TABLE anarchon_checkpoint SET LOGGED")
