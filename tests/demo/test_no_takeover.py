"""What the demo says of a store where nobody takes over, however busy the machine is."""

from __future__ import annotations

import re

from tests.demo.test_demo import joined, outcome, start


def test_without_a_takeover_the_demo_fails_and_says_so(tmp_path):
    process = start(tmp_path, "--backend", "broken_backends:no_takeover")
    show = outcome(process, tmp_path)
    assert show.status == 1, show.text
    assert re.search(r"Not seen as promised: (hand-over and )?takeover\.", show.text)
    assert "and no other instance went on with the run" in joined(show.text)
    assert show.left == []
