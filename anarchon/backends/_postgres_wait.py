"""Waiting for a PostgreSQL server, never past a deadline.

What a connection of psycopg is made of, libpq's own, can be asked without ever blocking. So
every wait is one of ours, on the socket and with a deadline: also on a connection of a
user's pool, with TLS or without, while the network swallows everything. (A call of psycopg's
`execute` ends when the kernel gives up, and on a half-open socket that takes many minutes.)
Nothing is prepared, no transaction is begun and no setting is changed, whatever the
connection's own settings are, so a pooler may stand in between.

Deadlines are of `time.monotonic`.
"""

from __future__ import annotations

import selectors
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGconn, PGresult

# Undone because of others who were at it as well: nothing is wrong, and nothing was written.
_AGAIN = ("40001", "40P01")
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


def ask_function(
    pgconn: PGconn,
    function: str,
    values: Sequence[bytes | None],
    deadline: float,
    along: tuple[str, bytes] | None = None,
) -> bytes:
    """Call a function with these values and return its text in UTF8.

    `along` is another function, and what to give it behind the answer of the first one and the
    first value; it returns that answer. So it comes second, whatever the server likes.

    It waits for locks as long as we wait for it, also for those of tables that it needs to be
    compiled: what stands behind FROM comes first. That setting ends with the transaction,
    which is this statement. Where the role's transactions are stricter than read committed,
    they may be undone, and are then repeated.

    Raises:
        TimeoutError: The deadline passed; the connection is of no use any more.
        psycopg.Error: The server refused, or the connection broke.
    """
    from psycopg import Error

    count = len(values)
    numbers = ", ".join(f"${number}" for number in range(1, count + 1))
    setting = f"set_config('lock_timeout', ${count + 1}, true)"
    called, more = f"{function}({numbers})", list[bytes]()
    if along is not None:
        called, more = f"{along[0]}({called}, $1, ${count + 2})", [along[1]]
    # The schema of functions is quoted.
    statement = f"SELECT convert_to({called}::text, 'UTF8') FROM {setting}"  # noqa: S608
    while True:
        try:
            patience = str(patience_ms(deadline)).encode()
            answer = ask(pgconn, statement.encode(), (*values, patience, *more), deadline)
        except Error as error:
            if error.sqlstate not in _AGAIN or time.monotonic() >= deadline:
                raise
        else:
            assert answer is not None
            return answer


def patience_ms(deadline: float) -> int:
    """Return how long the server may wait for a lock: as long as we wait for it, at least 1 ms."""
    return max(1, int((deadline - time.monotonic()) * 1000))


def ask(
    pgconn: PGconn, statement: bytes, values: Sequence[bytes | None], deadline: float
) -> bytes | None:
    """Run one statement and return its one value as bytes, or None when it has none.

    Raises:
        TimeoutError: The deadline passed; the connection is of no use any more.
        psycopg.Error: The server refused, or the connection broke.
    """
    from psycopg import pq

    pgconn.nonblocking = 1
    pgconn.send_query_params(statement, [*values], result_format=pq.Format.BINARY)
    return _answer(pgconn, deadline)


def ask_table(pgconn: PGconn, statement: str, deadline: float) -> bytes | None:
    """Run one statement without values, which waits for locks as long as we wait for it.

    It is sent with the setting before it in one message, which the server takes for one
    transaction; so does a pooler. Its value comes as text.

    Raises:
        TimeoutError: The deadline passed; the connection is of no use any more.
        psycopg.Error: The server refused, or the connection broke.
    """
    setting = f"SELECT set_config('lock_timeout', '{patience_ms(deadline)}', true)"
    pgconn.nonblocking = 1
    pgconn.send_query(f"{setting}; {statement}".encode())
    return _answer(pgconn, deadline)


def _answer(pgconn: PGconn, deadline: float) -> bytes | None:
    from psycopg import pq
    from psycopg.errors import error_from_result

    while pgconn.flush():
        if _ready(pgconn, _READ | _WRITE, deadline) & _READ:
            pgconn.consume_input()  # a server that is stuck in sending reads nothing
    result = None
    while (newer := _result(pgconn, deadline)) is not None:
        result = newer
    done = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
    assert result is not None
    if result.status not in done:
        raise error_from_result(result)
    return result.get_value(0, 0) if result.ntuples else None


def _result(pgconn: PGconn, deadline: float) -> PGresult | None:
    while pgconn.is_busy():
        _ready(pgconn, _READ, deadline)
        pgconn.consume_input()
    return pgconn.get_result()


def connect(attempts: Sequence[str], failed: Sequence[Exception], deadline: float) -> PGconn:
    """Return a connection to the first of these that lets us in; each has its share of the time.

    Args:
        attempts: What libpq takes, one for each address.
        failed: What went wrong before with others; it is told when no attempt succeeds.
        deadline: When to give up.

    Raises:
        TimeoutError: None of them answered in time.
        psycopg.Error: Each of them refused, or didn't answer.
    """
    from psycopg import OperationalError

    errors = [*failed]
    for number, conninfo in enumerate(attempts):
        now = time.monotonic()
        try:
            return _connect(conninfo.encode(), now + (deadline - now) / (len(attempts) - number))
        except Exception as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    text = "; ".join(dict.fromkeys(str(error).strip() for error in errors))
    if all(isinstance(error, TimeoutError) for error in errors):
        raise TimeoutError(text)
    raise OperationalError(text)


def _connect(conninfo: bytes, deadline: float) -> PGconn:
    from psycopg import OperationalError, pq

    pgconn = pq.PGconn.connect_start(conninfo)
    try:
        status: int = pq.PollingStatus.WRITING  # as libpq wants it
        waits = (pq.PollingStatus.READING, pq.PollingStatus.WRITING)
        while pgconn.status != pq.ConnStatus.BAD and status in waits:
            _ready(pgconn, _READ if status == pq.PollingStatus.READING else _WRITE, deadline)
            status = pgconn.connect_poll()
    except TimeoutError:
        place = f"{pgconn.host.decode(errors='replace')}, port {pgconn.port.decode()}"
        pgconn.finish()
        raise TimeoutError(f"{place}: the server did not answer in time") from None
    except BaseException:
        pgconn.finish()
        raise
    if status == pq.PollingStatus.OK:
        return pgconn
    message = pgconn.error_message.decode(errors="replace")
    pgconn.finish()
    raise OperationalError(message)


def _ready(pgconn: PGconn, events: int, deadline: float) -> int:
    """Wait until the socket can be read or written, and return which."""
    # Looked up now: whoever patches modules for green threads replaces it.
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, events)
        ready = selector.select(max(0.0, deadline - time.monotonic()))
    if not ready:
        raise TimeoutError("the server did not answer in time")
    return ready[0][1]
