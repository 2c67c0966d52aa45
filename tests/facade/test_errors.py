"""The errors: one hierarchy, one message, and they survive pickling."""

from __future__ import annotations

import pickle

import pytest

from anarchon import (
    Aborted,
    AnarchonError,
    BackendError,
    BackendUnavailable,
    Busy,
    ConfigurationError,
    JobNotFound,
    NotRunning,
    ServerTooOld,
)

PARENTS = {
    ConfigurationError: (AnarchonError, ValueError),
    JobNotFound: (AnarchonError, LookupError),
    NotRunning: (AnarchonError, RuntimeError),
    Busy: (AnarchonError, RuntimeError),
    BackendError: (AnarchonError,),
    BackendUnavailable: (BackendError, ConnectionError),
    ServerTooOld: (BackendError,),
}


@pytest.mark.parametrize("kind", PARENTS)
def test_the_hierarchy_is_as_promised(kind):
    assert kind.__bases__ == PARENTS[kind]
    assert kind.__doc__


def test_an_abort_is_no_exception_that_a_handler_would_catch():
    assert Aborted.__bases__ == (BaseException,)
    assert Aborted("stopping", "timeout").reason == "timeout"


@pytest.mark.parametrize("kind", [*PARENTS, Aborted])
def test_each_has_one_message_and_can_be_pickled(kind):
    error = kind("what happened; what to do")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) == "what happened; what to do"
    assert copy.args == error.args == ("what happened; what to do",)
    assert getattr(copy, "reason", None) == getattr(error, "reason", None)
