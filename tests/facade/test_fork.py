"""Forked children: nothing of the parent runs there, nothing of the parent's is touched."""

from __future__ import annotations

import pytest

from anarchon import Scheduler, SqliteBackend

SERVICE = """
    import os, signal, sys, threading, time, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: on purpose
    from anarchon import MemoryBackend, Scheduler, SqliteBackend

    scheduler = Scheduler(SqliteBackend("jobs.db"), lease=6, heartbeat=1, exit_timeout=2)
    entered = threading.Event()

    @scheduler.every("job", "1h", catch_up=0)
    def job(ctx):
        entered.set()
        ctx.signal.wait(60)
        ctx.signal.raise_if_aborted()

    scheduler.every("quick", "1h", lambda: None, catch_up=0)

    def begin():
        scheduler.start()
        scheduler.submit("job")
        entered.wait()
        while not scheduler.history("job"):
            time.sleep(0.005)

    def in_child(do):
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)  # a child that hangs dies of it
            try:
                do()
            except SystemExit:
                raise
            except BaseException as error:
                print("child", repr(error), file=sys.stderr, flush=True)
                os._exit(9)
            os._exit(0)
        print("child ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def program(*steps):
    return "\n".join([SERVICE, *(f"    {step}" for step in steps)])


NO_HOOKS = """
    import os
    os.register_at_fork = lambda **_: None
"""


def run(spawn, *steps, before=""):
    process = spawn(before + program(*steps))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out.splitlines(), err


@pytest.mark.parametrize("before", ["", NO_HOOKS], ids=["hooks", "no hooks"])
@pytest.mark.parametrize(
    "do",
    [
        "assert scheduler.state == 'idle'",
        "scheduler.stop()",
        "assert not scheduler.health().ok; scheduler.stop(); scheduler.history('job')",
        "scheduler.every('new', '1h', lambda: None); scheduler.remove('quick')",
        "assert scheduler.wait() is None",
        "scheduler.on('failure', print); scheduler.pause('nothing'); scheduler.resume('nothing')",
        "sys.exit(0)",  # with all exit hooks
    ],
)
def test_a_child_is_idle_and_leaves_the_parent_alone(spawn, tmp_path, do, before):
    """Also where the server forks without Python's hooks, as uWSGI does."""
    out, err = run(
        spawn,
        "begin()",
        f"def do(): {do}",
        "in_child(do)",
        "print(scheduler.state, scheduler.health().running, scheduler.last_run('job').status)",
        before=before,
    )
    assert out == ["child ended with 0", "running 1 running"], err
    assert Scheduler(SqliteBackend(tmp_path / "jobs.db")).last_run("job").status == "interrupted"
    # Without hooks only a child that asks its scheduler something can notice.
    warnings = 0 if before and "exit" in do else 1
    assert err.count("forked while the scheduler runs") == warnings


def test_a_child_that_starts_begins_afresh(spawn, tmp_path):
    out, err = run(
        spawn,
        "begin()",
        "parent = scheduler.instance_id",
        "def do():",
        "    scheduler.start()",
        "    assert scheduler.instance_id != parent",
        "    assert scheduler.run_now('quick').status == 'success'",
        "    names = {t.name for t in threading.enumerate() if t.name.startswith('anarchon')}",
        "    assert 'anarchon-life' in names, names",
        "    scheduler.stop()",
        "    assert scheduler.state == 'idle'",
        "in_child(do)",
        "in_child(do)",
        "print(scheduler.state, scheduler.health().running, scheduler.last_run('job').status)",
    )
    assert out == ["child ended with 0", "child ended with 0", "running 1 running"], err
    runs = Scheduler(SqliteBackend(tmp_path / "jobs.db")).history("quick")
    assert len({run.instance_id for run in runs}) == 2


@pytest.mark.parametrize("before", ["", NO_HOOKS], ids=["hooks", "no hooks"])
def test_a_fork_while_a_thread_holds_every_lock_does_no_harm(spawn, before):
    out, err = run(
        spawn,
        "begin()",
        "held = threading.Event()",
        "def hold():",
        "    with scheduler._registry.order:",
        "        held.set(); time.sleep(60)",
        "threading.Thread(target=hold, daemon=True).start()",
        "held.wait()",
        "def do():",
        "    assert scheduler.state == 'idle'",
        "    scheduler.every('new', '1h', lambda: None)",
        "    scheduler.start(); scheduler.run_now('quick'); scheduler.stop()",
        "in_child(do)",
        before=before,
    )
    assert out == ["child ended with 0"], err


def test_children_are_warned_about_once(spawn):
    out, err = run(
        spawn,
        "begin()",
        "for _ in range(3): in_child(lambda: None)",
        "pid = os.getpid()",
        "scheduler.stop()",
        "print(pid)",
    )
    assert err.count("forked while the scheduler runs") == 1
    assert f"pid {out[-1]}" in err
    out, err = run(spawn, "in_child(lambda: scheduler.start())")
    assert "forked" not in err  # nothing was running


def test_a_memory_store_of_a_child_is_its_own(spawn):
    out, err = run(
        spawn,
        "scheduler = Scheduler(MemoryBackend(), lease=3)",
        "scheduler.every('quick', '1h', lambda: None, catch_up=0)",
        "scheduler.start()",
        "def do():",
        "    scheduler.start(); scheduler.run_now('quick'); scheduler.stop()",
        "in_child(do)",
        "print(scheduler.state, scheduler.history())",
    )
    assert out == ["child ended with 0", "running []"], err


def test_a_child_of_multiprocessing_leaves_the_parents_run_alone(spawn, tmp_path):
    out, err = run(
        spawn,
        "import multiprocessing",
        "begin()",
        "child = multiprocessing.get_context('fork').Process(target=print, args=['in child'])",
        "child.start(); child.join()",
        "print(child.exitcode, scheduler.last_run('job').status)",
    )
    assert out[-1] == "0 running", err


def test_a_signal_that_reaches_a_child_ends_it_as_if_we_were_not_there(spawn):
    out, err = run(
        spawn,
        "scheduler.install_signal_handlers()",
        "begin()",
        "in_child(lambda: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(5)))",
        "print(scheduler.state, scheduler.health().running)",
    )
    assert out == ["child ended with -15", "running 1"], err
