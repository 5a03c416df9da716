"""The files and trees that a command executes besides its program: scripts, sources that it builds, its directory."""

from __future__ import annotations

import os
import re
import shlex
from itertools import dropwhile, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from resource_api import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api import Command

#: Programs that execute a file that their arguments name, and a text after ``-c``.
SHELLS = re.compile(r"(a|ba|da|k|mk|z)?sh")
#: Programs that execute a file that their arguments name, and load others from its directory, or from their own.
INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|tclsh|java|deno|bun)[\d.]*")
#: Programs that execute the content of their directory, and of those that their arguments name.
BUILDERS = re.compile(
    r"(git|hg|g?make|cmake|ninja|meson|scons|ant|mvn|gradle|cargo|go|npm|npx|pnpm|yarn|bower|grunt|gulp|pip|pipx|poetry"
    r"|uv|tox|nox|composer|bundle|bundler|rake|gem|ansible-playbook|terraform|tofu|just|task|debuild|dpkg-buildpackage"
    r"|rpmbuild|pytest|autoreconf)[\d.]*"
)
#: Programs that execute the command in their arguments.
WRAPPERS = re.compile(r"chrt|command|env|exec|flock|ionice|nice|nohup|setpriv|setsid|stdbuf|time|timeout")
#: Programs that execute nothing of their directory, whatever it contains.
READERS = re.compile(
    r"\[|awk|basename|b(un)?zip2|cat|chgrp|chmod|chown|cksum|cmp|cp|curl|cut|date|dd|df|diff|dirname|du|echo|false|find"
    r"|grep|g(un)?zip|head|id|install|link|ln|ls|md5sum|mkdir|mktemp|mv|printf|pwd|readlink|realpath|rm|rmdir|rsync|sed"
    r"|seq|sha\d+sum|sleep|sort|stat|sync|tail|tar|tee|test|touch|tr|true|truncate|umask|uname|uniq|unxz|unzip|wc|wget"
    r"|which|xz|zcat|zip|zstd"
)
#: Words of a shell that are followed by a command.
BEFORE = re.compile(r"[!{}]|do|elif|else|if|then|until|while")
ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
#: Variables with files and directories whose content is executed.
VARIABLES = re.compile(r"(BASH_)?ENV|LD_(LIBRARY_PATH|PRELOAD)|NODE_PATH|PERL5LIB|PYTHON(HOME|PATH)|RUBYLIB")
#: The directories of the system's own programs, which are searched without a declared path too.
SYSTEM = ("/bin", "/sbin", "/usr/")
#: The most levels of commands within commands.
DEEPEST = 8


class Executed(NamedTuple):
    """Executed code: a file or a tree, or any file that another user may add to a directory (``is_place``)."""

    path: str
    is_place: bool = False


def check(
    command: Command,
    argv: Sequence[str],
    cwd: str | None = None,
    variables: Mapping[str, str] | None = None,
    user: str | None = None,
) -> None:
    """Raise ``CommandError`` if a command would execute code that other users can change, and so get our rights.

    The code is derived from the words ``argv``, the directory ``cwd`` and the environment's ``variables``, as far as
    these show it. A command with a declared ``user`` is never refused: the code runs with that user's rights.
    """
    executed = [*_of_command(argv, cwd or "/", 0), *_of_variables(variables or {})]
    command.check_code(
        *dict.fromkeys(code.path for code in executed if not code.is_place),
        places=list(dict.fromkeys(code.path for code in executed if code.is_place)),
        user=user,
    )


def _of_variables(variables: Mapping[str, str]) -> Iterator[Executed]:
    """Yield the paths in variables such as ``PYTHONPATH``, from which programs are executed or code is loaded.

    Of a directory in ``PATH`` it counts only whether other users can add programs to it.
    """
    for name, value in variables.items():
        if name == "PATH" or VARIABLES.fullmatch(name):
            paths = [path for path in value.split(":") if path[:1] == "/" and not path.startswith(SYSTEM)]
            yield from (Executed(path, is_place=name == "PATH") for path in paths)


def _of_command(argv: Sequence[str], cwd: str, depth: int) -> Iterator[Executed]:
    """Yield the files and directories from which a command may execute code, as far as its words show.

    ``cwd`` is its working directory. ``depth`` is that of a command in the arguments of another one, such as ``sh -c``:
    beyond ``DEEPEST`` its words are not followed, and only its directory counts.
    """
    program, arguments = os.path.basename(argv[0]), argv[1:]  # noqa: PTH119 - text in, text out
    if not READERS.fullmatch(program):  # it may execute any file of its working directory
        yield Executed(cwd, is_place=True)
    if depth > DEEPEST:
        return
    if WRAPPERS.fullmatch(program):
        if command := list(dropwhile(_is_option, arguments)):
            yield from _of_command(command, cwd, depth + 1)
    elif SHELLS.fullmatch(program):
        yield from _of_shell(arguments, cwd, depth)
    elif INTERPRETERS.fullmatch(program):
        yield from _of_interpreter(arguments, cwd)
    elif BUILDERS.fullmatch(program):
        yield from _tree(cwd)
        for path in _existing_files(arguments, cwd):
            yield from _tree(path if os.path.isdir(path) else os.path.dirname(path))  # noqa: PTH112, PTH120 - text in, text out


def _is_option(word: str) -> bool:
    """Return whether a word after a wrapper is not yet the command: an option, number, duration or assignment."""
    return word.startswith("-") or word[:1].isdigit() or ASSIGNMENT.fullmatch(word) is not None


def _of_interpreter(arguments: Sequence[str], cwd: str) -> Iterator[Executed]:
    """Yield the script of an interpreter, and the tree around it, from which it may load modules.

    Without a script, as with ``python -m NAME``, it may load them from its working directory.
    """
    script = next(_existing_files(arguments, cwd), None)
    if script is None or os.path.isdir(script):  # noqa: PTH112 - text in, text out
        yield from _tree(cwd)
    else:
        yield from _tree(os.path.dirname(script))  # noqa: PTH120 - text in, text out
    if script is not None:
        yield Executed(script)


def _of_shell(arguments: Sequence[str], cwd: str, depth: int) -> Iterator[Executed]:
    """Yield the code that a shell executes: that of the text after ``-c``, or else its script."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if word.startswith("-") and word.endswith("c"):
            yield from _of_text(following, cwd, depth)
            return
    yield from [Executed(path) for path in _existing_files(arguments, cwd)][:1]


def _of_text(script: str, cwd: str, depth: int) -> Iterator[Executed]:
    """Yield the code that the commands of a script execute.

    After a ``cd`` to an existing directory, relative paths in the following commands are relative to that directory.
    """
    for words in _commands(script):
        directory = os.path.normpath(os.path.join(cwd, words[-1]))  # noqa: PTH118 - text in, text out
        if words[0] == "cd" and os.path.isdir(directory):  # noqa: PTH112 - text in, text out
            cwd = directory
        elif words[0] in {".", "source"}:
            yield from map(Executed, _existing_files(words[1:2], cwd))
        else:
            if "/" in words[0]:
                yield from map(Executed, _existing_files(words[:1], cwd))
            yield from _of_command(words, cwd, depth + 1)


def _commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each command in a shell script, to determine which programs and files the script executes.

    The script is only split into words: expansions such as ``$x`` stay as they are. Words before the name of a command,
    such as ``if`` or ``A=b``, are left out, so that the first word is the program.
    """
    lexer = shlex.shlex(script, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    words: list[str] = []
    try:
        for token in [*lexer, "\n"]:
            # Punctuation that ends a command; ``<`` and ``>`` alone do not.
            if set(token) & set("();|&\n") and not set(token) - set("();<>|&\n"):
                if words:
                    yield words
                words = []
            elif words or not (BEFORE.fullmatch(token) or ASSIGNMENT.fullmatch(token)):
                words.append(token)
    except ValueError:  # of an open quote, which the shell refuses
        return


def _existing_files(words: Iterable[str], cwd: str) -> Iterator[str]:
    """Yield the existing files among the arguments of a command, which it may execute, relative to ``cwd``.

    Paths in options count as well: ``--file=PATH`` and ``-CPATH``.
    """
    for word in words:
        if not ASSIGNMENT.fullmatch(word):
            option = word.partition("=")[2] or word[2:] if word[:1] == "-" else word
            path = os.path.normpath(os.path.join(cwd, option))  # noqa: PTH118 - text in, text out
            if option and "\0" not in path and os.path.lexists(path):
                yield path


def _tree(directory: str) -> Iterator[Executed]:
    """Yield the item for a directory whose whole content counts as executed code, such as the sources of a build.

    For a system directory such as ``/usr`` or ``/tmp`` (``is_place``) it is only checked whether other users can add
    files to it: checking each of its many files would take too long.
    """
    yield Executed(directory, is_place=directory in files.PROTECTED_DIRECTORIES)
