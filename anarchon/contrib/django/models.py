"""What permissions are for: jobs and runs. Neither has a table, nor a migration.

Jobs are defined in the code and runs are in the store. These models exist so that Django makes
permissions, which an administrator can grant to users and groups, and lists them in the admin.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class _Nothing(models.Manager[Any]):
    """No rows: commands such as ``dumpdata`` ask every model for its rows."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return nothing, without asking a database."""
        return super().get_queryset().none()


class Job(models.Model):
    """A job of the project's scheduler."""

    name: models.CharField[str, str] = models.CharField(_("name"), max_length=200, primary_key=True)

    objects = _Nothing()

    class Meta:
        """No table."""

        app_label = "anarchon"
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        permissions = (
            ("run_job", _("Can run jobs now")),
            ("pause_job", _("Can pause jobs")),
            ("resume_job", _("Can resume jobs")),
        )
        verbose_name = _("job")
        verbose_name_plural = _("jobs")

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """An attempt of a run, as history has it."""

    run_id: models.CharField[str, str] = models.CharField(
        _("run"), max_length=255, primary_key=True
    )

    objects = _Nothing()

    class Meta:
        """No table."""

        app_label = "anarchon"
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = _("run")
        verbose_name_plural = _("runs")

    def __str__(self) -> str:
        return self.run_id
