"""Pages of the admin: jobs and runs to look at, and three buttons for those permitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import Http404, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from ..._named import NamedTuple
from ..._texts import message_of
from ...errors import AnarchonError
from . import _views as views
from ._scheduler import project_scheduler
from .models import Job, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

    from ...scheduler import Scheduler

    Admin = admin.ModelAdmin[Model]
else:
    Admin = admin.ModelAdmin


class _Done(NamedTuple):
    """What a button has done: a text with the name of the job to come, and how it is shown."""

    text: str
    level: int = messages.SUCCESS


class _Pages(Admin):
    """Pages about what has no table: nothing to add, change or delete."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: jobs are defined in the code, and runs happen."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, as `has_add_permission` does."""
        del request, obj
        return False

    has_delete_permission = has_change_permission

    def may(self, request: HttpRequest, what: str) -> bool:
        """Say whether somebody has a permission of this app."""
        user: Any = request.user  # of the project's own class
        return bool(user.has_perm(f"{self.opts.app_label}.{what}"))

    def page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Return a page of the admin; `trouble` is told above what there is."""
        request.current_app = self.admin_site.name
        trouble = context.get("trouble")
        if trouble:
            messages.error(request, trouble)  # which says itself what can't be asked
        return TemplateResponse(
            request,
            f"admin/anarchon/{template}",
            {**self.admin_site.each_context(request), "opts": self.opts, **context},
        )

    def _url(self, name: str, view: Callable[..., HttpResponse], route: str = "") -> URLPattern:
        full = f"{self.opts.app_label}_{self.opts.model_name}_{name}"
        shown: Any = self.admin_site.admin_view(view)
        # The scheduler writes over a connection of its own, which on SQLite would wait for the
        # transaction of the request (ATOMIC_REQUESTS), and that one for us.
        shown._non_atomic_requests = set(connections)  # noqa: SLF001 - as `transaction` sets it
        made: URLPattern = path(route, shown, name=full)
        return made


@admin.register(Job)
class JobAdmin(_Pages):
    """The list of jobs, with buttons."""

    def get_urls(self) -> list[URLPattern]:
        """Return the list, and where the buttons lead."""
        return [
            self._url("changelist", self.changelist_view),
            self._url("run_now", self.run_now_view, "run-now/"),
            self._url("pause", self.pause_view, "pause/"),
            self._url("resume", self.resume_view, "resume/"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the jobs."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        start = _whole(request.GET.get("from", ""))
        scheduler, trouble = _scheduler()
        found = views.Asked([], trouble)
        if scheduler is not None:
            found = views.job_lines(scheduler, start)
        more = scheduler is not None and start + views.JOBS < len(scheduler.jobs)
        may = {name: self.may(request, f"{name}_job") for name in ("run", "pause", "resume")}
        idle = None if scheduler is None else views.idle_words(scheduler)
        if idle is not None and may["run"]:
            messages.warning(request, idle)
        return self.page(
            request,
            "jobs.html",
            title=_("Jobs"),
            lines=found.lines,
            trouble=found.trouble,
            may=may,
            may_see_runs=self.may(request, "view_run"),
            # As text, into which no template puts a thousand separator.
            next=str(start + views.JOBS) if more else None,
            previous=str(max(start - views.JOBS, 0)) if start else None,
            is_first=not start,
            **(extra_context or {}),
        )

    def run_now_view(self, request: HttpRequest) -> HttpResponse:
        """Run a job in this process, and don't wait for it."""

        def submit(scheduler: Scheduler, name: str) -> _Done:
            scheduler.submit(name)
            return _Done(_("“%(job)s” runs now. Its run is on the page of runs."))

        return self._act(request, "run_job", _("Run now"), submit)

    def pause_view(self, request: HttpRequest) -> HttpResponse:
        """Pause a job on every instance."""

        def pause(scheduler: Scheduler, name: str) -> _Done:
            before = views.pauses_of(scheduler, name)
            scheduler.pause(name)
            if before is not None and name in before.jobs:
                return _Done(_("“%(job)s” was paused already, and stays so."), messages.INFO)
            return _Done(_("“%(job)s” is paused. What falls due meanwhile is skipped."))

        return self._act(request, "pause_job", _("Pause"), pause)

    def resume_view(self, request: HttpRequest) -> HttpResponse:
        """End the pause of a job."""

        def resume(scheduler: Scheduler, name: str) -> _Done:
            before = views.pauses_of(scheduler, name)
            scheduler.resume(name)
            if before is not None and before.every:
                text = _(
                    "“%(job)s” stays paused, because all jobs are paused together. That ends with"
                    " “manage.py anarchon resume” without a name, or on the dashboard."
                )
                return _Done(text, messages.WARNING)
            if before is not None and name not in before.jobs:
                return _Done(_("“%(job)s” was not paused."), messages.INFO)
            return _Done(_("“%(job)s” goes on with its next slot."))

        return self._act(request, "resume_job", _("Resume"), resume)

    def _act(
        self,
        request: HttpRequest,
        permission: str,
        what: str,
        act: Callable[[Scheduler, str], _Done],
    ) -> HttpResponse:
        """Do something with a job of this project, for those who may, and go back to the list."""
        if not (self.has_view_permission(request) and self.may(request, permission)):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        name = request.POST.get("job", "")
        scheduler, trouble = _scheduler()
        if scheduler is None:
            messages.error(request, trouble or "")
        elif name not in {job.name for job in scheduler.jobs}:
            messages.error(request, _("There is no job “%(job)s” here.") % {"job": name})
        else:
            try:
                done = act(scheduler, name)
                messages.add_message(request, done.level, done.text % {"job": name})
                self.log_change(request, Job(name=name), what)
            except AnarchonError as error:
                messages.error(request, message_of(error))
        back = reverse("admin:anarchon_job_changelist", current_app=self.admin_site.name)
        return HttpResponseRedirect(back)


@admin.register(Run)
class RunAdmin(_Pages):
    """The list of runs, and a page for each."""

    def get_urls(self) -> list[URLPattern]:
        """Return the list and the page of one."""
        return [
            self._url("changelist", self.changelist_view),
            self._url("detail", self.detail_view, "detail/"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show a page of runs, newest first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        scheduler, trouble = _scheduler()
        found = views.Asked([], trouble)
        if scheduler is not None:
            found = views.run_lines(scheduler, request.GET.dict())
        shown, more = found.lines[: views.PAGE], len(found.lines) > views.PAGE
        asked = {key: request.GET.get(key, "") for key in ("job", "status")}
        return self.page(
            request,
            "runs.html",
            title=_("Runs"),
            lines=shown,
            trouble=found.trouble,
            asked=asked,
            jobs=_names(scheduler, asked["job"]),
            statuses=[(status, views.status_words(status)) for status in views.STATUSES],
            older=urlencode({**asked, "before": shown[-1].key}) if more else None,
            newest=urlencode(asked) if request.GET.get("before") else None,
            **(extra_context or {}),
        )

    def detail_view(self, request: HttpRequest) -> HttpResponse:
        """Show one attempt, with its traceback."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        key = request.GET.get("run", "")
        scheduler, trouble = _scheduler()
        run = None
        if scheduler is not None:
            try:
                run = views.find_run(scheduler, key)
            except AnarchonError as error:
                trouble = message_of(error)
        if run is None and trouble is None:
            raise Http404(_("There is no such run, or it was trimmed."))
        line = None if run is None else views.run_line(run)
        return self.page(request, "run.html", title=_("Run"), line=line, trouble=trouble)


def _scheduler() -> tuple[Scheduler | None, str | None]:
    """Return the scheduler of the project, or why there is none."""
    try:
        return project_scheduler(), None
    except (AnarchonError, ImportError) as error:
        return None, message_of(error)


def _names(scheduler: Scheduler | None, chosen: str) -> list[str]:
    names = [] if scheduler is None else sorted(job.name for job in scheduler.jobs)
    return names if chosen in ("", *names) else [*names, chosen]


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
