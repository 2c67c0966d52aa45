"""The exceptions of anarchon.

Each takes one message argument, can be pickled, and says what happened and what
to do about it. No message ever contains a password.
"""

from __future__ import annotations


class AnarchonError(Exception):
    """Base class of every error that anarchon raises, except `Aborted`."""


class ConfigurationError(AnarchonError, ValueError):
    """A definition, an option or a duration is wrong; raised where it is given."""


class JobNotFound(AnarchonError, LookupError):
    """No job of that name is defined on this scheduler."""


class NotRunning(AnarchonError, RuntimeError):
    """The call needs a scheduler that is running."""


class Busy(AnarchonError, RuntimeError):
    """More manual runs are going on here than the scheduler has workers."""


class BackendError(AnarchonError):
    """The store answered, but can't do what was asked."""


class BackendUnavailable(BackendError, ConnectionError):
    """The store can't be reached or used; the driver's error is the cause."""


class ServerTooOld(BackendError):
    """The store's server is older than the minimum that anarchon supports."""


class Aborted(BaseException):
    """Raised inside a handler whose run should stop.

    It derives from `BaseException`, so that a handler's ``except Exception`` can't
    turn an interruption into a success. `reason` is ``"stop"``, ``"timeout"``,
    ``"lost"`` or ``"cancel"``.
    """

    def __init__(self, message: str = "", reason: str = "stop") -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[Aborted], tuple[str, str]]:
        """Keep the reason when the exception is pickled."""
        return type(self), (str(self), self.reason)
