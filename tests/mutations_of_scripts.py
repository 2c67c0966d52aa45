"""The same small changes for what isn't Python: the scripts of Redis and the SQL of PostgreSQL.

They are read as words, without knowing their grammar, which both languages share enough of.
What comes out may be no program at all; that is killed by the first test.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.mutations import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = re.compile(
    r"""
    (?P<comment> --\[\[.*?\]\] | --[^\n]* )
  | (?P<text> '(?:[^'\\\n]|\\.|'')*' | "(?:[^"\\\n]|\\.)*" )
  | (?P<number> (?<![\w.$%]) \d+ (?![\w.]) )
  | (?P<word> [A-Za-z_]\w* )
  | (?P<sign> :=|=>|->>?|\.\.|\|\||::|==|~=|<>|!=|<=|>=|[<>=+\-*/] )
    """,
    re.VERBOSE | re.DOTALL,
)

SIGNS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("~=",),
    "~=": ("==",),
    "<>": ("=",),
    "!=": ("=",),
    "+": ("-",),
    "-": ("+",),
    "*": ("+",),
    "/": ("*",),
}
WORD_CHANGES = {
    "and": "or",
    "or": "and",
    "true": "false",
    "false": "true",
    "least": "greatest",
    "greatest": "least",
    "min": "max",
    "max": "min",
    "asc": "desc",
    "desc": "asc",
    "exists": "not exists",
}
# What comes before an equals sign that compares, in SQL; elsewhere it assigns.
COMPARES = re.compile(r"\b(where|and|or|on|when|if|elsif|case|not|having|filter)\b", re.IGNORECASE)
SETS = re.compile(r"\b(set|select|returning|values|default)\b", re.IGNORECASE)
# Whole lines that can go: a command, an assignment, one of several conditions.
LINES = re.compile(
    r"^[ \t]*(?:redis\.call\(.*\)|[\w.\[\]]+ = [^{(\n]*[^{(,\n]|[\w.]+ := [^\n]*;|"
    r"perform [^\n]*;|(?:and|or) [^\n]*[^;\n])[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def mutants_of_script(source: str) -> list[Mutant]:
    """Return every mutant of a script, in the order of its lines."""
    found: list[Mutant] = []
    seen = {source}
    for start, end, replacement, what in _changes(source):
        changed = source[:start] + replacement + source[end:]
        if changed in seen:
            continue
        seen.add(changed)
        line = source.count("\n", 0, start) + 1
        column = start - (source.rfind("\n", 0, start) + 1)
        found.append(Mutant(f"{line}:{column}:{what}", line, what, changed))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.name))


def _changes(source: str) -> Iterator[tuple[int, int, str, str]]:
    for match in WORDS.finditer(source):
        start, end = match.span()
        text = match.group()
        for new in _replacements(match, source):
            yield start, end, new, f"{text} -> {new}"
    for match in LINES.finditer(source):
        yield *match.span(), "", f"remove: {match.group().strip()}"


def _replacements(match: re.Match[str], source: str) -> Iterator[str]:
    text = match.group()
    if match["number"]:
        yield str(int(text) + 1)
    elif match["text"] and len(text) > 2:
        yield f"{text[:-1]}!{text[-1]}"
    elif match["sign"] == "=" and _compares(source, match.start()):
        yield "<>"
    elif match["sign"]:
        yield from SIGNS.get(text, ())
    elif match["word"] and text.lower() == "not":
        yield ""
    elif match["word"] and text.lower() in WORD_CHANGES:
        yield WORD_CHANGES[text.lower()]


def _compares(source: str, at: int) -> bool:
    """Say whether an equals sign compares, by the last word before it that tells."""
    before = source[max(0, at - 400) : at]
    compares = [match.start() for match in COMPARES.finditer(before)]
    sets = [match.start() for match in SETS.finditer(before)]
    return max(compares, default=-1) > max(sets, default=-1)
