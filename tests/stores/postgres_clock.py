"""A PostgreSQL store whose clock is moved by hand: its function for the time reads a table."""

from __future__ import annotations

from anarchon._testing_contract.bench import HandClock
from anarchon._values import Limits
from anarchon.backends.postgres import PostgresBackend

SCHEMA = "by hand"


class TableClock(HandClock):
    """The time in a table of the database."""

    def __init__(self, place) -> None:
        super().__init__()
        self._connection = place.connect()
        self._store()

    def advance(self, ms: float) -> None:
        super().advance(ms)
        self._store()

    def step(self, ms: float) -> None:
        super().step(ms)
        self._store()

    def begin_again(self) -> None:
        """Go back to the moment at which every clock that is moved by hand begins."""
        super().__init__()
        self._store()

    def close(self) -> None:
        self._connection.close()

    def _store(self) -> None:
        self._connection.execute(f'UPDATE "{SCHEMA}".clock SET ms = %s', (self.wall_ms(),))


class ByHand(PostgresBackend):
    """A store on that clock."""

    def __init__(self, connection, *, clock: TableClock, **options) -> None:
        super().__init__(connection, schema=SCHEMA, **options)
        self.clock = clock

    def open(self, limits):
        return super().open(limits)._replace(store_ms=self.clock.wall_ms())


def prepare(place) -> None:
    """Create the schema of such stores in a database."""
    backend = PostgresBackend(place.url, schema=SCHEMA)
    backend.open(Limits())
    backend.prepare([])
    backend.close()
    clock = "CREATE TABLE clock (ms bigint); INSERT INTO clock VALUES (0)"
    function = (
        "CREATE OR REPLACE FUNCTION anarchon_now_v1() RETURNS bigint LANGUAGE sql VOLATILE "
        f"""AS 'SELECT ms FROM "{SCHEMA}".clock'"""
    )
    place.ask(f'SET search_path TO "{SCHEMA}"; {clock}; {function}')
