"""anarchon in a Django project.

    INSTALLED_APPS = [..., "anarchon.contrib.django"]

The setting `ANARCHON` says where the store is; by default it is the database ``default``. Jobs
are found in the module ``jobs`` of each installed app.
"""

from __future__ import annotations

# Type checkers know the name; `typing` itself is not needed here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from anarchon.scheduler import Scheduler

    scheduler: Scheduler

__all__ = ["scheduler", "start"]


def start(*, retry: bool = True) -> None:
    """Start the project's scheduler in this process, which serves requests.

    Meant for the end of ``wsgi.py``, which is loaded by whatever serves the project, and after
    Django is set up. It does nothing under ``manage.py test``, ``shell``, ``migrate`` and
    every other command of Django's own but ``runserver``; and nothing when it runs already.

    Args:
        retry: Return at once and try again until the store can be reached, so that a store that
            is down doesn't keep the project from serving.

    Raises:
        ConfigurationError: The setting `ANARCHON` can't be meant, or this app is not among the
            installed ones.
        ImportError: The driver of the store is missing; the message names the extra.
        BackendUnavailable: The store can't be reached; only without `retry`.
    """
    from ._starting import start_here

    start_here(retry=retry)


def __getattr__(name: str) -> object:
    """Make the project's scheduler when it is first asked for."""
    if name == "scheduler":
        from ._scheduler import project_scheduler

        made = project_scheduler()
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
