"""Pings for services that raise an alarm when a job is not heard of, a dead man's switch.

::

    from anarchon.contrib.ping import ping

    ping(scheduler, {"digest": "https://hc-ping.example/5f0c..."})  # before scheduler.start()

Each run of the job asks for the address with ``/start`` when it starts, for the address itself
when it has succeeded, and for the address with ``/fail`` when it has failed. Nothing but the
standard library is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._durations import check_askable, parse_ms, shown
from .._named import NamedTuple
from ..errors import ConfigurationError
from ._ping_sending import Ping, Sender, checked_url, with_path
from ._watching import Watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._durations import Duration
    from .._runs import Run
    from ..scheduler import Scheduler

__all__ = ["PingUrls", "ping"]

MOST_TRIES = 10
LEAST_TIMEOUT_MS = 100


class PingUrls(NamedTuple):
    """The addresses for one job, where they don't follow from one another.

    Attributes:
        success: Asked for when a run has succeeded; None for nothing.
        start: Asked for when an attempt starts; None for nothing.
        fail: Sent a text by ``POST`` when a run has failed; None for nothing.
    """

    success: str | None = None
    start: str | None = None
    fail: str | None = None

    def __repr__(self) -> str:
        told = (name for name, url in self._asdict().items() if url is not None)
        return f"PingUrls({', '.join(f'{name}=...' for name in told)})"


def ping(
    scheduler: Scheduler,
    urls: Mapping[str, str | PingUrls | None],
    *,
    timeout: Duration = 5,
    tries: int = 3,
) -> None:
    """Tell a service of starts, successes and failures of jobs, from the next start on.

    Pings are sent one after another on a thread of their own, which is there while there are any.
    A ping that doesn't get through is a warning in the log, once until one does, and holds up
    nothing. So is, at the start, a name that no job has. No address is ever logged: whoever knows
    it can send pings.

    Args:
        scheduler: The scheduler, not started yet.
        urls: The address of each job by the job's name: one whose ``/start`` and ``/fail`` are
            known to the service, `PingUrls` for other services, or None for no pings.
        timeout: How long one try may take.
        tries: How often a ping is tried, from 1 to 10, with pauses that grow.

    Raises:
        ConfigurationError: That is no scheduler, it runs already, or it is pinged for already; or
            one of the other arguments can't be meant.
    """
    check_askable(urls, "ping(urls)")
    check_askable(tries, "ping(tries)")
    seconds = parse_ms(timeout, what="ping(timeout)", minimum_ms=LEAST_TIMEOUT_MS) / 1000
    if isinstance(tries, bool) or not isinstance(tries, int) or not 1 <= tries <= MOST_TRIES:
        raise ConfigurationError(
            f"ping(tries): {shown(tries)} is no number of tries; give an int from 1 to {MOST_TRIES}"
        )
    Pings(scheduler, _checked(urls), seconds, tries).attach()


def _checked(urls: Mapping[str, str | PingUrls | None]) -> dict[str, PingUrls]:
    from collections.abc import Mapping

    if not isinstance(urls, Mapping):
        raise ConfigurationError(
            "ping(urls) is no mapping; give the names of jobs with their addresses, such as"
            ' {"digest": os.environ["DIGEST_PING_URL"]}'
        )
    return {name: _urls_of(name, given) for name, given in urls.items() if given is not None}


def _urls_of(name: object, given: object) -> PingUrls:
    what = f"ping(urls), job {shown(name)}"
    if isinstance(given, PingUrls):
        return PingUrls(*(None if url is None else checked_url(url, what) for url in given))
    url = checked_url(given, what)
    return PingUrls(url, with_path(url, "/start"), with_path(url, "/fail"))


class Pings(Watcher):
    """Pings for the runs of a scheduler; what listens only hands pings over."""

    def __init__(
        self, scheduler: Scheduler, urls: Mapping[str, PingUrls], seconds: float, tries: int
    ) -> None:
        super().__init__(scheduler, "ping()")
        self._urls = urls
        logger = scheduler._options.logger  # noqa: SLF001 - of this package
        self.sender = Sender(seconds, tries, logger)

    def attach(self) -> None:
        """Begin to listen."""
        self.scheduler._registry.mention("ping(urls)", self._urls)  # noqa: SLF001 - of this package
        self.watch(
            {"started": self._started, "success": self._succeeded, "failure": self._failed}, None
        )

    def _started(self, run: Run) -> None:
        self._put(run, self._urls_for(run).start)

    def _succeeded(self, run: Run) -> None:
        self._put(run, self._urls_for(run).success)

    def _failed(self, run: Run) -> None:
        self._put(run, self._urls_for(run).fail, f"{run}\n{run.error or run.detail or ''}")

    def _urls_for(self, run: Run) -> PingUrls:
        return self._urls.get(run.job) or PingUrls()

    def _put(self, run: Run, url: str | None, text: str | None = None) -> None:
        if url is not None:
            self.sender.put(Ping(run.job, url, text))
