"""Where an address leads: its hosts one by one, their names looked up within a deadline.

libpq looks names up by itself, for as long as the name server likes, and meanwhile nothing
else runs in the process. So it is only ever given addresses, and what it would find in a
service file or in the environment is looked for here.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from ipaddress import ip_address
from random import shuffle
from typing import TYPE_CHECKING, Any, TypeAlias

from ._aside import within

if TYPE_CHECKING:
    from collections.abc import Mapping

Params: TypeAlias = dict[str, Any]

_VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "load_balance_hosts": "PGLOADBALANCEHOSTS",
}


class Given:
    """What an address says, its service where it says nothing, and then the environment."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params: Params = {**params}
        self._service: Mapping[str, str] = {}
        if name := params.get("service") or os.environ.get("PGSERVICE"):
            self._service = _service(str(name), params.get("servicefile"))

    def __call__(self, name: str) -> str:
        """Return a parameter, empty where nobody gives one."""
        given = self.params.get(name) or self._service.get(name)
        return str(given or os.environ.get(_VARIABLES[name]) or "")


def _service(name: str, file: str | None) -> dict[str, str]:
    """Return what the service files of the user or of the system say of a service."""
    files = [file or os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf"]
    if folder := os.environ.get("PGSYSCONFDIR"):
        files.append(f"{folder}/pg_service.conf")
    # `pathlib` may not be loaded.
    for path in map(os.path.expanduser, files):
        lines: list[str] = []
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as text:  # noqa: PTH123
            lines = [line.strip() for line in text]
        if f"[{name}]" in lines:
            lines = lines[lines.index(f"[{name}]") + 1 :]
            ends = [number for number, line in enumerate(lines) if line.startswith("[")]
            pairs = (line.partition("=") for line in lines[: min(ends, default=None)])
            return {key: value for key, _, value in pairs if not key.startswith("#")}
    return {}


def attempts(given: Given, deadline: float) -> tuple[list[Params], list[Exception]]:
    """Return one set of parameters for each address of each host, and the hosts' failures."""
    hosts, numeric, ports = (_list(given(name)) for name in ("host", "hostaddr", "port"))
    count = max(len(hosts), len(numeric))
    if count == 0:  # the default, a local socket
        return [given.params], []
    one_each = ports * count if len(ports) == 1 else ports
    found: list[Params] = []
    failed: list[Exception] = []
    for number in range(count):
        own = {**given.params}
        for name, values in (("host", hosts), ("hostaddr", numeric), ("port", one_each)):
            if number < len(values) and values[number]:
                own[name] = values[number]
            elif name in own:
                del own[name]
        try:
            found += _resolved(own, deadline)
        except OSError as error:
            kind = TimeoutError if isinstance(error, TimeoutError) else OSError
            failed.append(kind(f"{own['host']}: {error}"))
    if given("load_balance_hosts") == "random":
        shuffle(found)
    return found, failed


def _list(text: str) -> list[str]:
    return text.split(",") if text else []


def _resolved(params: Params, deadline: float) -> list[Params]:
    """Return the parameters with each address of their host, asked of the name server."""
    host = params.get("host")
    if not host or "hostaddr" in params or host.startswith(("/", "@")):
        return [params]
    try:
        ip_address(host)
    except ValueError:
        return [{**params, "hostaddr": address} for address in _addresses(host, deadline)]
    return [params]


def _addresses(host: str, deadline: float) -> list[str]:
    """Return the addresses of a host, however long its name server thinks about them.

    Raises:
        TimeoutError: The name server didn't answer in time.
        OSError: There is no such host.
    """
    found = within(
        lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM),
        deadline - time.monotonic(),
        late=lambda _: None,
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
