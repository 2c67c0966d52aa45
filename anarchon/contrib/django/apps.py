"""The app of anarchon in a Django project."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from ...errors import ConfigurationError


class AnarchonConfig(AppConfig):
    """Finds the jobs of all apps when Django is ready, as Django finds ``admin.py``.

    It starts nothing, since every command of ``manage.py`` comes by here; only with
    ``ANARCHON = {"AUTOSTART": "server"}``, when ``runserver`` serves.
    """

    name = "anarchon.contrib.django"
    label = "anarchon"
    verbose_name = _("Scheduled jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Make the scheduler, import the ``jobs`` of each app, and register the checks."""
        from . import _checks  # noqa: F401 - registers them
        from ._finding import find_jobs
        from ._scheduler import project_scheduler
        from ._settings import read
        from ._starting import start_with_server

        try:
            scheduler = project_scheduler()
        except (ConfigurationError, ImportError):
            return  # the checks tell it, and so does whoever uses the scheduler
        find_jobs(scheduler)
        if read().autostart == "server":
            start_with_server()
