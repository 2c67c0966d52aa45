"""The same transactions through Django, SQLAlchemy and psycopg2."""

from __future__ import annotations

from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from anarchon import ConfigurationError
from anarchon._values import Closed, Held
from tests.fencing.places import complete, fence, take_over


@pytest.fixture(scope="module")
def django_connections():
    """Return a function that makes connections of Django's."""
    import django
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    made = []

    def connect(place):
        if place.kind == "sqlite":
            how = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(place.where)}
        else:
            parts = urlsplit(place.where)
            how = {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts.path.strip("/"),
                "USER": parts.username,
                "PASSWORD": parts.password or "",
                "HOST": parts.hostname,
                "PORT": parts.port,
                "DISABLE_SERVER_SIDE_CURSORS": True,
                "OPTIONS": {"prepare_threshold": None},
            }
        handler = ConnectionHandler({"default": how})
        made.append(handler)
        return handler["default"]

    yield connect
    for handler in made:
        handler.close_all()


def engine_of(place):
    if place.kind == "sqlite":
        return sqlalchemy.create_engine(f"sqlite:///{place.where}")
    url = place.where.replace("postgresql://", "postgresql+psycopg://")
    return sqlalchemy.create_engine(url, connect_args={"prepare_threshold": None})


@contextmanager
def connected(place):
    engine = engine_of(place)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


INSERT = sqlalchemy.text("INSERT INTO paid VALUES ('job', 0)")


# --- Django -----------------------------------------------------------------------


def test_django_commits_both(bench, place, django_connections):
    from django.db.transaction import Atomic

    connection = django_connections(place)
    connection.ensure_connection()
    bench.claim(0)
    connection.set_autocommit(True)
    with atomic(connection, Atomic):
        connection.cursor().execute("INSERT INTO paid VALUES ('job', 0)")
        assert fence(bench, connection) == "held"
        assert complete(bench, connection) == "held"
    assert place.paid() == [("job", 0)]
    assert bench.told() == [(0, 1, "success", None)]


@contextmanager
def atomic(connection, kind):
    """`transaction.atomic()` of a connection that is none of the project's own."""
    import django.db.transaction as transactions

    before = transactions.get_connection
    transactions.get_connection = lambda using=None: connection
    try:
        with kind("default", savepoint=True, durable=False):
            yield
    finally:
        transactions.get_connection = before


def test_django_rolls_both_back(bench, place, django_connections):
    from django.db.transaction import Atomic

    connection = django_connections(place)
    bench.claim(0)

    def pay():
        with atomic(connection, Atomic):
            complete(bench, connection)
            connection.cursor().execute("INSERT INTO paid VALUES ('job', 0)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pay()
    assert place.paid() == []
    assert bench.told() == [(0, 1, "running", None)]


def test_django_without_a_block_is_refused(bench, place, django_connections):
    bench.claim(0)
    with pytest.raises(ConfigurationError, match=r"enter `with transaction\.atomic\(\):` first"):
        fence(bench, django_connections(place))


# --- SQLAlchemy -------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False], ids=["effect first", "completed first"])
def test_sqlalchemy_commits_both(bench, place, before):
    bench.claim(0)
    with connected(place) as connection:
        if before:
            connection.execute(INSERT)
        assert fence(bench, connection) == complete(bench, connection) == "held"
        if not before:
            connection.execute(INSERT)
        connection.commit()
    assert place.paid() == [("job", 0)]
    assert bench.told() == [(0, 1, "success", None)]


def test_sqlalchemy_commits_what_has_no_other_effect(bench, place):
    """Its transaction must have begun by that one call."""
    bench.claim(0)
    with connected(place) as connection:
        complete(bench, connection)
        connection.commit()
    assert bench.told() == [(0, 1, "success", None)]


def test_sqlalchemy_rolls_both_back(bench, place):
    bench.claim(0)
    with connected(place) as connection:
        complete(bench, connection)
        connection.execute(INSERT)
    assert place.paid() == []
    assert bench.told() == [(0, 1, "running", None)]


@pytest.mark.parametrize("scoped", [False, True])
def test_a_session_of_sqlalchemy(bench, place, scoped):
    engine = engine_of(place)
    bench.claim(0)
    session = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    complete(bench, session)
    session.execute(INSERT)
    session.commit()
    session.remove() if scoped else session.close()
    engine.dispose()
    assert place.paid() == [("job", 0)]
    assert isinstance(take_over(bench), Closed)


def test_sqlalchemy_in_autocommit_mode_is_refused(bench, place):
    bench.claim(0)
    engine = engine_of(place)
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(ConfigurationError, match="no transaction to share"),
    ):
        fence(bench, connection)
    engine.dispose()


# --- psycopg2 ---------------------------------------------------------------------


def test_psycopg2(postgres):
    bench = postgres.bench()
    bench.claim(0)
    connection = psycopg2.connect(postgres.where, cursor_factory=psycopg2.extras.RealDictCursor)
    assert fence(bench, connection) == "held"
    assert isinstance(take_over(bench), Held)
    connection.cursor().execute("INSERT INTO paid VALUES ('job', 0)")
    assert complete(bench, connection) == "held"
    connection.commit()
    connection.autocommit = True
    with pytest.raises(ConfigurationError, match="no transaction to share"):
        fence(bench, connection)
    connection.close()
    assert postgres.paid() == [("job", 0)]
    assert isinstance(take_over(bench), Closed)
    bench.backend.close()
