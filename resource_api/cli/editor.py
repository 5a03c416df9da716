"""Text in the user's editor: opened again with the problems above it, until it is right or saved without a change."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, TypeVar

from resource_api.model.values.errors import ManifestError, ResourceAPIError, UsageError
from resource_api.system.process import interactive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.values.errors import Problem

    R = TypeVar("R")

#: Begins the line of a problem.
_PROBLEM: Final = "#! "
#: How often a program that is no user's editor may repeat a mistake.
_MOST: Final = 10


def edit_until_valid(session: Session, subject: str, path: str, original: str, accept: Callable[[str], R]) -> R | None:
    """Let the user edit a text in the file at ``path``; return the result of ``accept``, or None without a change.

    ``subject`` is the option or command in messages. Raise ``ManifestError`` of ``accept`` for a problem that the user
    leaves as it is, ``ResourceAPIError`` where the editor fails, ``UsageError`` where none can be used.
    """
    current, refused, count = original, "", 0
    while True:
        text = _edited(session, subject, path, current)
        body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_PROBLEM))
        if original in (text, body) or not body.strip():
            session.log.write("notice", "", "nothing has been edited, so nothing is changed")
            return None
        try:
            return accept(body)
        except ManifestError as error:
            count += 1
            if body == refused or (count == _MOST and not sys.stdin.isatty()):
                raise
            current, refused = _with_problems(body, error.problems), body


def _edited(session: Session, subject: str, path: str, text: str) -> str:
    """Return a text as it has been edited. Raise ``ResourceAPIError`` where the editor fails."""
    command = _editor(subject)
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="", opener=_private) as file:
            file.write(text)
        session.output.flush()
        code = interactive.edit(path, command, session.output.stdout.fileno())
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            edited = file.read()
    except (OSError, ValueError) as error:
        msg = f"the editor '{command}' cannot be used: {getattr(error, 'strerror', None) or error}"
        raise ResourceAPIError(msg) from error
    if code:
        msg = f"the editor '{command}' ended with exit code {code}; nothing is changed"
        raise ResourceAPIError(msg)
    return edited


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _editor(subject: str) -> str:
    """Return the command of the user's editor. Raise ``UsageError`` where none is named and there is no terminal."""
    if command := (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip():
        return command
    if not sys.stdin.isatty():
        msg = f"{subject} needs a terminal, or an editor in $VISUAL or $EDITOR"
        raise UsageError(msg)
    return "vi"


def _with_problems(text: str, problems: Sequence[Problem]) -> str:
    """Return a text below its problems, whose lines are those of the whole."""
    count = len(problems)
    moved = [problem._replace(line=problem.line + count if problem.line else 0) for problem in problems]
    return "".join(f"{_PROBLEM}{' '.join(str(problem).split())}\n" for problem in moved) + text
