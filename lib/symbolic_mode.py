"""Modes of files as chmod(1) takes them in letters: ``u=rw,go=r``, ``a+X``, ``g=u``."""

from __future__ import annotations

import re

_CLAUSE = re.compile(r"([ugoa]*)((?:[-+=](?:[ugo]|[rwxXst]*))+)")
_OPERATION = re.compile(r"([-+=])([ugo]|[rwxXst]*)")
_WHO = {"u": 0o4700, "g": 0o2070, "o": 0o1007}
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_RIGHTS = {"r": 0o444, "w": 0o222, "x": 0o111, "s": 0o6000, "t": 0o1000}


def apply(text: str, mode: int, *, directory: bool) -> int:
    """Return ``mode`` after the clauses of ``text``; a clause without ``u``, ``g`` or ``o`` is for all three.

    ``X`` is ``x`` for a directory, and for a file that any user may execute; ``u``, ``g`` or ``o`` after an operator
    means the rights of that class. As with chmod(1), ``=`` leaves the set-id bits of a directory as they are unless
    its letters include ``s``.
    """
    for who, operations in _CLAUSE.findall(text):
        mask = 0
        for letter in "ugo" if not who or "a" in who else who:
            mask |= _WHO[letter]
        for operator, letters in _OPERATION.findall(operations):
            rights = _rights(letters, mode, directory=directory)
            if operator == "=":
                set_ids = 0o6000 if directory and "s" not in letters else 0
                mode &= ~mask | set_ids
            mode = mode & ~(rights & mask) if operator == "-" else mode | (rights & mask)
    return mode


def _rights(letters: str, mode: int, *, directory: bool) -> int:
    """Return the bits of the letters after an operator, in all classes: ``r`` is ``0o444``."""
    if letters in _SHIFTS:  # ``g=u``: the rights of that class, repeated for all three
        return (mode >> _SHIFTS[letters] & 0o7) * 0o111
    executable = directory or mode & 0o111
    rights = 0
    for letter in letters:
        rights |= _RIGHTS["x"] if letter == "X" and executable else _RIGHTS.get(letter, 0)
    return rights
