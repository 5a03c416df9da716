"""Read and replace files in ``/etc/logrotate.d`` that logrotate(8) has read without an error."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import listing, prerequisites, program_checked_files
from lib.whole_directory import WholeDirectory
from resource_api import BaseProvider, Change, Command, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lib.whole_directory import Copy
    from resource_api import Context, Resource

DIRECTORY = "/etc/logrotate.d"
MAIN = "/etc/logrotate.conf"
#: The line of an error in a file.
ERROR = re.compile(r"error: (?P<file>[^\s:]+)(?P<line>:\d+(?= )|(?=:))[ :](?P<text>.*)")
NAME = re.compile(r"\w[\w-]*", re.ASCII)
#: Settings of more than one line, up to a line that ends them.
SCRIPTS = {"prerotate", "postrotate", "firstaction", "lastaction", "preremove"}
#: The word that forbids a setting is mostly its own behind ``no``.
FORBIDDING = {"ifempty": "notifempty"}


class Provider(BaseProvider):
    """The rules of the administrator and of packages."""

    logrotate = Command("logrotate", read_only=True, timeout=60)

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write sections as text, and end text with a line end, as in rows of ``get``."""
        return program_checked_files.write_texts(resources, format_sections)

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the rules in ``names``, or all; a link fails its name, as links are not followed."""
        if names is not None:
            yield from program_checked_files.read_rows(context, DIRECTORY, names)
        elif os.path.isdir(DIRECTORY):  # noqa: PTH112 - a text
            listed = sorted(filter(NAME.fullmatch, os.listdir(DIRECTORY)))  # noqa: PTH208 - as above
            yield from context.accepted(list(program_checked_files.read_rows(context, DIRECTORY, None, listed)))

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Write the file of each rule, after a check by logrotate of all rules together, also those of packages.

        Two rules for one log are a mistake that appears only in the whole.
        """
        contents = program_checked_files.contents(changes)
        if any(contents.values()):
            self._directory.verify(contents)
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                program_checked_files.write(DIRECTORY, name, should)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem if logrotate is missing, or else its errors about the rules."""
        missing = list(prerequisites.missing_program(None, "logrotate", needs="Package[logrotate]"))
        yield from prerequisites.of_files(changes, lambda _name, _should: missing, lambda name: f"{DIRECTORY}/{name}")
        if not missing:
            contents = program_checked_files.contents(program_checked_files.complete(changes))
            # If the main file does not include the directory, no rule has an effect.
            if unread := list(self._directory.unread()):
                yield from ((name, problem) for name in contents for problem in unread)
            yield from ((name, Problem("content", message)) for name, message in self._directory.refusals(contents))

    @property
    def _directory(self) -> WholeDirectory:
        """The rules as logrotate reads them, to check a change in a copy of all."""
        return WholeDirectory(DIRECTORY, MAIN, "include {}", self._errors)

    def _errors(self, copy: Copy) -> list[str]:
        """Return the errors of all rules, each with its file and line, so that a change that causes one is refused.

        Only errors with a file's name are of rules: a log that does not exist now is no mistake.
        """
        output = self.logrotate.attempt("--debug", "--state", "/dev/null", "--", copy.main, log="debug").stderr
        errors = filter(None, map(ERROR.fullmatch, output.splitlines()))
        # logrotate changes into the directory, and prints bare names.
        lines = [f"{Path(copy.directory, line['file'])}{line['line']}: {line['text']}" for line in errors]
        return [*lines, *_later_duplicates(copy)]


def _later_duplicates(copy: Copy) -> Iterator[str]:
    """Yield an error for a log with a rule and a pattern in two files: logrotate reports it only once it exists."""
    read = [Path(copy.main), *(path for path in listing.matching(copy.directory) if NAME.fullmatch(path.name))]
    patterns = [(path, text) for path in read for text in _patterns(os.path.realpath(path))]
    for (path, text), (second, pattern) in permutations(patterns, 2):
        if path != second and text != pattern and not os.path.lexists(text) and _is_match(text, pattern):
            yield f"{path}: duplicate log entry for {text}, which {second} rotates as {pattern}"


def _patterns(path: str) -> Iterator[str]:
    """Yield the paths and patterns of logs in a file's rules, to find two rules for a log; none if it is unreadable."""
    depth, script, content = 0, False, b""
    with suppress(OSError):
        content = files.read(path, program_checked_files.LARGEST)
    for line in content.decode("utf-8", "surrogateescape").splitlines():
        word = line.strip()
        if script or word in SCRIPTS:
            script = word != "endscript"
            continue
        # Only outside of braces are the words of a line paths.
        if not depth and word[:1] in {"/", '"', "'"}:
            with suppress(ValueError):
                yield from (text for text in shlex.split(word.partition("{")[0]) if text.startswith("/"))
        depth += word.count("{") - word.count("}")


def _is_match(path: str, pattern: str) -> bool:
    """Return whether a pattern is for a path; ``*`` stops at a slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def format_sections(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a rule file whose content is declared as a mapping: paths of logs → settings."""
    return "\n".join(
        f"{paths} {{\n{''.join(_setting(*item) for item in settings.items())}}}\n"
        for paths, settings in sections.items()
    )


def _setting(key: str, value: Any) -> str:
    """Return the lines of one declared setting: a script up to ``endscript``, or an option with its value.

    True is the bare option, False the one that forbids it: ``compress: false`` is ``nocompress``.
    """
    if key in SCRIPTS and not isinstance(value, (bool, int)):
        lines = "".join(f"        {line}\n" for line in ([value] if isinstance(value, str) else value))
        return f"    {key}\n{lines}    endscript\n"
    if isinstance(value, bool):
        return f"    {key if value else FORBIDDING.get(key, f'no{key}')}\n"
    text = value if isinstance(value, (str, int)) else " ".join(map(str, value))
    # ``rotate_every: weekly`` is the option ``weekly``.
    return f"    {text}\n" if key == "rotate_every" else f"    {key} {text}\n"
