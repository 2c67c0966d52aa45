"""The mutants: one rule each that the core or the store has to keep, weakened.

Some rules are kept twice, in the store and in the core that asks it; then both are weakened.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`new` in the place of `old` in a file, and whatever else has to change with it.

    `hunt` names the simulations in which one of the `invariants` has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    hunt: str
    invariants: tuple[str, ...]
    also: tuple[tuple[str, str, str], ...] = ()


NO_WITNESS = (
    "_core_watches.py",
    "        if agrees:\n            return received\n",
    "        if run.left_ms <= 0:\n            return received\n",
)

WEAKNESSES = (
    Mutant(
        "no margin",
        "_core_held.py",
        "self.deadline = sent + left - margin",
        "self.deadline = sent + left",
        "freezes",
        ("self-fence",),
    ),
    Mutant(
        "deadline from the reply, not from the request",
        "_core_attempts.py",
        "held.extend(how.sent, ",
        "held.extend(how.received, ",
        "freezes",
        ("self-fence",),
    ),
    Mutant(
        "renewed after the deadline",
        "_core_held.py",
        "            and not held.fenced\n",
        "",
        "freezes",
        ("self-fence",),
    ),
    Mutant(
        "won again without extending the lease",
        "backends/_rules_claim.py",
        "return Step(won, run=renewed(run, lease_ms, ask.now), extends=True)",
        "return Step(won)",
        "crashes",
        ("self-fence", "no-early-takeover"),
    ),
    Mutant(
        "a claim without an answer counts as won",
        "_core.py",
        "                self._calls.failed(call, error, now)\n            case Ended():",
        "                self._calls.failed(call, error, now)\n"
        "                from ._values import Won\n"
        "                for wish in call[0] if isinstance(call, Claim) else ():\n"
        "                    won = Won(wish.key, wish.wants, wish.terms.lease_ms, 1)\n"
        "                    self._race.slots.settle(wish.key)\n"
        "                    spec = self._specs[wish.key.job]\n"
        "                    self._held.won(won, spec, wish.reason, now.mono)\n"
        "            case Ended():",
        "crashes",
        ("one-winner",),
    ),
    Mutant(
        "a claim without an answer is not repeated",
        "_core_race.py",
        "        self._flying = None\n        self.unknown = claim\n",
        "        self._flying = None\n"
        "        for wish in claim.wishes:\n"
        "            self.slots.settle(wish.key)\n",
        "crashes",
        ("every-slot", "crash-bound"),
    ),
    Mutant(
        "a result is sent once",
        "_core_calls.py",
        "        self.landed(call)\n        self._write_failed",
        "        self.landed(call)\n"
        "        if isinstance(call, Finish):\n"
        "            self._attempts.finishes.clear()\n"
        "        self._write_failed",
        "crashes",
        ("every-slot", "stop-bound"),
    ),
    Mutant(
        "takeover without a witness",
        "backends/_rules.py",
        "return left_ms(run, ask.now) <= 0 and witnessed",
        "return left_ms(run, ask.now) <= 0",
        "steps",
        ("no-early-takeover",),
        (NO_WITNESS,),
    ),
    Mutant(
        "takeover of what missed one renewal",
        "backends/_rules.py",
        "    if unseen_ms >= run.lease_ms:",
        "    if unseen_ms >= 0:",
        "freezes",
        ("no-early-takeover",),
        (
            (
                "_core_watches.py",
                "            return self.first_seen + lease + JUST_AFTER",
                "            return self.first_seen + run.heartbeat_ms / 1000",
            ),
        ),
    ),
    Mutant(
        "a claim wins whatever attempt it names",
        "backends/_rules_claim.py",
        "    if wish.wants != run.attempt + 1:\n        return waiting",
        "    wish = wish._replace(wants=run.attempt + 1)",
        "stops",
        ("one-winner",),
    ),
    Mutant(
        "no overlap guard",
        "backends/_rules_claim.py",
        "    if not wish.terms.skip_overlap:",
        "    if wish:",
        "noise",
        ("overlap",),
    ),
    Mutant(
        "deaths are not counted",
        "backends/_rules_claim.py",
        'deaths = run.deaths + (1 if run.state == "running" else 0)',
        "deaths = run.deaths",
        "crashes",
        ("hand-overs-are-free",),
    ),
    Mutant(
        "hand-overs are counted",
        "_states.py",
        '("stop", "raised"): Ending("release", "interrupted", HANDED_OVER),',
        '("stop", "raised"): Ending("release", "interrupted", HANDED_OVER, counted=True),',
        "stops",
        ("hand-overs-are-free",),
    ),
    Mutant(
        "missed slots are never recorded",
        "_core_missed.py",
        "return tuple(missed.wish for missed in islice(self._ready.values(), most))",
        "return ()",
        "busy",
        ("every-slot",),
    ),
    Mutant(
        "the latest slot is not caught up",
        "_core_slots.py",
        "        if slot is not None and now.wall_ms - slot < job.spec.terms.catch_up_ms:",
        "        if slot is None:",
        "crashes",
        ("every-slot",),
    ),
    Mutant(
        "a watch is forgotten after a look",
        "_core_watches.py",
        "            if looked.others == 0:\n",
        "            if looked:\n",
        "takeover",
        ("crash-bound",),
    ),
    Mutant(
        "no look",
        "_core_watches.py",
        "        return min(self._regular, self._at_end)",
        "        return inf",
        "takeover",
        ("crash-bound",),
    ),
    Mutant(
        "a look doesn't show what was handed over",
        "backends/_rules_end.py",
        'if run.state == "waiting" or run.left_ms <= 0 or',
        'if run.state == "waiting":\n        return False\n    if run.left_ms <= 0 or',
        "hand-over",
        ("hand-over-bound",),
    ),
    Mutant(
        "a skip is told of again and again",
        "_core_answers.py",
        "            if what in job.told:",
        "            if not job:",
        "wrong clocks",
        ("told-once",),
    ),
    Mutant(
        "open runs are not asked for at the start",
        "_core_calls.py",
        "            self._unlisted.update(dict.fromkeys(jobs))",
        "            pass",
        "restart",
        ("crash-bound",),
    ),
    Mutant(
        "a starved worker never claims",
        "_core_rounds.py",
        "            self._planned = Round(mono, 1, mono, 0.0, self._workers)",
        "            self._planned = Round(mono + 1e9, 1, mono, 0.0, self._workers)",
        "busy",
        ("claim-planned", "every-slot"),
    ),
    Mutant(
        "early start",
        "_core_attempts.py",
        'if held.handler == "pending" and held.start_at <= now.mono:',
        'if held.handler == "pending":',
        "mixed1",
        ("never-early",),
    ),
    Mutant(
        "what is refused is asked for again at once",
        "_core_watches.py",
        "        self.refused = (self.attempt, self.waits)\n        self.ready_at = inf\n",
        "",
        "pauses",
        ("no-polling",),
    ),
    Mutant(
        "claims without a worker",
        "_core_race.py",
        "            wins = min(free, share)",
        "            wins = 2 * free * share",
        "busy",
        ("no-polling", "bounded"),
    ),
    Mutant(
        "a look each heartbeat, needed or not",
        "_core_watches.py",
        "        if not self._runs and not needed:",
        "        if False:",
        "noise",
        ("quiet", "stop-bound"),
    ),
    Mutant(
        "two renewals a heartbeat",
        "_core_calls.py",
        "        self._renew_at = sent + self._settings.heartbeat",
        "        self._renew_at = sent + self._settings.heartbeat / 2",
        "busy",
        ("quiet",),
    ),
    Mutant(
        "claims go on after stop",
        "_core_race.py",
        "        self.slots.clear()\n        self.watches.clear()\n        self.rounds.clear()\n",
        "        self.watches.clear()\n",
        "stops",
        ("stop-bound",),
    ),
    Mutant(
        "stop waits for longer than it was told",
        "_core_stop.py",
        "            self._until = now.mono + stop.timeout",
        "            self._until = now.mono + stop.timeout + 5.0",
        "stops",
        ("stop-bound",),
    ),
    Mutant(
        "no jitter growth",
        "_core_rounds.py",
        "wide = self.jitter * max(1.0, self.instances / self.ready)",
        "wide = self.jitter",
        "one job",
        ("shared",),
    ),
    Mutant(
        "share ignored",
        "_core_rounds.py",
        "ceil(crowd.ready / crowd.instances)",
        "ceil(crowd.ready / 1)",
        "ten jobs",
        ("shared",),
    ),
    Mutant(
        "what was claimed is kept for ever",
        "_core_answers.py",
        "            self.specs.pop(wish.key, None)\n",
        "",
        "long",
        ("bounded",),
    ),
)
