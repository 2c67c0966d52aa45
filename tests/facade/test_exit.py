"""However a process ends that can still do something: its runs are handed over, in time."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

from anarchon import Scheduler, SqliteBackend

# The handler of `job` waits for its abort; that of `stubborn` only notes it.
SERVICE = """
    import atexit, os, signal, sys, threading, time
    from anarchon import Scheduler, SqliteBackend

    scheduler = Scheduler(SqliteBackend("jobs.db"), lease=6, heartbeat=1, exit_timeout=1)
    entered = threading.Event()

    @scheduler.every("job", "1h", catch_up=0)
    def job(ctx):
        print("running", flush=True)
        entered.set()
        ctx.signal.wait(60)
        ctx.signal.raise_if_aborted()

    @scheduler.every("stubborn", "1h", catch_up=0)
    def stubborn(ctx):
        print("running", flush=True)
        entered.set()
        while True:
            time.sleep(1)

    def begin(name="job"):
        scheduler.start()
        scheduler.submit(name)
        entered.wait()
"""

ENDS = {
    "return": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "exception": ("raise ValueError('the end')", 1),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", -signal.SIGINT),
    "sigterm handler": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); signal.raise_signal(15)",
        7,
    ),
    "non-daemon thread": ("threading.Thread(target=time.sleep, args=(0.1,)).start()", 0),
    "atexit": ("atexit.register(scheduler.stop)", 0),
}


def program(*steps):
    return "\n".join([SERVICE, *(f"    {step}" for step in steps)])


def recorded(tmp_path, name="job"):
    return Scheduler(SqliteBackend(tmp_path / "jobs.db")).last_run(name)


def finish(process, seconds=20):
    started = time.monotonic()
    out, err = process.communicate(timeout=seconds)
    return out, err, time.monotonic() - started


@pytest.mark.parametrize("end", ENDS)
def test_a_handler_that_obeys_is_interrupted_and_recorded(spawn, tmp_path, end):
    step, code = ENDS[end]
    process = spawn(program("begin()", step))
    out, err, _ = finish(process)
    assert process.returncode == code, err
    assert out == "running\n"
    assert recorded(tmp_path).status == "interrupted"
    assert "cannot schedule" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("end", ["return", "sys.exit", "exception"])
def test_a_handler_that_does_not_is_left_at_the_exit_timeout(spawn, tmp_path, end):
    step, code = ENDS[end]
    process = spawn(program("begin('stubborn')", f"print(time.monotonic()); {step}"))
    out, err, _ = finish(process)
    took = time.monotonic() - float(out.splitlines()[-1])
    assert process.returncode == code, err
    assert 1.0 <= took < 3.0
    assert recorded(tmp_path, "stubborn").status in ("running", "interrupted")


def test_a_stop_in_progress_is_joined(spawn, tmp_path):
    process = spawn(
        program(
            "begin()",
            "threading.Thread(target=scheduler.stop, daemon=True).start()",
        )
    )
    _, err, _ = finish(process)
    assert process.returncode == 0, err
    assert recorded(tmp_path).status == "interrupted"


def test_a_start_with_retries_does_not_hold_up_the_end(spawn):
    process = spawn(
        """
        import time
        from anarchon import Scheduler, SqliteBackend
        scheduler = Scheduler(SqliteBackend("no/such/folder/jobs.db"))
        scheduler.start(retry=True)
        while "folder" not in scheduler.health().reasons[0]:
            time.sleep(0.005)
        """
    )
    _, err, _ = finish(process, 10)
    assert process.returncode == 0
    assert err.count("\n") == 1
    assert err.startswith("store down: ")


def test_stop_on_exit_false_leaves_the_end_alone(spawn, tmp_path):
    process = spawn(
        program("begin()", "while not scheduler.history(): time.sleep(0.005)").replace(
            "exit_timeout=1", "stop_on_exit=False"
        )
    )
    finish(process)
    assert process.returncode == 0
    assert recorded(tmp_path).status == "running"  # cut off; the lease runs out


def test_the_hooks_leave_after_a_stop(spawn):
    process = spawn(
        program(
            "from anarchon import _forks",
            "begin(); scheduler.stop()",
            "print(len(_forks.lives))",
        )
    )
    out, err, _ = finish(process)
    assert (process.returncode, out) == (0, "running\n0\n"), err


def test_without_the_private_hook_atexit_does_it(spawn, tmp_path):
    process = spawn(program("del threading._register_atexit", "begin()"))
    _, err, _ = finish(process)
    assert process.returncode == 0, err
    assert recorded(tmp_path).status == "interrupted"


@pytest.mark.parametrize("hook", ["", "del threading._register_atexit"])
def test_a_child_of_multiprocessing_stops_at_its_end(spawn, tmp_path, hook):
    process = spawn(
        program(
            "import multiprocessing",
            "def child():",
            f"    {hook or 'pass'}",
            "    begin()",
            "process = multiprocessing.get_context('fork').Process(target=child)",
            "process.start(); process.join(); print(process.exitcode)",
        )
    )
    out, err, _ = finish(process)
    assert out == "running\n0\n", err
    assert recorded(tmp_path).status == "interrupted"


def test_a_second_interrupt_ends_the_waiting(spawn):
    process = spawn(
        program("begin('stubborn')", "print('ending', flush=True)").replace(
            "exit_timeout=1", "exit_timeout=30"
        )
    )
    assert process.stdout.readline() == "running\n"
    assert process.stdout.readline() == "ending\n"
    time.sleep(0.3)  # the interpreter is on its way out; there is nothing to watch
    process.send_signal(signal.SIGINT)
    *_, took = finish(process)
    assert took < 5


def test_several_schedulers_stop_side_by_side(spawn):
    process = spawn(
        program(
            "other = Scheduler(SqliteBackend('other.db'), lease=6, exit_timeout=1)",
            "other.every('stubborn', '1h', stubborn, catch_up=0)",
            "begin('stubborn'); other.start(); other.submit('stubborn')",
            "while other.health().running == 0: time.sleep(0.005)",
            "print(time.monotonic())",
        )
    )
    out, err, _ = finish(process)
    assert process.returncode == 0, err
    assert time.monotonic() - float(out.splitlines()[-1]) < 2.8  # not one after the other


# --- run ---


def test_run_is_a_whole_program(spawn, tmp_path):
    for signum in (signal.SIGTERM, signal.SIGINT):
        process = spawn(
            program(
                "threading.Timer(0.2, scheduler.submit, ['job']).start()",
                "before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)",
                "scheduler.run()",
                "after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)",
                "print(scheduler.state, before == after)",
            )
        )
        assert process.stdout.readline() == "running\n"
        process.send_signal(signum)
        out, err, took = finish(process)
        assert (process.returncode, out) == (0, "idle True\n"), err
        assert took < 3
        assert recorded(tmp_path).status == "interrupted"


def test_wait_says_what_ended_it(spawn):
    process = spawn(
        program(
            "scheduler.start()",
            "print(scheduler.wait(0.05), scheduler.state)",
            "threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM]).start()",
            "print(repr(scheduler.wait('20s')), scheduler.state)",
            "threading.Timer(0.1, scheduler.stop).start()",
            "print(scheduler.wait(), scheduler.state)",
            "print(scheduler.wait(), scheduler.state)",
        )
    )
    out, err, _ = finish(process)
    assert out.splitlines() == [
        "None running",
        "<Signals.SIGTERM: 15> running",
        "None idle",
        "None idle",
    ], err


def test_run_ends_when_somebody_else_stops(spawn):
    process = spawn(program("threading.Timer(0.3, scheduler.stop).start()", "scheduler.run()"))
    _, err, _ = finish(process)
    assert process.returncode == 0, err


def test_wait_on_another_thread_leaves_signals_alone(spawn):
    process = spawn(
        program(
            "scheduler.start()",
            "said = []",
            "waiting = threading.Thread(target=lambda: said.append(scheduler.wait()))",
            "waiting.start()",
            "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL",
            "scheduler.stop(); waiting.join(); print(said)",
        )
    )
    out, err, _ = finish(process)
    assert out == "[None]\n", err


# --- install_signal_handlers ---


def test_where_nobody_handled_the_signal_the_process_ends_by_it(spawn, tmp_path):
    process = spawn(
        program("print(scheduler.install_signal_handlers())", "begin()", "time.sleep(60)")
    )
    assert process.stdout.readline() == "True\n"
    assert process.stdout.readline() == "running\n"
    process.terminate()
    _, err, took = finish(process)
    assert (process.returncode, took < 3) == (-signal.SIGTERM, True), err
    assert recorded(tmp_path).status == "interrupted"


def test_the_second_signal_ends_it_at_once(spawn):
    process = spawn(
        program(
            "scheduler.install_signal_handlers(timeout=30)",
            "begin('stubborn')",
            "time.sleep(60)",
        )
    )
    assert process.stdout.readline() == "running\n"
    process.terminate()
    time.sleep(0.5)  # it is stopping
    assert process.poll() is None
    process.terminate()
    *_, took = finish(process)
    assert (process.returncode, took < 2) == (-signal.SIGTERM, True)


def test_a_handler_that_was_there_is_called_and_decides(spawn, tmp_path):
    process = spawn(
        program(
            "signal.signal(signal.SIGTERM, lambda *_: print('theirs', flush=True))",
            "before = signal.getsignal(signal.SIGTERM)",
            "print(scheduler.install_signal_handlers())",
            "begin()",
            "while scheduler.state != 'idle': time.sleep(0.01)",
            "print(scheduler.state)",
            "scheduler.start(); scheduler.stop()",
            "print(signal.getsignal(signal.SIGTERM) is before)",
        )
    )
    assert process.stdout.readline() == "True\n"
    assert process.stdout.readline() == "running\n"
    process.terminate()
    out, err, _ = finish(process)
    assert (process.returncode, out) == (0, "theirs\nidle\nTrue\n"), err
    assert recorded(tmp_path).status == "interrupted"


def test_an_ignored_signal_stays_ignored_but_stops(spawn):
    process = spawn(
        program(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
            "scheduler.install_signal_handlers()",
            "begin()",
            "while scheduler.state != 'idle': time.sleep(0.01)",
        )
    )
    assert process.stdout.readline() == "running\n"
    process.terminate()
    _, err, _ = finish(process)
    assert process.returncode == 0, err


def test_two_schedulers_both_stop_before_the_process_ends(spawn, tmp_path):
    process = spawn(
        program(
            "other = Scheduler(SqliteBackend('other.db'), lease=6)",
            "@other.every('slow', '1h', catch_up=0)",
            "def slow(ctx):",
            "    ctx.signal.wait(60); time.sleep(0.5); ctx.signal.raise_if_aborted()",
            "scheduler.install_signal_handlers(); other.install_signal_handlers()",
            "other.start(); other.submit('slow')",
            "while other.health().running == 0: time.sleep(0.005)",
            "begin()",
            "time.sleep(60)",
        )
    )
    assert process.stdout.readline() == "running\n"
    process.terminate()
    _, err, _ = finish(process)
    assert process.returncode == -signal.SIGTERM, err
    assert recorded(tmp_path).status == "interrupted"
    other = Scheduler(SqliteBackend(tmp_path / "other.db"))
    assert other.last_run("slow").status == "interrupted"


def test_one_who_came_later_and_chains_is_not_cut_off(spawn, tmp_path):
    process = spawn(
        program(
            "scheduler.install_signal_handlers()",
            "ours = signal.getsignal(signal.SIGTERM)",
            "signal.signal(signal.SIGTERM, lambda *a: (print('theirs', flush=True), ours(*a)))",
            "scheduler.install_signal_handlers()",
            "begin()",
            "time.sleep(60)",
        )
    )
    assert process.stdout.readline() == "running\n"
    process.terminate()
    out, err, _ = finish(process)
    assert (process.returncode, out) == (-signal.SIGTERM, "theirs\n"), err
    assert recorded(tmp_path).status == "interrupted"


def test_an_idle_scheduler_does_not_swallow_the_signal(spawn):
    process = spawn(
        program("scheduler.install_signal_handlers(); print('ready', flush=True); time.sleep(60)")
    )
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    *_, took = finish(process)
    assert (process.returncode, took < 2) == (-signal.SIGTERM, True)


def test_handlers_can_not_be_installed_everywhere(spawn):
    process = spawn(
        program(
            "said = []",
            "install = scheduler.install_signal_handlers",
            "thread = threading.Thread(target=lambda: said.append(install()))",
            "thread.start(); thread.join()",
            "sys.modules['uwsgi'] = sys; said.append(install())",
            "print(said, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)",
        )
    )
    out, err, _ = finish(process)
    assert out == "[False, False] True\n", err


@pytest.mark.parametrize(
    "signals", [signal.SIGKILL, [signal.SIGSTOP], "SIGTERM", [0], [True], [99]]
)
def test_what_is_no_signal_is_refused(make, signals):
    from anarchon import ConfigurationError

    with pytest.raises(ConfigurationError, match="signals"):
        make().install_signal_handlers(signals)


def test_a_storm_of_signals_is_survived(spawn):
    process = spawn(
        program(
            "from contextlib import suppress",
            "from anarchon import NotRunning",
            "signal.signal(signal.SIGUSR1, lambda *_: None)",
            "scheduler.every('quick', '100ms', lambda: None)",
            "ends = time.monotonic() + 2",
            "while time.monotonic() < ends:",
            "    with suppress(NotRunning): scheduler.start()",
            "    scheduler.install_signal_handlers([signal.SIGUSR1])",
            "    print('up', flush=True)",
            "    while scheduler.state == 'running': scheduler.history('quick', limit=1)",
            "    while scheduler.state != 'idle': pass",
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # while Python ends",
        )
    )
    assert process.stdout.readline() == "up\n"
    while process.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGUSR1)
        time.sleep(0.002)
    assert process.returncode == 0, process.stderr.read()
