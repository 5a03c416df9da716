"""Read and change groups of alternatives with update-alternatives(1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lib import file_parts, prerequisites
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Command, Problem, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource

DIRECTORY = "/etc/alternatives"
#: The exit code of a question about a group that does not exist.
UNKNOWN = 2
#: The directories with a record of each group: of Debian, and of other distributions.
RECORDS = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives")
NO_GROUP = "there is no such group: declare its link and its choices"


class Provider(BaseProvider):
    """The groups of the machine."""

    tool = Command("update-alternatives")
    query = Command("update-alternatives", read_only=True)

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse slave links whose paths differ from choice to choice: update-alternatives has one for each name."""
        yield from refused_secrets(should)
        links: dict[str, str] = {}
        choices = should.get("choices")
        for choice in choices.values() if isinstance(choices, dict) else ():
            slaves = choice.get("slaves") if isinstance(choice, dict) else None
            for name, slave in slaves.items() if isinstance(slaves, dict) else ():
                link = slave.get("link") if isinstance(slave, dict) else None
                if isinstance(link, str) and links.setdefault(name, link) != link:
                    message = f"choices: the link of '{name}' is the same for all choices, not {links[name]} and {link}"
                    yield Problem("choices", message)

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare only the declared choices, as packages install others; a broken link differs too."""
        if attribute == "ensure" and should["ensure"] == "present" and is_.get("broken"):
            return False, f"changed: {is_['broken']} is not the link that it should be"
        if attribute == "choices" and should["choices"] is not None:
            return not _differing(is_["choices"], should["choices"])
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the groups in ``names``, or all; a group with a damaged record fails its name."""
        listed: Iterable[str] | None = names
        if listed is None:
            listed = [line.split()[0] for line in self.tool("--get-selections").stdout.splitlines() if line.strip()]
        for name in listed:
            try:
                row = self._query(name)
            except ResourceError as error:
                file_parts.report_unreadable(context, [name], str(error), names)
                continue
            if row is not None:
                yield from context.accepted([row]) if names is None else [row]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one group after another, unless other users could redirect one of its links."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                for link in {*_links(is_ or {}), *_links(should)}:
                    _check_link(link)
                if should["ensure"] == "absent":
                    self.tool("--quiet", "--remove-all", name)
                else:
                    self._change(name, is_, should)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites: the program, and undeclared groups and files of choices."""
        missing = list(prerequisites.missing_program(None, "update-alternatives", needs="Package[dpkg]"))
        yield from ((name, problem) for name in changes for problem in missing)
        # The groups can be read only by the program.
        for name, should in ({} if missing else prerequisites.present(changes)).items():
            yield from ((name, problem) for problem in _unknown(self._query(name), should))
        for name, should in changes.items():
            for path, choice in (should.get("choices") or {}).items():
                if choice != "absent":
                    yield from ((name, problem) for problem in prerequisites.missing_file("choices", path))

    def _change(self, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Bring a group to its declared state: install choices, remove others, and select one, which makes the links.

        The program has no command for a change: a choice that differs is installed again, with its present slave links
        unless others are declared. For a new link of the group, all its choices are installed again.
        """
        present, choices = is_ or {"choices": {}}, should.get("choices") or {}
        link = should.get("link") or present.get("link")
        installed = {path: choice for path, choice in choices.items() if choice != "absent"}
        if link is None or (is_ is None and not installed):
            raise ResourceError(NO_GROUP)
        if should.get("link") in {None, present.get("link")}:
            differing = _differing(present["choices"], installed)
            changed = {path: choice for path, choice in installed.items() if path in differing}
        else:
            changed = present["choices"] | installed
        for path, choice in changed.items():
            present_slaves = present["choices"].get(path, {}).get("slaves", {})
            self._install(name, link, path, {"slaves": present_slaves, **choice})
        for path in choices.keys() - installed.keys():
            if path in present["choices"]:
                self.tool("--quiet", "--remove", name, path)
        self._select(name, should)

    def _install(self, name: str, link: str, path: str, choice: Mapping[str, Any]) -> None:
        """Install a choice of a group with its slave links, or change the installed one."""
        slaves = choice["slaves"].items()
        words = [word for slave, target in slaves for word in ("--slave", target["link"], slave, target["path"])]
        self.tool("--quiet", "--install", link, name, path, str(choice["priority"]), *words)

    def _select(self, name: str, should: Mapping[str, Any]) -> None:
        """Select the declared choice of a group, or else the present one again, which mends a broken link.

        The choice ``auto`` is the one with the highest priority.
        """
        group = self._query(name)
        path = should.get("path") or (group["path"] if group is not None else "auto")
        if path != "auto":
            self.tool("--quiet", "--set", name, path)
        elif group is None or group["path"] != "auto" or group.get("broken"):
            self.tool("--quiet", "--auto", name)

    def _query(self, name: str) -> Resource | None:
        """Return the state of a group, or None for a missing one. Raise ``ResourceError`` for a damaged record."""
        result = self.query.attempt("--query", name, log="debug")
        if result.exit_code == 0:
            return parse(result.stdout)
        # For a record that is damaged the exit code is the same as for one that is missing.
        if result.exit_code != UNKNOWN or any(os.path.lexists(f"{directory}/{name}") for directory in RECORDS):
            raise ResourceError(result.stderr.strip())
        return None


def _unknown(group: Mapping[str, Any] | None, should: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem if a group neither exists nor is declared in full, or lacks the choice to select.

    ``set`` would fail for the same reasons.
    """
    choices = {**(group or {}).get("choices", {}), **(should.get("choices") or {})}
    installed = {path for path, choice in choices.items() if choice != "absent"}
    if group is None and not (should.get("link") and installed):
        yield Problem(None, NO_GROUP)
    elif should.get("path", "auto") not in {"auto", *installed}:
        yield Problem("path", f"'{should['path']}' is no choice of the group; declare it in 'choices'")


def _links(group: Mapping[str, Any]) -> Iterator[str]:
    """Yield the links that the program makes and removes for a group, to check that nobody can redirect them."""
    if group.get("link"):
        yield group["link"]
    for choice in (group.get("choices") or {}).values():
        if choice != "absent":
            yield from (slave["link"] for slave in choice.get("slaves", {}).values())


def _check_link(link: str) -> None:
    """Raise ``ResourceError`` for a link that others could redirect, by the existing directories on its path."""
    # Where a directory is missing, the last existing one above it must be safe.
    path = link
    while os.path.dirname(path) != path and not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - texts
        path = os.path.dirname(path)  # noqa: PTH120 - as above
    with file_parts.described(link), files.Directories() as directories:
        trusted = path == "/" or directories.place(path)[0].trusted
    if not trusted:
        msg = f"other users can write to a directory on the path of the link '{link}', and could put another one there"
        raise ResourceError(msg)


def parse(text: str) -> Resource:
    """Return the row of a group from the output of ``update-alternatives --query``."""
    head, *blocks = [_fields(block) for block in text.strip().split("\n\n")]
    choices: dict[str, Any] = {}
    for block in blocks:
        slaves = {name: {"link": head["Slaves"][name], "path": path} for name, path in block["Slaves"].items()}
        choices[block["Alternative"]] = {"priority": int(block["Priority"]), **({"slaves": slaves} if slaves else {})}
    choice, best = None if head["Value"] == "none" else head["Value"], head.get("Best")
    return {
        "ensure": "present",
        "name": head["Name"],
        "link": head["Link"],
        "choices": choices,
        "used": choice,
        # A choice that was made by hand and is missing is no choice.
        "path": choice if head["Status"] == "manual" and choice else "auto",
        # With ``auto`` the link must lead to the best choice: any other is the rest of a killed change.
        "broken": _broken(head["Name"], head["Link"], best if head["Status"] == "auto" else choice, choices),
    }


def _fields(block: str) -> dict[str, Any]:
    """Return the fields of a block of the program's output, for ``parse``; ``Slaves`` has one line for each name."""
    fields: dict[str, Any] = {"Slaves": {}}
    for line in block.splitlines():
        if line.startswith(" "):
            name, _, path = line.strip().partition(" ")
            fields["Slaves"][name] = path
        elif not line.startswith("Slaves:"):
            key, _, value = line.partition(":")
            fields[key] = value.strip()
    return fields


def _broken(group: str, link: str, choice: str | None, choices: Mapping[str, Any]) -> str | None:
    """Return the first missing or wrong link of a group, or None; ``insync`` reports it, and ``set`` mends it.

    ``/usr/bin/editor`` is a link to ``/etc/alternatives/editor``, and that one to the choice, ``/usr/bin/vim``; a slave
    link likewise. A group without a choice counts as broken.
    """
    if choice is None:
        return f"{DIRECTORY}/{group}"
    links = [(link, group, choice)]
    # For a path that does not exist there are no links: manual pages that were not installed.
    slaves = choices.get(choice, {}).get("slaves", {}).items()
    links += [(slave["link"], name, slave["path"]) for name, slave in slaves if os.path.exists(slave["path"])]  # noqa: PTH110 - a text
    for public, name, path in links:
        managed = f"{DIRECTORY}/{name}"
        for source, target in ((public, managed), (managed, path)):
            if not os.path.islink(source) or os.readlink(source) != target:  # noqa: PTH114, PTH115 - as above
                return source
    return None


def _differing(present: Mapping[str, Any], declared: Mapping[str, Any]) -> set[str]:
    """Return the paths of the declared choices that differ from the present ones."""
    return {path for path, choice in declared.items() if not _is_as_declared(present.get(path, "absent"), choice)}


def _is_as_declared(present: Any, choice: Any) -> bool:
    """Return whether a choice is as declared; if not, ``set`` installs it again.

    Slave links are compared only if they are declared. Each choice is a dictionary, or "absent" if it is missing or to
    be removed.
    """
    if "absent" in (present, choice):
        return bool(present == choice)
    slaves = present.get("slaves", {})
    return bool(present["priority"] == choice["priority"] and choice.get("slaves", slaves) == slaves)
