"""User code that forks on a thread of ours: its child ends where that code does, and says how."""

from __future__ import annotations

import json

import pytest

SERVICE = """
    import asyncio, atexit, contextlib, json, logging, os, queue, signal, sys, threading, warnings
    from datetime import UTC, datetime
    from anarchon import Every, MemoryBackend, Scheduler

    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: on purpose
    where, how = sys.argv[1:]
    children = queue.SimpleQueue()
    sys.stdout = open(1, "w", closefd=False)  # buffered, as it is into a pipe

    def fork(*_):
        if not children.empty() or over.is_set():
            return
        pid = os.fork()
        if pid:
            children.put(pid)
            over.set()
            return
        signal.alarm(15)  # a child that hangs dies of it
        over.set()
        print("the child's words")
        atexit.register(print, "the child's exit hook")
        threading.Thread(target=work_on, daemon=False).start()  # ours is one, so it would be
        if how == "return":
            return
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise {
            "raise": ValueError("the child's error"),
            "exit 0": SystemExit,
            "exit 7": SystemExit(7),
            "exit -1": SystemExit(-1),
            "exit text": SystemExit("the child's last words"),
            "Ctrl-C": KeyboardInterrupt,
        }[how]

    def work_on():
        threading.Event().wait(0.1)  # the thread that forked has come to its end by then
        print("the child's thread")

    over = threading.Event()
    armed = threading.Event()

    class Own:
        def next_after(self, t):
            if armed.is_set() and threading.current_thread() is not threading.main_thread():
                fork()
            return Every("1s").next_after(t)

        def latest(self, t):
            return Every("1s").latest(t)

        def __repr__(self):
            return "Own()"

    @contextlib.contextmanager
    def entered(ctx):
        if where == "around enter": fork()
        yield
        if where == "around exit": fork()

    class Log(logging.Handler):
        def emit(self, record):
            if armed.is_set() and where == "log": fork()

    logger = logging.getLogger("mine")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Log())
    scheduler = Scheduler(MemoryBackend(), lease=3, log=logger, around=entered)

    def handler(ctx):
        if where == "handler": fork()
        if where == "on_abort":
            with ctx.signal.on_abort(fork):
                ctx.signal.wait()

    async def coroutine():
        await asyncio.sleep(0)
        if where == "coroutine": fork()

    limit = "100ms" if where == "on_abort" else None
    scheduler.every("job", "1h", handler, catch_up=0, timeout=limit)
    scheduler.every("coroutine", "1h", coroutine, catch_up=0)
    if where == "schedule":
        scheduler.schedule("own", Own(), lambda: None, catch_up=0)
    if where == "listener":
        scheduler.on("success", fork)
    if where == "scheduled":
        now = datetime.now(UTC).replace(microsecond=0)
        scheduler.once("now", now, fork, pass_context=True)
    with scheduler:
        armed.set()
        ran = [scheduler.run_now(name).status for name in ("job", "coroutine")]
        child = children.get(timeout=20)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ran += [scheduler.run_now("coroutine").status]
        print(json.dumps({"status": status, "ran": ran}))
"""
WHERE = [
    "handler",
    "coroutine",
    "scheduled",
    "around enter",
    "around exit",
    "on_abort",
    "listener",
    "log",
    "schedule",
]
HOW = {
    "return": 0,
    "exit 0": 0,
    "exit 7": 7,
    "exit -1": 255,
    "exit text": 1,
    "raise": 1,
    "Ctrl-C": 130,
    "kill": -9,
}


def fork(spawn, where, how):
    """Return what parent and child have written: lines, the parent's report, stderr."""
    process = spawn(SERVICE, where, how)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 0, err
    *lines, report = out.splitlines()
    return lines, json.loads(report), err


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", ["return", "exit 7", "raise"])
def test_a_child_ends_where_the_user_code_ends(spawn, where, how):
    lines, report, err = fork(spawn, where, how)
    assert lines == ["the child's words", "the child's thread", "the child's exit hook"]
    first = "failed" if where == "on_abort" else "success"
    # In a child that a logging handler has forked, logging itself raises at the handler's end.
    status = 1 if where == "log" else HOW[how]
    assert report == {"status": status, "ran": [first, "success", "success"]}
    assert ("ValueError: the child's error" in err) == (how == "raise")
    assert "anarchon-" not in err


@pytest.mark.parametrize("how", ["exit 0", "exit -1", "exit text", "Ctrl-C", "kill"])
def test_its_status_is_that_of_what_it_raised(spawn, how):
    _, report, err = fork(spawn, "handler", how)
    assert report["status"] == HOW[how]
    assert ("the child's last words" in err) == (how == "exit text")
    assert ("KeyboardInterrupt" in err) == (how == "Ctrl-C")
