"""Where the process may have no more open files; and names that are none."""

from __future__ import annotations

import pytest

from anarchon import ConfigurationError
from tests.facade.services import finish

FULL = """
    import errno, os, resource, sys
    from contextlib import suppress
    from anarchon import BackendUnavailable, MemoryBackend, Scheduler, SqliteBackend

    backend = SqliteBackend("jobs.db") if sys.argv[1] == "sqlite" else MemoryBackend()
    scheduler = Scheduler(backend, lease=6)
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    def told(error):
        cause = error.__cause__
        return type(error).__name__, getattr(cause, "errno", None) == errno.EMFILE, str(error)

    def fill():
        files = []
        with suppress(OSError):
            while True:
                files.append(os.open(os.devnull, os.O_RDONLY))
        return files

    def tried(call):
        try:
            call()
        except Exception as error:
            return told(error)

    full = fill()
    first = tried(getattr(scheduler, sys.argv[2]))
    # One by one they come free, and each start gets a bit further.
    kinds = set()
    while full and (failed := tried(scheduler.start)):
        kinds.add(failed[0])
        assert scheduler.state == "idle"
        os.close(full.pop())
    print(*first[:2])
    print(first[2])
    print(kinds <= {"RuntimeError", "BackendUnavailable"}, kinds)
    scheduler.stop(0)
    [os.close(one) for one in full]
    while scheduler.state != "idle":
        scheduler.wait()
    scheduler.start()
    print(scheduler.state, scheduler.run_now("job").status)
    scheduler.stop()
    print(scheduler.state, scheduler.wait())
"""


@pytest.mark.parametrize("method", ["start", "run"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_start_without_open_files_says_what_to_do(spawn, store, method):
    out, err, _ = finish(spawn(FULL, store, method))
    lines = out.splitlines()
    assert lines[:1] == ["RuntimeError True"], (out, err)
    assert "can't load what it needs to run: [Errno 24] Too many open files" in lines[1]
    assert "ulimit -n" in lines[1]
    assert lines[2].startswith("True"), out
    assert lines[3:] == ["running success", "idle None"], (out, err)


class Nameless:
    def __str__(self):
        raise ZeroDivisionError("no text")

    __repr__ = __str__


CALLS = {
    "run_now": lambda scheduler, name: scheduler.run_now(name),
    "submit": lambda scheduler, name: scheduler.submit(name),
    "next_slots": lambda scheduler, name: scheduler.next_slots(name),
    "remove": lambda scheduler, name: scheduler.remove(name),
    "history": lambda scheduler, name: scheduler.history(name),
    "last_run": lambda scheduler, name: scheduler.last_run(name),
    "pause": lambda scheduler, name: scheduler.pause(name),
    "resume": lambda scheduler, name: scheduler.resume(name),
}


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("name", [[], {}, b"job", 7, lambda: None, Nameless()])
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_text_is_no_name(make, call, name, running):
    scheduler = make()
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    if running:
        scheduler.start()
    with pytest.raises(ConfigurationError, match="is not the name of a job; give text"):
        CALLS[call](scheduler, name)


@pytest.mark.parametrize("call", ["run_now", "submit", "next_slots", "remove"])
def test_none_is_no_name_where_one_job_is_meant(make, call):
    with pytest.raises(ConfigurationError, match="name: None is not the name of a job; give text"):
        CALLS[call](make(), None)


@pytest.mark.parametrize("status", [[], {}, 7, Nameless()])
def test_what_is_no_text_is_no_status(make, status):
    with pytest.raises(ConfigurationError, match="is not known; give one of running"):
        make().history("job", status=status)


def test_a_text_of_a_class_of_its_own_is_a_name(make):
    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            raise ZeroDivisionError

        def __hash__(self):
            raise ZeroDivisionError

    scheduler = make()
    scheduler.every("job", "1h", lambda: None, catch_up=0)
    scheduler.start()
    assert scheduler.run_now(Name("job")).job == "job"
    assert len(scheduler.next_slots(Name("job"))) == 5
    assert scheduler.remove(Name("job")) is True
