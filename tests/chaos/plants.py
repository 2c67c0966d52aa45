"""Backends that do wrong on purpose, so that the checker can be seen to notice."""

from __future__ import annotations

from anarchon._values import Closed, Held, Result, Won

MINUTE_MS = 60_000


def double(backend):
    """Tell those who lost the race for a first attempt that they have won it as well."""
    claim = backend.claim

    def lying(wishes, **how):
        claims = claim(wishes, **how)
        answers = [
            Won(wish.key, 1, MINUTE_MS, 1)
            if wish.wants == 1 and isinstance(one, Held) and not one.run.mine
            else one
            for wish, one in zip(wishes, claims.answers, strict=True)
        ]
        return claims._replace(answers=tuple(answers))

    backend.claim = lying


def unrun(backend):
    """Record success for a run that was won, and tell nobody of it."""
    claim = backend.claim

    def hiding(wishes, *, owner, **how):
        claims = claim(wishes, owner=owner, **how)
        won = [one for one in claims.answers if isinstance(one, Won) and is_chosen(one.key)]
        if won:
            results = [
                Result(one.key, one.attempt, "success", "scheduled", one.key.slot_ms, 1)
                for one in won
            ]
            backend.finish(results, owner=owner)
        answers = [
            Closed(one.key, "success", None, "somebody") if one in won else one
            for one in claims.answers
        ]
        return claims._replace(answers=tuple(answers))

    backend.claim = hiding


def deaf(backend):
    """Take some slots for decided, without asking the store."""
    claim, skip = backend.claim, backend.skip

    def ignoring(call):
        def asking(wishes, **how):
            claims = call([wish for wish in wishes if not is_chosen(wish.key)], **how)
            answers = iter(claims.answers)
            said = [
                Closed(wish.key, "success", None, "somebody")
                if is_chosen(wish.key)
                else next(answers)
                for wish in wishes
            ]
            return claims._replace(answers=tuple(said))

        return asking

    backend.claim, backend.skip = ignoring(claim), ignoring(skip)


def is_chosen(key):
    """Say whether this slot is one of those that a plant is about: every third second."""
    return key.job == "tick" and key.slot_ms // 1000 % 3 == 0


PLANTS = {plant.__name__: plant for plant in (double, unrun, deaf)}
