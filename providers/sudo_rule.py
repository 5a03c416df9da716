"""Read and write files of /etc/sudoers.d; ``visudo`` checks a content before it is written."""

from __future__ import annotations

import grp
import pwd
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lib import file_parts, listing, prerequisites
from lib.sensitive import reveal
from lib.whole_directory import WholeDirectory
from resource_api import BaseProvider, Command, Planned, Problem, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lib.whole_directory import Copy
    from resource_api import Change, Context, Resource

DIRECTORY = Path("/etc/sudoers.d")
MAIN = "/etc/sudoers"
#: Other files are ignored by sudo.
NAME = re.compile(r"[\w-]+", re.ASCII)
LARGEST = 1024 * 1024  # bytes
#: A number after `#` is a user, not a comment.
COMMENT = re.compile(r"[ \t]*(#(?!include|-?\d).*)?")
#: Rules with other separators than those that this type writes are not read.
RULE = re.compile(
    r"(?P<user>(?:\\.|[^\s\\])+)[ \t]+(?P<hosts>[^\s=(]+(?:,[ \t]*[^\s=(]+)*)[ \t]*=[ \t]*"
    r"(?:\((?P<runas>(?:\\.|[^()\\])*)\))?[ \t]*(?P<tags>(?:[A-Z_]+:[ \t]*)*)(?P<commands>[^:].*)"
)
#: The statement of the main file that reads the directory.
INCLUDE = re.compile(r"^[@#]includedir[ \t]+/etc/sudoers\.d/?[ \t]*$", re.MULTILINE)
COMMA = re.compile(r"(?<!\\),")
#: The position of an error in visudo's output.
POSITION = re.compile(r"\S+:\d+:\d+: ")
BLANK = re.compile(r"(\\.)|[ \t]+")
ATTRIBUTES = ("user", "hosts", "runas", "commands", "nopasswd", "tags")


class Rule(NamedTuple):
    """A rule in a line; ``file`` is the name of its file in the directory, or empty for the main file."""

    file: str
    path: str
    line: str
    attributes: Mapping[str, Any]


class Provider(BaseProvider):
    """The files of ``/etc/sudoers.d`` that sudo reads."""

    visudo = Command("visudo", read_only=True)

    def __init__(self) -> None:
        """Start without a rule that is declared by its content."""
        self._by_content: set[str] = set()

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort tags, end content with a line break; record rules with ``content`` for ``get``, which has only names."""
        for resource in resources:
            if resource.get("tags"):
                resource["tags"] = sorted(set(resource["tags"]))
            if resource.get("content"):
                resource["content"] = f"{resource['content'].rstrip()}\n"
                self._by_content.add(resource.get("name", ""))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse a rule without user or commands, and attributes of a rule beside ``content``, which replaces them."""
        declared = [name for name in ATTRIBUTES if should.get(name) is not None]
        if should.get("content") is not None:
            yield from (Problem(name, f"give either 'content' or '{name}'") for name in declared)
        elif should.get("ensure") != "absent":
            missing = [name for name in ("user", "commands") if name not in declared]
            yield from (Problem(None, f"declares neither '{name}' nor 'content'") for name in missing)

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the rules in ``names``, or all; a file that cannot be read fails its rule."""
        listed = [path.name for path in sorted(DIRECTORY.iterdir())] if names is None and DIRECTORY.is_dir() else []
        for name in filter(NAME.fullmatch, listed if names is None else names):
            path = str(DIRECTORY / name)
            try:
                text = _read(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                file_parts.report_unreadable(context, [name], f"{path}: {files.describe_error(error, path)}", names)
                continue
            row = {"name": name, "ensure": "present", **self._described(context, name, text)}
            if (accepted := context.type.accepted_row(row)) is not None:
                yield accepted

    def _described(self, context: Context, name: str, text: str | None) -> Resource:
        """Return the attributes of the rule in a file, or the file's text as ``content`` if they cannot express it.

        A file that is declared by ``content`` is described by its text too, to compare both. None stands for a file
        that sudo ignores: it has no attributes.
        """
        if text is None:
            return {}
        rules = [] if name in self._by_content else [rule for line in text.split("\n") if (rule := _parse(line)) != {}]
        only_rule = rules[0] if len(rules) == 1 else None
        if only_rule and all(context.type.accepts[attribute](value) for attribute, value in only_rule.items()):
            return only_rule
        return {"content": f"{files.printable(text).rstrip()}\n"}

    def plan(self, _context: Context, _name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> Planned:
        """Add ``content`` to the plan's changes if a rule declared by attributes replaces it."""
        replaced = is_ is not None and is_.get("content") and should["ensure"] != "absent" and not should.get("content")
        return Planned(changes=["content"] if replaced else [])

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield a problem if sudo is missing, or else its errors about the rules, and warnings for overridden rules.

        All files are checked together, as sudo reads them; rules that are not completely known yet are left out.
        """
        missing = list(prerequisites.missing_program(None, "visudo", needs="Package[sudo]"))
        yield from prerequisites.of_files(changes, lambda _name, _should: missing, lambda name: str(DIRECTORY / name))
        if missing:
            return
        # If the main file does not include the directory, no rule has an effect.
        if unread := list(self._directory.unread()):
            yield from ((name, problem) for name in prerequisites.present(changes) for problem in unread)
        mandatory = {"user", "commands"}  # one is missing while its value is not known yet
        complete = {
            name: should for name, should in changes.items() if should.get("content") or mandatory <= should.keys()
        }
        texts = {name: _text(name, None, should) for name, should in complete.items()}
        for name, message in self._directory.refusals(_encoded(texts)):
            yield name, Problem("content" if changes[name].get("content") else "commands", message)
        for name, message in _overridden(texts):
            yield name, Problem("content" if changes[name].get("content") else "nopasswd", message, "warning")

    @property
    def _directory(self) -> WholeDirectory:
        """The rules as sudo reads them, to check a change in a copy of all."""
        return WholeDirectory(str(DIRECTORY), MAIN, "@includedir {}", self._errors, 0o440)

    def set(self, _context: Context, changes: Mapping[str, Change]) -> None:
        """Check all rules as they will be, also undeclared ones, then write and remove their files."""
        # For the verification after the change, ``get`` must return the attributes with which a rule is declared.
        self._by_content.difference_update(name for name, (_, should) in changes.items() if not should.get("content"))
        contents = _encoded({name: _text(name, *change) for name, change in changes.items()})
        if any(contents.values()):
            self._directory.verify(contents)
        with file_parts.described(), files.Batch() as batch:
            for name, content in contents.items():
                if content is None:
                    batch.remove(str(DIRECTORY / name))
                else:
                    batch.replace(str(DIRECTORY / name), content, mode=0o440, uid=0, gid=0)

    def _errors(self, copy: Copy) -> list[str]:
        """Return sudo's errors about a copy of the directory, each with its file and line.

        A change that causes an error is refused: nothing is written.
        """
        result = self.visudo.attempt("-c", "-f", copy.main, log="debug")
        if result.exit_code == 0:
            return []
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        return [line for line in lines if POSITION.match(line)] or lines or [f"visudo ended with {result.exit_code}"]


def _read(path: str) -> str | None:
    """Return the text of a file, or None if sudo ignores it, as others than root can write it. Raise ``OSError``."""
    status = Path(path).stat()
    if status.st_uid or status.st_mode & stat.S_IWOTH or (status.st_gid and status.st_mode & stat.S_IWGRP):
        return None
    return files.read(path, LARGEST).decode("utf-8", "surrogateescape")


def _overridden(texts: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the name of each new text with a rule without effect, and a message about the later rule that counts."""
    rules = _rules_in_order(texts)
    for number, rule in enumerate(rules):
        for later in rules[number + 1 :] if rule.file in texts else ():
            if later.path != rule.path and (effect := _effect(rule.attributes, later.attributes)):
                message = f"{later.path} comes after it and has '{listing.cut(later.line)}', which counts: {effect}"
                yield rule.file, message


def _rules_in_order(texts: Mapping[str, str | None]) -> list[Rule]:
    """Return all rules, with new texts of files, in the order of the files' names: sudo takes the last that matches."""
    paths = {path.name: path for path in listing.matching(DIRECTORY) if NAME.fullmatch(path.name)}
    lines = []
    for name in sorted({*paths, *texts}):
        with suppress(OSError):
            text = texts[name] if name in texts else _read(str(paths[name]))
            lines += [(name, f"{DIRECTORY}/{name}", line) for line in (text or "").split("\n")]
    # Only the rules of the main file below its ``@includedir`` come after those of the directory.
    with suppress(OSError):
        rest = INCLUDE.split(_read(MAIN) or "", maxsplit=1)[1:]
        lines += [("", MAIN, line) for line in "".join(rest).split("\n")]
    return [Rule(name, path, line.strip(), rule) for name, path, line in lines if (rule := _parse(line))]


def _effect(rule: Mapping[str, Any], later: Mapping[str, Any]) -> str:
    """Return the effect of a later rule on the commands of a rule, or "" without one.

    Both are the attributes of a rule. The later one has an effect if it is for the same user, host and target user, and
    forbids a command, or differs in ``nopasswd``.
    """
    runas, later_runas = rule.get("runas") or "root", later.get("runas") or "root"
    same_runas = runas == later_runas or later_runas.partition(":")[0] == "ALL"
    same_hosts = "ALL" in later["hosts"] or not set(rule["hosts"]).isdisjoint(later["hosts"])
    if not (same_runas and same_hosts and _is_for(later["user"], rule["user"])):
        return ""
    commands = [command for command in rule["commands"] if not command.startswith("!")]
    if forbidden := [command for command in commands if f"!{command}" in later["commands"]]:
        return f"it forbids {', '.join(forbidden)}"
    common = [command for command in commands if command in later["commands"] or "ALL" in later["commands"]]
    if not common or rule["nopasswd"] == later["nopasswd"]:
        return ""
    return f"sudo asks for {'a' if rule['nopasswd'] else 'no'} password for {', '.join(common)}"


def _is_for(declared: str, user: str) -> bool:
    """Return whether a rule declared for a user, a group (``%NAME``) or ``ALL`` applies to ``user``."""
    if declared in {"ALL", user}:
        return True
    with suppress(KeyError):
        group = grp.getgrnam(declared[1:]) if declared.startswith("%") else None
        return group is not None and (user in group.gr_mem or pwd.getpwnam(user).pw_gid == group.gr_gid)
    return False


def _encoded(texts: Mapping[str, str | None]) -> dict[str, bytes | None]:
    """Return the contents of files as bytes; None removes one."""
    return {name: text if text is None else text.encode("utf-8", "surrogateescape") for name, text in texts.items()}


def _text(name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> str | None:
    """Return the new text of a file: the declared content or rule, or None for a removal.

    The present attributes complete those of a rule, and the comments around it stay.
    """
    if should["ensure"] == "absent":
        return None
    if should.get("content"):
        return str(reveal(should["content"]))
    present = is_ if is_ and "content" not in is_ else {}
    rule = _format({**present, **{key: value for key, value in reveal(should).items() if value is not None}})
    present_lines = (_read(str(DIRECTORY / name)) or "").removesuffix("\n").split("\n") if present.get("user") else []
    lines = [line if _parse(line) == {} else rule for line in present_lines] or [rule]
    return "\n".join([*lines, ""])


def _parse(line: str) -> Resource | None:
    """Return the attributes of the rule in a line, to compare them with declared ones; an empty mapping for a comment.

    Return None for a line of any other form, which attributes cannot express.
    """
    if COMMENT.fullmatch(line):
        return {}
    match = RULE.fullmatch(line.strip())
    if match is None:
        return None
    tags = set(re.findall(r"[A-Z_]+", match["tags"]))
    return {
        "user": match["user"],
        "hosts": [host.strip() for host in match["hosts"].split(",")],
        **({"runas": BLANK.sub(r"\1", match["runas"])} if match["runas"] else {}),
        "commands": [command.strip() for command in COMMA.split(match["commands"])],
        "nopasswd": "NOPASSWD" in tags,
        "tags": sorted(tags - {"NOPASSWD", "PASSWD"}),
    }


def _format(rule: Mapping[str, Any]) -> str:
    """Return a rule as a line of sudoers(5); the default host is ``ALL``."""
    hosts, commands = ", ".join(rule.get("hosts") or ["ALL"]), ", ".join(rule["commands"])
    runas = f"({rule['runas']}) " if rule.get("runas") else ""
    tags = "".join(f"{tag}: " for tag in [*["NOPASSWD"] * bool(rule.get("nopasswd")), *(rule.get("tags") or [])])
    return f"{rule['user']} {hosts} = {runas}{tags}{commands}"
