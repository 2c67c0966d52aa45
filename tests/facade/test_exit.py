"""However a process ends that can still do something: its runs are handed over, in time."""

from __future__ import annotations

import signal
import time

import pytest

from tests.facade.services import finish, program, recorded

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
            "from anarchon import _lifecycle_forks",
            "begin(); scheduler.stop()",
            "print(len(_lifecycle_forks.lives))",
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
        program("begin('stubborn'); say_when_stopping()").replace(
            "exit_timeout=1", "exit_timeout=30"
        )
    )
    assert process.stdout.readline() == "running\n"
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    *_, took = finish(process)
    assert took < 5


def test_several_schedulers_stop_side_by_side(spawn):
    process = spawn(
        program(
            "other = Scheduler(SqliteBackend('other.db'), lease=6, exit_timeout=2)",
            "other.every('stubborn', '1h', stubborn, catch_up=0)",
            "begin('stubborn'); other.start(); entered.clear()",
            "other.submit('stubborn'); entered.wait()",
            "print(time.monotonic())",
        ).replace("exit_timeout=1", "exit_timeout=2")
    )
    out, err, _ = finish(process)
    assert process.returncode == 0, err
    ending = next(line for line in out.splitlines() if line != "running")
    assert time.monotonic() - float(ending) < 3.9  # not one after the other
