"""run, wait and install_signal_handlers: stopping because of a signal, beside others."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from anarchon import ConfigurationError, Scheduler, SqliteBackend
from tests.facade.services import finish, program, recorded


def test_run_is_a_whole_program(spawn, tmp_path):
    for signum in (signal.SIGTERM, signal.SIGINT):
        process = spawn(
            program(
                "submit_when_running()",
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
        assert took < 5
        assert recorded(tmp_path).status == "interrupted"


@pytest.mark.parametrize("whole", ["run()", "with"])
def test_a_second_ctrl_c_ends_it_at_once(spawn, whole):
    ways = {
        "run()": ["scheduler.run()"],
        "with": ["with scheduler:", "    print('inside', flush=True)", "    time.sleep(60)"],
    }
    steps = program("submit_when_running('stubborn'); say_when_stopping()", *ways[whole])
    process = spawn(steps.replace("exit_timeout=1", "exit_timeout=20"))
    # The handler may be called before `start` has returned, where Ctrl-C means another thing.
    expected = {"run()": ["running\n"], "with": ["inside\n", "running\n"]}[whole]
    assert sorted(process.stdout.readline() for _ in expected) == expected
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    time.sleep(0.5)  # a second wish comes later
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err, took = finish(process, 30)
    assert (process.returncode, took < 5) == (-signal.SIGINT, True), err
    assert "KeyboardInterrupt" in err


def test_ctrl_c_in_a_start_does_not_wait_for_the_store(spawn):
    process = spawn(
        program(
            "class Hanging(SqliteBackend):",
            "    def open(self, limits):",
            "        print('opening', flush=True); time.sleep(60)",
            "Scheduler(Hanging('other.db'), exit_timeout=20).start()",
        )
    )
    assert process.stdout.readline() == "opening\n"
    process.send_signal(signal.SIGINT)
    _, err, took = finish(process, 30)
    assert (process.returncode, took < 5) == (-signal.SIGINT, True), err


def test_a_signal_during_the_start_of_run_is_not_lost(spawn):
    process = spawn(
        program(
            "start = scheduler.start",
            "def slow_start():",
            "    print('starting', flush=True); time.sleep(0.3); start()",
            "scheduler.start = slow_start",
            "scheduler.run()",
            "print(scheduler.state)",
        )
    )
    assert process.stdout.readline() == "starting\n"
    process.terminate()
    out, err, took = finish(process)
    assert (process.returncode, out) == (0, "idle\n"), err
    assert took < 5


def test_wait_says_what_ended_it(spawn):
    process = spawn(
        program(
            "scheduler.start()",
            "print(scheduler.wait(0.05), scheduler.state)",
            "def strike():",
            "    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL: time.sleep(0.005)",
            "    os.kill(os.getpid(), signal.SIGTERM)",
            "threading.Timer(0.1, strike).start()",
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
    process = spawn(program("when_running(scheduler.stop)", "scheduler.run()"))
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
    assert (process.returncode, took < 5) == (-signal.SIGTERM, True), err
    assert recorded(tmp_path).status == "interrupted"


def test_the_second_signal_ends_it_at_once(spawn):
    process = spawn(
        program(
            "scheduler.install_signal_handlers(timeout=30)",
            "begin('stubborn'); say_when_stopping()",
            "time.sleep(60)",
        )
    )
    assert process.stdout.readline() == "running\n"
    process.terminate()
    assert process.stdout.readline() == "stopping\n"
    time.sleep(0.5)  # a second wish comes later
    assert process.poll() is None
    process.terminate()
    *_, took = finish(process)
    assert (process.returncode, took < 5) == (-signal.SIGTERM, True)


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
            "scheduler.start()",
            "print(signal.getsignal(signal.SIGTERM) is before)",
        )
    )
    assert process.stdout.readline() == "True\n"
    assert process.stdout.readline() == "running\n"
    process.terminate()
    out, err, _ = finish(process)
    assert (process.returncode, out) == (0, "theirs\nidle\nTrue\nFalse\n"), err
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
            "    entered.set()",
            "    ctx.signal.wait(60); time.sleep(0.5); ctx.signal.raise_if_aborted()",
            "scheduler.install_signal_handlers(); other.install_signal_handlers()",
            "other.start(); other.submit('slow'); entered.wait(); entered.clear()",
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
    assert (process.returncode, took < 10) == (-signal.SIGTERM, True)  # of 60


def test_a_life_that_is_over_when_it_is_asked_to_stop_is_not_waited_for(make, monkeypatch):
    from anarchon import _lifecycle_signals

    scheduler = make()
    scheduler.start()
    life = scheduler._life()
    scheduler.stop()
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: killed.append((pid, signum)))
    monkeypatch.setitem(_lifecycle_signals._struck, life, 5.0)
    chained = _lifecycle_signals.Chained(signal.SIG_DFL)
    _lifecycle_signals._end_process_after_stops(signal.SIGTERM, chained)
    assert set(killed) == {(os.getpid(), signal.SIGTERM)}
    assert _lifecycle_signals._struck == {}


def test_nothing_else_touches_signals(make):
    def handlers():
        return {signum: signal.getsignal(signum) for signum in signal.valid_signals()}

    before = handlers()
    scheduler = make()
    scheduler.start()
    assert handlers() == before
    scheduler.stop()
    assert handlers() == before


def stopped_by_another_thread(scheduler):
    stopping = threading.Thread(target=scheduler.stop, args=(10,))
    stopping.start()
    stopping.join()


def stopped_by_the_signal(scheduler):
    signal.raise_signal(signal.SIGUSR1)
    scheduler.wait()


def stopped_by_a_handler(scheduler):
    scheduler.every("stopper", "1h", lambda: scheduler.stop(10), catch_up=0)
    scheduler.submit("stopper")
    scheduler.wait()


def stopped_by_nobody(_scheduler):
    pass


@pytest.mark.parametrize(
    "stop_first",
    [stopped_by_another_thread, stopped_by_the_signal, stopped_by_a_handler, stopped_by_nobody],
)
def test_a_stop_puts_back_what_was_there_whoever_stopped_first(make, stop_first):
    def mine(*_):
        pass

    before = signal.signal(signal.SIGUSR1, mine)
    try:
        scheduler, other = make(), make()
        for one in (scheduler, other):
            one.start()
            assert one.install_signal_handlers([signal.SIGUSR1])
        stop_first(scheduler)
        scheduler.stop(10)
        other.stop(10)
        assert signal.getsignal(signal.SIGUSR1) is mine
        # And the next start puts them in place again, until the next stop.
        scheduler.start()
        assert signal.getsignal(signal.SIGUSR1) is not mine
        scheduler.stop(10)
        assert signal.getsignal(signal.SIGUSR1) is mine
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_stop_in_a_forked_child_leaves_the_handlers_alone(spawn):
    process = spawn(
        program(
            "scheduler.start()",
            "scheduler.install_signal_handlers()",
            "handler = signal.getsignal(signal.SIGTERM)",
            "import warnings",
            "warnings.simplefilter('ignore')  # of forking with threads: on purpose",
            "child = os.fork()",
            "if not child:",
            "    scheduler.stop()",
            "    os._exit(signal.getsignal(signal.SIGTERM) is not handler)",
            "print(os.waitpid(child, 0)[1])",
            "scheduler.stop()",
            "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)",
        )
    )
    out, err, _ = finish(process)
    assert out.splitlines() == ["0", "True"], err


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
            "signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # Python's end would make it deadly",
        )
    )
    assert process.stdout.readline() == "up\n"
    while process.poll() is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGUSR1)
        time.sleep(0.002)
    assert process.returncode == 0, process.stderr.read()
