"""Conditions of this machine and of services, which `wait_for` awaits and `assert` requires."""

from __future__ import annotations

import os
import shlex
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from lib import command_lines, executed_code, regular_expressions
from resource_api import Command, CommandError, Problem, ResourceError, compute, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes of a file in which a pattern is searched, at its end.
LOG_LIMIT = 16 * 1024 * 1024
#: Seconds that the search for a pattern may take.
SEARCH = 5.0
#: Seconds that one attempt may take, and more for a request to fail with its own reason.
ATTEMPT, GRACE = 10.0, 0.5


def problems(should: Mapping[str, Any], more: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Yield the mistakes in declared conditions: no condition at all, or ``pattern`` without ``path``, for example.

    It is the ``validate`` of types with conditions. ``more``: further attributes that count as conditions.
    """
    declared = [name for name in ("path", "missing", "port", "url", "command", *more) if should.get(name) is not None]
    if not declared:
        yield Problem(None, "declares no condition; give a path, a port, a url or a command")
    for name, needed in (("pattern", "path"), ("status", "url")):
        if should.get(name) is not None and should.get(needed) is None:
            yield Problem(name, f"'{name}' belongs to '{needed}', which is not declared")
    yield from regular_expressions.problems("pattern", should.get("pattern"))
    if isinstance(command := should.get("command"), str):
        yield from command_lines.problems("command", command)


def unmet(should: Mapping[str, Any], seconds: float = ATTEMPT) -> str:
    """Return the first unmet condition in words, for the resource's error, or "". ``seconds`` limits each check."""
    checks = (("missing", _missing), ("path", _path), ("port", _port), ("url", _url), ("command", _command))
    failures = (check(should, seconds) for name, check in checks if should.get(name) is not None)
    return next(filter(None, failures), "")


def _missing(should: Mapping[str, Any], _seconds: float) -> str:
    """Return that a path exists which must be missing, or an empty text."""
    return f"'{should['missing']}' exists" if os.path.lexists(should["missing"]) else ""


def _shortened(line: str) -> str:
    """Return the beginning of a line that is too long for a search, with a last character that no ``$`` matches."""
    longest = regular_expressions.LONGEST
    return line if len(line) <= longest else f"{line[: longest - 1]}\uffff"


def _path(should: Mapping[str, Any], seconds: float) -> str:
    """Return the reason why a path does not exist or has no line with the pattern, or an empty text.

    Only the end of a large file, such as a log, is searched.
    """
    path, pattern = should["path"], should.get("pattern")
    if pattern is None:
        return "" if os.path.exists(path) else f"'{path}' does not exist"  # noqa: PTH110 - text in, text out
    try:
        with files.open_source(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_LIMIT))
            content = file.read(LOG_LIMIT) or b""
    except (OSError, ResourceError) as error:
        return f"'{path}' cannot be searched: {files.describe_error(error, path)}"
    lines = [_shortened(line) for line in content.decode(errors="replace").splitlines()]
    try:
        matches = regular_expressions.find(pattern, lines, seconds=min(seconds, SEARCH))
    except ResourceError as error:
        return f"'{path}' cannot be searched: {error}"
    return "" if matches else f"no line of '{path}' contains '{pattern}'"


def _port(should: Mapping[str, Any], seconds: float) -> str:
    """Return the reason why a port does not accept a connection yet, or an empty text if it does."""
    host, port = should["host"], should["port"]
    # As bytes an ASCII name is not encoded by the codec idna, whose large tables would be loaded.
    address = host.encode() if host.isascii() else host
    try:
        socket.create_connection((address, port), timeout=seconds).close()
    except (OSError, UnicodeError) as error:
        return f"port {port} of {host} accepts no connection: {getattr(error, 'strerror', None) or error}"
    return ""


def _url(should: Mapping[str, Any], seconds: float) -> str:
    """Return the reason why a URL does not answer as expected, or an empty text.

    The request runs in a process of its own, which can be ended when the time for the whole answer is over.
    """
    # ``compute`` forks: what is imported here is not imported again in the process of each attempt.
    import urllib.request  # noqa: F401 - slow to import

    url, expected = should["url"], should.get("status")
    try:
        answer = compute(f"the answer of {url}", partial(_answer, url, seconds), seconds=seconds + GRACE)
    except ResourceError as error:
        return str(error)
    if isinstance(answer, str):
        return answer
    if answer == expected or (expected is None and answer < 400):  # noqa: PLR2004 - the first status of an error
        return ""
    return f"{url} answers {answer}" + (f" instead of {expected}" if expected else "")


def _answer(url: str, seconds: float) -> int | str:
    """Return the status of a URL's answer, or the reason why there is none.

    ``seconds`` limits each read and write, not the whole, for which the caller runs this in a process of its own. A
    status of an error is an answer too.
    """
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=seconds, context=ssl.create_default_context()) as answer:  # noqa: S310 - http and https only, by the data type
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{url} does not answer: {getattr(reason, 'strerror', None) or reason}"
    except http.client.HTTPException as error:
        return f"{url} does not answer by HTTP: {str(error).strip()}"


def _command(should: Mapping[str, Any], seconds: float) -> str:
    """Return the reason why a command did not succeed, or an empty text.

    It is refused if other users can change the code that it executes.
    """
    command = should["command"]
    words = shlex.split(command) if isinstance(command, str) else command
    try:
        program = Command(words[0], read_only=True, timeout=seconds)
        executed_code.check(program, words)
        result = program.attempt(*words[1:])
    except CommandError as error:
        return str(error)
    return "" if result.exit_code == 0 else f"{command_lines.quoted(words)} returned {result.exit_code}"
