"""uWSGI's master, where no scheduler can run: it forks its workers from what it has imported.

It forks without telling Python: a worker gets no thread of the master's, and whatever lock
one held at that moment stays held in it for ever.
"""

from __future__ import annotations

import sys
from typing import Any

from .errors import ConfigurationError


def refuse_master() -> None:
    """Do nothing, or refuse a start in the master of uWSGI, before it has forked.

    Raises:
        ConfigurationError: This is the master; no worker, mule or spooler of it.
    """
    uwsgi: Any = sys.modules.get("uwsgi")
    if uwsgi is None or not _is_master(uwsgi):
        return
    raise ConfigurationError(
        "start() was called in the master of uWSGI, whose workers would inherit no thread of it"
        " and perhaps locks that are never released; call anarchon.contrib.uwsgi.attach(scheduler)"
        " instead, which starts in every worker, or set lazy-apps = true"
    )


def _is_master(uwsgi: Any) -> bool:
    try:
        if uwsgi.masterpid() == 0 or uwsgi.worker_id() > 0 or uwsgi.mule_id() > 0:
            return False
        # It is there in spoolers only.
        is_spooler = getattr(uwsgi, "i_am_the_spooler", None)
        return is_spooler is None or not is_spooler()
    except AttributeError:  # some other module of that name
        return False
