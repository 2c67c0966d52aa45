"""A connection pooler in front of a PostgreSQL server, in transaction mode."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from tests.servers.postgres import give, stand_in
from tests.servers.processes import Bringer, Missing, Server

if TYPE_CHECKING:
    from tests.servers.postgres import Postgres


def binary() -> str:
    """Return the path of the program; raises `Missing`."""
    places = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    path = shutil.which("pgbouncer", path=places)
    if path is None:
        raise Missing("pgbouncer", Bringer.SYSTEM)
    return path


class PgBouncer(Server):
    """Gives each transaction one of `pool_size` connections to a database of `server`.

    Everybody is let in, and is the superuser there.
    """

    def __init__(self, server: Postgres, *, pool_size: int = 5) -> None:
        self._program = binary()
        super().__init__("pgbouncer")
        self.server = server
        self.pool_size = pool_size
        give(self.folder)

    def conninfo(self, database: str = "postgres", **more: object) -> str:
        """Return what libpq needs to come in."""
        return self.server.conninfo(database, **({"port": self.port} | more))

    def url(self, database: str = "postgres") -> str:
        """Return the same as an address."""
        return f"postgresql://postgres@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        """Make an empty database of the server, and return its name."""
        return self.server.create_database()

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the connections to it."""
        self.server.drop_database(name)

    def errors(self, database: str | None = None) -> list[str]:
        """Return what the server's log complains about."""
        return self.server.errors(database)

    def command(self) -> list[str]:
        config = self.folder / "pgbouncer.ini"
        config.write_text(
            f"""\
[databases]
* = host={self.server.host} port={self.server.port} user=postgres
[pgbouncer]
listen_addr = {self.host}
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {self.pool_size}
max_client_conn = 1000
admin_users = postgres
server_login_retry = 0.1
"""
        )
        config.chmod(0o644)
        return [self._program, str(config)]

    def answers(self) -> bool:
        return f"[{self.pid}] LOG process up" in self.log

    def user(self) -> dict[str, object]:
        return stand_in()
