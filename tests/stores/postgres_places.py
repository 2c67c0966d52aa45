"""A database of its own on a shared PostgreSQL server, directly or through a pooler."""

from __future__ import annotations

from contextlib import contextmanager


class Database:
    """An empty database: `url` leads there, `ask` and `connect` go past any pooler."""

    def __init__(self, front, server) -> None:
        self.server = server
        self.name = server.create_database()
        self.url = front.url(self.name)

    def connect(self):
        return self.server.connect(self.name)

    def ask(self, statement, parameters=None):
        return self.server.ask(statement, parameters, database=self.name)

    def errors(self) -> list[str]:
        return self.server.errors(self.name)


@contextmanager
def database_on(shared_server, variant: str):
    """Give a database for a while; nothing in its log may be an error."""
    front = shared_server(variant)
    database = Database(front, getattr(front, "server", front))
    yield database
    assert database.errors() == []
    database.server.drop_database(database.name)
