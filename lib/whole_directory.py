"""A directory of files that a program reads as one: verified as it will be, in a copy, before a file is written."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from lib import listing, prerequisites
from resource_api import CommandError, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

#: Only root can write beside it. One directory for all runs, so that a killed one leaves no other than this.
STAGE = "/run/resource-api.stage"
#: The name of a file does not go on where it ends in a text.
END = r"(?![\w.~-])"


class Copy(NamedTuple):
    """The copy of a directory and of the main file that reads it, both by their paths."""

    directory: str
    main: str


@contextmanager
def stage() -> Iterator[str]:
    """Yield an empty directory of root for the copies that a program checks; the end of the block removes it.

    Its path is fixed, and a lock admits one run at a time: a killed run leaves this one directory at most, which the
    next run removes. Raise ``ResourceError`` if it cannot be made, as by another user.
    """
    import shutil  # slow to import, and needed for changes only

    try:
        # Others cannot open it: who can, could hold the lock.
        fd = os.open(f"{STAGE}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ResourceError(files.describe_error(error, "")) from error
    with os.fdopen(fd) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(STAGE, ignore_errors=True)
        try:
            Path(STAGE).mkdir(mode=0o700)
            yield STAGE
        finally:
            shutil.rmtree(STAGE, ignore_errors=True)


def write(path: str, content: bytes, mode: int = 0o644) -> None:
    """Write a file of a copy with a mode, whatever the umask is: some programs ignore files that others can write."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)


class WholeDirectory(NamedTuple):
    """A directory, the main file that reads it, and a function that returns a program's errors for a copy of both.

    ``include`` is the statement of the main file that reads a directory, with ``{}`` for its path, or empty.
    """

    path: str
    main: str
    include: str
    errors: Callable[[Copy], list[str]]
    mode: int = 0o644

    def unread(self) -> Iterator[Problem]:
        """Yield a problem if the main file does not include the directory, so that its files have no effect."""
        # ``@includedir {}``: the statement may have other blanks, and in sudoers its older spelling ``#includedir``.
        before, _, after = self.include.partition("{}")
        words = r"[ \t]+".join(map(re.escape, before.split())).replace("@", "[@#]")
        statement = rf"^[ \t]*{words}[ \t]*{re.escape(self.path)}/*{re.escape(after)}[ \t]*$"
        with suppress(OSError):
            text = files.read_lines(self.main).content.decode("utf-8", "surrogateescape")
            if re.search(statement, text, re.MULTILINE) is None:
                message = f"{self.main} does not read {self.path}: the file has no effect"
                yield Problem(None, message, needs=f"File[{self.main}]", brought_by=prerequisites.BRINGING)

    def refusals(self, contents: Mapping[str, bytes | None]) -> Iterator[tuple[str, str]]:
        """Yield the name of each file whose new content the program refuses, and its errors: for a plan.

        All contents are checked together, and after errors one by one, in a temporary directory: a plan waits for no
        other run. Without root nothing is yielded: programs ignore files of other users.
        """
        if os.geteuid() or not any(contents.values()) or not (message := self._refusal(contents)):
            return
        messages = {name: self._refusal({name: content}) for name, content in contents.items() if content is not None}
        if any(messages.values()):
            yield from ((name, text) for name, text in messages.items() if text)
        else:  # each is right alone, and only together they are wrong: the last one gets the errors
            yield list(messages)[-1], message

    def _refusal(self, contents: Mapping[str, bytes | None]) -> str:
        """Return the program's errors for new contents as one text for a plan; "" if it accepts them.

        The text is also empty if the program cannot be run, because an earlier resource of the run may install it.
        """
        try:
            self.verify(contents, TemporaryDirectory)
        except (CommandError, OSError):
            return ""
        except ResourceError as error:
            return str(error)
        return ""

    def verify(
        self,
        contents: Mapping[str, bytes | None],
        temporary_directory: Callable[[], AbstractContextManager[str]] = stage,
    ) -> None:
        """Raise ``ResourceError`` with the errors that new contents of files cause, and the other files involved.

        ``contents`` are by the names of the files, None for a removal. Errors that the program reports without the
        change too do not count: a file that is broken already must not prevent the mending of another. The copies are
        in a ``temporary_directory``.
        """
        # The temporary files of a killed run are left out: they are removed before a file is written.
        present = [path.name for path in listing.matching(self.path) if not path.name.endswith(files.TEMPORARY_SUFFIX)]
        with temporary_directory() as root:
            errors, present_errors = self._errors_after_and_before(f"{root}/all", contents, present)
            broken = self._broken(present, contents, present_errors)
            if broken:  # at such a file, a program may end before it reports an error of a new content
                present = [name for name in present if name not in broken]
                errors, present_errors = self._errors_after_and_before(f"{root}/rest", contents, present)
            new = [line for line in errors if line not in present_errors]
            if new:
                text, unchanged_names = "; ".join(new), [name for name in present if name not in contents]
                involved = self._involved(root, contents, unchanged_names, set(new))
                more = ", ".join(path for path in involved if not _names(path, text))
                raise ResourceError(f"{text} (together with {more})" if more else text)

    def _errors_after_and_before(
        self, root: str, contents: Mapping[str, bytes | None], present: Iterable[str]
    ) -> tuple[dict[str, None], dict[str, None]]:
        """Return the errors with the new contents beside the other ``present`` files, and those without a change.

        Comparing both shows the errors that the new contents cause. Without any error after the change, the present
        files are not checked.
        """
        errors = self._read(f"{root}/new", contents, [name for name in present if name not in contents])
        return errors, self._read(f"{root}/old", {}, present) if errors else {}

    def _broken(self, present: Iterable[str], contents: Mapping[str, bytes | None], errors: Iterable[str]) -> set[str]:
        """Return the ``present`` files without a new content that errors are about."""
        text = "\n".join(errors)
        return {name for name in present if name not in contents and _names(f"{self.path}/{name}", text)}

    def _involved(
        self, root: str, contents: Mapping[str, bytes | None], unchanged_names: Iterable[str], errors: set[str]
    ) -> Iterator[str]:
        """Yield the other files that cause one of the ``errors`` together with the new contents, for the message.

        Without their names a user could not find the cause, such as an alias that two files define. Each file is tried
        alone with the new contents; none is involved if the new contents have an error on their own.
        """
        if errors & set(self._read(f"{root}/alone", contents, [], main=False)):
            return
        if errors & set(self._read(f"{root}/main", contents, [])):
            yield self.main
        for number, name in enumerate(unchanged_names):
            if errors & set(self._read(f"{root}/{number}", contents, [name], main=False)):
                yield f"{self.path}/{name}"

    def _read(
        self, root: str, contents: Mapping[str, bytes | None], unchanged_names: Iterable[str], *, main: bool = True
    ) -> dict[str, None]:
        """Return the program's errors for a copy beneath ``root``, with the original paths in their text.

        The copy consists of the new ``contents``, links to the unchanged files, and the main file; without ``main``, a
        main file that only includes the copied directory, so that no error of the real one is among them.
        """
        copy = Copy(root + self.path, root + self.main)
        Path(copy.directory).mkdir(parents=True)
        for name in unchanged_names:
            Path(copy.directory, name).symlink_to(os.path.realpath(f"{self.path}/{name}"))
        for name, content in contents.items():
            if content is not None:
                write(f"{copy.directory}/{name}", content, self.mode)
        write(copy.main, self._main(copy) if main else self.include.format(copy.directory).encode() + b"\n", self.mode)
        return {line.replace(root, ""): None for line in self.errors(copy)}

    def _main(self, copy: Copy) -> bytes:
        """Return the main file with the path of the copy, which it includes in any case, so that files are checked."""
        try:
            text = files.read_lines(self.main).content.decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ResourceError(f"{self.main}: {files.describe_error(error, self.main)}") from error
        changed = re.sub(re.escape(self.path) + END, copy.directory, text)
        if self.include and copy.directory not in changed:
            changed = f"{text}\n{self.include.format(copy.directory)}\n"
        return changed.encode("utf-8", "surrogateescape")


def _names(path: str, text: str) -> bool:
    """Return whether a text contains a path."""
    return re.search(re.escape(path) + END, text) is not None
