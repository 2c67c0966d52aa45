"""What holds whatever the rules say: one owner of each attempt, fences that grow, ends that stay.

The model is the rules themselves, so it can't notice what is wrong with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anarchon._values import Closed, Recorded, Won
from anarchon.backends._rules import FENCE_LIMIT

if TYPE_CHECKING:
    from anarchon._values import RunKey
    from tests.model.steps import Step


class Referee:
    """Judges the answers of one history."""

    def __init__(self) -> None:
        self._owners: dict[tuple[RunKey, int], tuple[str, int]] = {}  # and the fence
        self._fences: dict[str, int] = {}
        self._ends: dict[RunKey, str] = {}

    def judged(self, step: Step, answer: Any) -> str:
        """Say which promise was broken, if one was."""
        found = [self._judged(step, one) for one in getattr(answer, "answers", ())]
        return next(filter(None, found), "")

    def _judged(self, step: Step, answer: Any) -> str:
        if isinstance(answer, Won):
            return self._won(step, answer)
        if isinstance(answer, Closed) and answer.detail != "trimmed" and answer.by:
            return self._ended(answer.key, answer.status)
        if isinstance(answer, Recorded) and answer.status != "running":
            return self._ended(answer.lease.key, answer.status)
        return ""

    def _won(self, step: Step, won: Won) -> str:
        """See that an attempt has one owner, is the one named, and has the highest fence."""
        wanted = {wish.key: wish.wants for wish in step.items}
        if won.attempt != wanted[won.key]:
            return f"won another attempt than the claim names: {won}"
        if won.key in self._ends:
            return f"won a run that is decided: {won}"
        token = step.options["owner"].token
        known = self._owners.get((won.key, won.attempt))
        if known and won.key.is_ordered and won.fence > known[1]:
            # It was trimmed since then, and ordered again.
            self._owners = {one: by for one, by in self._owners.items() if one[0] != won.key}
            known = None
        if known:
            is_again = known == (token, won.fence)
            return "" if is_again else f"{won} of {token!r}, but it was won before: {known}"
        self._owners[won.key, won.attempt] = token, won.fence
        return self._started(won)

    def _started(self, won: Won) -> str:
        higher = [other for key, other in self._owners if key == won.key and other > won.attempt]
        if higher:
            return f"{won} after attempt {max(higher)}"
        last = self._fences.get(won.key.job, 0)
        self._fences[won.key.job] = won.fence
        # At the limit there is no room above.
        if won.fence <= last and won.fence < FENCE_LIMIT - 1:
            return f"{won} has no higher fence than {last}"
        return ""

    def _ended(self, key: RunKey, status: str) -> str:
        if key.manual:
            return ""  # once it is trimmed nobody knows it any more, so it may be told again
        known = self._ends.setdefault(key, status)
        return "" if known == status else f"{key} was {known}, now it is {status}"
