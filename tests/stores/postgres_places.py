"""A database of its own on a shared PostgreSQL server, directly or through a pooler."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager


class Database:
    """An empty database: `url` leads there, `ask` and `connect` go past any pooler.

    `allowed` is what the server's log may complain about, when a test provokes it.
    """

    allowed: tuple[str, ...] = ()

    def __init__(self, front, server) -> None:
        self.server = server
        self.front = front
        self.name = server.create_database()
        self.url = front.url(self.name)

    def connect(self):
        return self.server.connect(self.name)

    def ask(self, statement, parameters=None):
        return self.server.ask(statement, parameters, database=self.name)

    def errors(self) -> list[str]:
        return [line for line in self.server.errors(self.name) if not self._is_allowed(line)]

    def _is_allowed(self, line: str) -> bool:
        return any(words in line for words in self.allowed)


@contextmanager
def database_on(shared_server, variant: str):
    """Give a database for a while; nothing in its log may be an error."""
    front = shared_server(variant)
    database = Database(front, getattr(front, "server", front))
    yield database
    errors = database.errors()
    assert errors == [], errors
    database.server.drop_database(database.name)


def certificate(server):
    """Let a server that isn't started yet speak TLS."""
    key, cert = server.folder / "server.key", server.folder / "server.crt"
    subject = ["-subj", "/CN=localhost", "-days", "2", "-newkey", "rsa:2048", "-nodes"]
    subprocess.run(
        ["openssl", "req", "-x509", *subject, "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    from tests.servers.postgres import give

    for path in (key, cert):
        give(path)
        path.chmod(0o600)
    server.settings |= {"ssl": "on", "ssl_key_file": key, "ssl_cert_file": cert}
    return server
