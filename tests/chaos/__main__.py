"""The command; see `parser` for its options."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.checker import check, excerpt
from tests.chaos.driver import Driver
from tests.chaos.figures import figures
from tests.chaos.fleet import Setting
from tests.chaos.latencies import table
from tests.chaos.stores import SHORT, STORES, store_named

SHOWN = 5  # violations with an excerpt of the ledger

# The checkout comes last, so that an installed wheel is what is tested.
CHECKOUT = str(Path(__file__).resolve().parents[2])
START = "import sys; sys.path.append(sys.argv.pop(1)); from tests.chaos.__main__ import main"


def command(*options: str) -> list[str]:
    """Return the words of this command, for another process."""
    start = f"{START}; sys.exit(main())"
    return [sys.executable, "-P", "-c", start, CHECKOUT, *options]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    found.add_argument("--store", default="sqlite", help="one, or several side by side: a,b,c")
    found.add_argument("--minutes", type=float, default=1.0, help="how long faults strike")
    found.add_argument("--seed", type=int, default=None)
    found.add_argument("--work", default="plain", help="what the jobs do")
    found.add_argument("--processes", type=int, default=4)
    found.add_argument("--pause", type=float, default=1.0, help="longer pauses between faults: 2")
    found.add_argument("--plant", default=None, help="a fault in the backend, for the checker")
    found.add_argument("--calm", action="store_true", help="without faults")
    found.add_argument("--latencies", type=int, default=0, help="measure so many of each instead")
    found.add_argument("--keep", action="store_true", help="keep the ledger and the logs")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    stores = options.store.split(",")
    known = {*STORES, *SHORT}
    if unknown := set(stores) - known:
        parser().error(f"no such store: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if options.latencies:
        print(table(stores, options.latencies))
        return 0
    return one(options) if len(stores) == 1 else side_by_side(options, stores)


def side_by_side(options: argparse.Namespace, stores: list[str]) -> int:
    """Run on several stores at once, each in a process of its own."""
    given = {**vars(options), "store": None}
    flags = {name: value for name, value in given.items() if value not in (None, False)}
    words = [
        word
        for name, value in flags.items()
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]
    running = [
        subprocess.Popen(
            command(*words, "--store", store), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for store in stores
    ]
    for process in running:
        print(process.communicate()[0].decode(), flush=True)
    return int(any(process.returncode != 0 for process in running))


def one(options: argparse.Namespace) -> int:
    """Run on one store; return the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="anarchon-chaos-"))
    setting = Setting(
        folder=folder,
        work=options.work,
        plant=options.plant,
        longest=int(options.minutes * 60 + 600),
    )
    print(f"{options.store}, seed {options.seed}, {options.minutes:g} minutes", flush=True)
    store = store_named(options.store, folder)
    seed = f"{options.store} {options.seed}"
    pause = (0.5 * options.pause, 3.5 * options.pause)
    driver = Driver(setting, store, seed=seed, pause=pause)
    begun = time.monotonic()
    try:
        story = driver.run(options.minutes * 60, options.processes, with_faults=not options.calm)
        wrong = driver.fleet.wrong
        violations = [*check(story), *driver.work.check(story)]
    finally:
        driver.close()
        store.delete()
    print(figures(story, violations))
    print(f"  seconds in all: {time.monotonic() - begun:.0f}")
    for violation in violations[:SHOWN]:
        print(f"\n{violation}\n{excerpt(story, violation)}")
    for violation in violations[SHOWN:]:
        print(violation)
    for text in wrong:
        print(f"\n{text}")
    is_wrong = bool(violations or wrong)
    if is_wrong or options.keep:
        print(f"ledger and logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
