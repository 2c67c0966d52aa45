"""Mutants of what is rarely needed: after lost writes, in deploys, for old copies, by witnesses."""

from __future__ import annotations

from .weaknesses import WEAKNESSES, Mutant

RARE = (
    # --- lost writes ---
    Mutant(
        "own runs that came back are claimed without a worker",
        "_core_race.py",
        "if name in wishes or (watch.mine and not workers):",
        "if name in wishes:",
        "failovers",
        ("bounded",),
    ),
    Mutant(
        "a beat that is counted twice is one renewal",
        "_core_watches.py",
        "        if self._is_news(run, store_ms):",
        "        if (run.attempt, run.beat) != (self.attempt, self.beat):",
        "failovers in noise",
        ("no-early-takeover",),
    ),
    Mutant(
        "whoever is told that its run is lost goes on",
        "_core_attempts.py",
        '        self._abort(held, "lost", now)\n        self._held.drop_if_over(held)',
        "        self._held.drop_if_over(held)",
        "flushes",
        ("self-fence",),
    ),
    Mutant(
        "the fence that was seen is not sent along",
        "_core_answers.py",
        "job.fence_seen = max(job.fence_seen, answer.fence)",
        "job.fence_seen = 0",
        "flushes and steps",
        ("fence",),
    ),
    Mutant(
        "a fence is the store's time",
        "backends/_rules.py",
        "return min(max(job_fence + 1, *sound, 0), FENCE_LIMIT - 1)",
        "return now.wall_ms * 1000",
        "steps",
        ("fence",),
    ),
    # --- old copies and unknown claims ---
    Mutant(
        "what is mine already doesn't count as a win",
        "backends/_operations.py",
        "    wins -= sum(holds(run, wish.wants, owner)",
        "    _ = sum(holds(run, wish.wants, owner)",
        "busy noise",
        ("bounded",),
    ),
    Mutant(
        "who stops repeats its claim with wins",
        "_core_race.py",
        "        if stopping or not waited_for:\n            return claim._replace(wins=0)\n",
        "",
        "stops in noise",
        ("stop-bound",),
    ),
    Mutant(
        "a claim of no wins takes a run over",
        "backends/_rules_claim.py",
        "    if facts.paused or facts.wins <= 0:\n        return held",
        "    if facts.paused or facts.wins < 0:\n        return held",
        "busy crashes",
        ("bounded",),
    ),
    Mutant(
        "an old claim begins a slot after a newer one",
        "backends/_rules_claim.py",
        "if facts.newer or facts.paused:",
        "if facts.paused:",
        "noise",
        ("overlap",),
    ),
    Mutant(
        "another slot is begun beside a dead run that nobody has closed",
        "backends/_rules_claim.py",
        "        return Step(Suspect(wish.key, open_run(dead, ask.owner, ask.now)))\n",
        "        pass\n",
        "steps",
        ("overlap",),
    ),
    Mutant(
        "a slot is missed before the next one is due",
        "backends/_rules_end.py",
        "    if wait_ms > ask.pace.tolerance_ms:\n        return Step(Early(wish.key, wait_ms))\n"
        '    return close_new(wish.key, ask, "missed", wish.detail)',
        '    return close_new(wish.key, ask, "missed", wish.detail)',
        "wrong clocks",
        ("every-slot",),
    ),
    # --- deploys, cancels ---
    Mutant(
        "runs of another version's slots are nobody's",
        "_core_answers.py",
        "        held = self._held.of(run.key)\n        if held is not None and (run.mine",
        "        spec = self._slots.jobs[run.key.job].spec\n"
        "        if spec.schedule.next_after_ms(run.key.slot_ms - 1) != run.key.slot_ms:\n"
        "            return None\n"
        "        held = self._held.of(run.key)\n        if held is not None and (run.mine",
        "deploys",
        ("crash-bound", "hand-over-bound"),
    ),
    Mutant(
        "replies don't name other open runs",
        "backends/_operations.py",
        "        rest = [*rest[:NAMED_OPEN], *_takeable(orders, wish.key, now)]\n",
        "        rest = _takeable(orders, wish.key, now)\n",
        "crashes",
        ("crash-bound", "hand-over-bound"),
    ),
    Mutant(
        "a cancelled run is continued",
        "backends/_rules.py",
        "    if run.cancel or too_old(run, now, catch_up_ms):",
        "    if too_old(run, now, catch_up_ms):",
        "cancels",
        ("one-winner",),
    ),
    # --- what the fleet is asked for ---
    Mutant(
        "an ordered run whose runner died waits again",
        "backends/_rules_claim.py",
        '    if run.state != "waiting":\n        return Step(Held',
        '    if run.state != "waiting" and not alive(run, ask.now):\n'
        '        run = run._replace(state="waiting")\n'
        "        wish = wish._replace(wants=run.attempt + 1)\n"
        '    if run.state != "waiting":\n        return Step(Held',
        "orders",
        ("order-once",),
        (
            (
                "backends/_rules.py",
                '        if run is first or (run.state == "waiting" and not run.key.is_backfill)',
                '        if run is first or run.state == "waiting" or not alive(run, now)',
            ),
            (
                "backends/_rules.py",
                'return run.key.is_ordered and (run.state == "waiting" or run.key.is_backfill)',
                "return run.key.is_ordered",
            ),
            (
                "_core_answers.py",
                '        if run.key.manual and run.state == "running":  # nobody follows it\n',
                "        if False:\n",
            ),
        ),
    ),
    Mutant(
        "past slots are run beside each other",
        "backends/_rules_claim.py",
        "    if any(alive(one, ask.now) or (",
        "    if False and any(alive(one, ask.now) or (",
        "orders",
        ("backfills-in-order",),
        (
            (
                "backends/_rules.py",
                "    if any(alive(run, now) for run in backfills):",
                "    if False:",
            ),
        ),
    ),
    Mutant(
        "a backfill is not given up at its lease's end",
        "_core_held.py",
        "return not self.lease.key.manual or self.lease.key.is_backfill",
        "return not self.lease.key.manual",
        "orders in outages",
        ("self-fence",),
    ),
    Mutant(
        "nobody looks for what the fleet is asked for",
        "_core_calls.py",
        "        asks = not stopping and self._commands_due(now.mono)",
        "        asks = False",
        "looks for orders",
        ("every-order",),
    ),
    Mutant(
        "whoever has run an order doesn't ask for the next",
        "_core_attempts.py",
        "            self.sought.add(held.key.job)",
        "            pass",
        "orders in a row",
        ("every-order",),
    ),
    Mutant(
        "slots always go before orders",
        "_core_race.py",
        "        if self._orders_next:",
        "        if False:",
        "busy orders",
        ("order-turns",),
    ),
    # --- the two witnesses, and the self-fence ---
    Mutant(
        "the first sight of an older renewal counts",
        "_core_watches.py",
        "self.attempt, self.beat, self.first_seen = run.attempt, run.beat, received",
        "self.attempt, self.beat = run.attempt, run.beat",
        "mixed3",
        ("no-early-takeover",),
    ),
    Mutant(
        "a store's clock that moved agrees",
        "backends/_rules.py",
        "return moved_ms < margin_ms(run.lease_ms) / 2 and ask.pace.steady_ms >= witness_ms",
        "return ask.pace.steady_ms >= witness_ms",
        "steps",
        ("no-early-takeover",),
        (
            (
                "_clock.py",
                "if silence > self._reach or low - high >= self._margin / 2:",
                "if silence > self._reach:",
            ),
        ),
    ),
    Mutant(
        "a store's clock agrees from the first reply on",
        "backends/_rules.py",
        "return moved_ms < margin_ms(run.lease_ms) / 2 and ask.pace.steady_ms >= witness_ms",
        "return moved_ms < margin_ms(run.lease_ms) / 2",
        "steps",
        ("no-early-takeover",),
        (
            (
                "_clock.py",
                "self.pace(sent).steady_ms >= self._witness * 1000",
                "self.pace(sent).steady_ms >= 0",
            ),
        ),
    ),
    Mutant(
        "a deadline follows the time of day",
        "_core_attempts.py",
        "if not held.fenced and now.mono >= held.deadline and not held.over:",
        "apart = vars(self).setdefault('apart', now.wall_ms / 1000 - now.mono)\n"
        "            mono = now.wall_ms / 1000 - apart\n"
        "            if not held.fenced and mono >= held.deadline and not held.over:",
        "steps in outages",
        ("self-fence",),
    ),
    Mutant(
        "a renewal is sent before the deadline is looked at",
        "_core.py",
        "        self._attempts.expire(now)\n        if self._calls.outage.on:",
        "        self._calls.send(now, stopping=self.stopping)\n"
        "        self._attempts.expire(now)\n        if self._calls.outage.on:",
        "holds",
        ("self-fence",),
    ),
)

MUTANTS = WEAKNESSES + RARE
