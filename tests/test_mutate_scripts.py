"""The changes to scripts: each kind once, in what counts and in nothing else."""

from __future__ import annotations

from tests.mutations_of_scripts import mutants_of_script

LUA = """-- a < b in a comment
local left = ends - now  -- and here
if left <= 0 and not paused then
  redis.call('DEL', KEYS[1])
end
"""
SQL = """
UPDATE run SET beat = beat + 1
WHERE owner = token
  AND attempt = 7;
"""


def changes(source):
    return sorted((mutant.line, mutant.what) for mutant in mutants_of_script(source))


def test_a_lua_script():
    assert changes(LUA) == sorted(
        [
            (2, "- -> +"),
            (3, "0 -> 1"),
            (3, "<= -> <"),
            (3, "<= -> >"),
            (3, "and -> or"),
            (3, "not -> "),
            (4, "'DEL' -> 'DEL!'"),
            (4, "1 -> 2"),
            (4, "remove: redis.call('DEL', KEYS[1])"),
        ]
    )


def test_a_statement():
    assert changes(SQL) == sorted(
        [
            (2, "+ -> -"),
            (2, "1 -> 2"),
            (3, "= -> <>"),
            (4, "7 -> 8"),
            (4, "= -> <>"),
            (4, "AND -> or"),
        ]
    )


def test_a_condition_on_a_line_of_its_own_can_go():
    assert (2, "remove: AND b = 2") in changes("WHERE a = 1\nAND b = 2\nAND c = 3;\n")
