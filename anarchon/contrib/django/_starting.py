"""Where the scheduler of a project starts: in processes that serve, and in no other command.

Under ``runserver`` it starts when the port is bound. Before that the checks may fail, a migration
or the port may be in the way, and Django then ends the process by `os._exit`, in the middle of
handlers. There is no signal for it, so the method is wrapped that says where the server is.
"""

from __future__ import annotations

import sys
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.management import get_commands
from django.core.signals import request_started

from ..._log_lines import trouble, write
from ._scheduler import project_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

SERVES = "runserver"
_MODULE = "django.core.management.commands.runserver"
_PROGRAMS = ("manage.py", "django-admin", "django-admin.py", "django-admin.exe")


def start_here(*, retry: bool) -> None:
    """Start the scheduler, unless this process is a command of Django's that doesn't serve.

    Some commands load ``wsgi.py`` by accident: a test that imports it, a shell.
    """
    if is_other_command(sys.argv):
        return
    scheduler = project_scheduler()
    if is_runserver(sys.argv) or _is_in_runserver():
        _server.when_bound(partial(scheduler.start, retry=retry))
    else:
        scheduler.start(retry=retry)


def start_with_server() -> None:
    """Start the scheduler when the development server serves, for ``AUTOSTART="server"``.

    With the reloader that is in the child: the parent only watches it, and binds nothing.
    """
    if sys.argv[1:2] == [SERVES]:  # whatever the program is called that leads to commands
        start = partial(project_scheduler().start, retry=True)
        _server.when_bound(start, with_request=is_runserver(sys.argv))


def is_other_command(argv: Sequence[str]) -> bool:
    """Say whether a process runs a command of Django's own other than ``runserver``."""
    if len(argv) < 2 or not _is_django(argv[0]) or argv[1] == SERVES:
        return False
    found = get_commands().get(argv[1], "")
    return str(getattr(found, "__module__", found)).partition(".")[0] == "django"


def is_runserver(argv: Sequence[str]) -> bool:
    """Say whether a process runs the development server, its reloader's parent included."""
    return argv[1:2] == [SERVES] and _is_django(argv[0])


def _is_django(program: str) -> bool:
    path = Path(program)
    return path.name in _PROGRAMS or path.parts[-2:] == ("django", "__main__.py")


def _is_in_runserver() -> bool:
    """Say whether ``runserver`` has called us, by another name or out of another command."""
    command: type | None = getattr(sys.modules.get(_MODULE), "Command", None)
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - documented, in spite of its name
    while command is not None and frame is not None:
        # Not by `isinstance`: a lazy object would be asked for its class, and set itself up.
        if issubclass(type(frame.f_locals.get("self")), command):
            return True
        frame = frame.f_back
    return False


class _Server:
    """The development server in this process, and what is to be done when it serves."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._is_bound = self._is_watched = False

    def when_bound(self, start: Callable[[], None], *, with_request: bool = True) -> None:
        """Call a function when the port is bound, or now if it is.

        Args:
            start: What to call.
            with_request: Whether a first request says so as well: a ``runserver`` of another
                package need not tell anybody when it has bound.
        """
        if self._is_bound:
            start()
            return
        self._waiting.append(start)
        if with_request:
            request_started.connect(self._requested, dispatch_uid=_MODULE)
        if not self._is_watched:
            self._is_watched = True
            self._watch()

    def _watch(self) -> None:
        from django.core.management.commands.runserver import Command

        on_bind = Command.on_bind

        @wraps(on_bind)
        def bound(command: Command, server_port: int) -> None:
            on_bind(command, server_port)
            self._bound()

        Command.on_bind = bound  # type: ignore[method-assign, assignment]

    def _bound(self) -> None:
        self._is_bound = True
        request_started.disconnect(dispatch_uid=_MODULE)
        starts, self._waiting = self._waiting, []
        for start in starts:
            start()

    def _requested(self, **_: object) -> None:
        try:
            self._bound()
        except Exception as error:  # the site is served all the same
            write(trouble("the scheduler of the project could not start", error))


_server = _Server()
