"""Read and change groups of alternatives with update-alternatives(1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lib import prerequisites
from resource_api import BaseProvider, Command, Problem, ProviderError, ResourceError, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

DIRECTORY = "/etc/alternatives"
#: The exit code of a question about a group that does not exist.
UNKNOWN = 2


class Provider(BaseProvider):
    """The groups of the machine."""

    tool = Command("update-alternatives")

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield that a further link has two places: it has one for all choices."""
        places: dict[str, str] = {}
        choices = should.get("choices")
        for choice in choices.values() if isinstance(choices, dict) else ():
            slaves = choice.get("slaves") if isinstance(choice, dict) else None
            for name, slave in slaves.items() if isinstance(slaves, dict) else ():
                link = slave.get("link") if isinstance(slave, dict) else None
                if isinstance(link, str) and places.setdefault(name, link) != link:
                    why = f"choices: the link of '{name}' is the same for all choices, not {places[name]} and {link}"
                    yield Problem("choices", why)

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the declared choices only, and find broken links."""
        if attribute == "ensure" and should["ensure"] == "present" and is_.get("broken"):
            return False, f"changed: {is_['broken']} is not the link that it should be"
        if attribute == "choices" and should["choices"] is not None:
            return not _differing(is_["choices"], should["choices"])
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> Iterator[Resource]:
        """Return the groups in ``names``, or all."""
        listed = names
        if listed is None:
            listed = [line.split()[0] for line in self.tool("--get-selections").stdout.splitlines() if line.strip()]
        for name in listed:
            if (row := self._query(name)) is not None:
                yield from context.accepted([row]) if names is None else [row]

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one group after another."""
        for name, (is_, should) in changes.items():
            with context.processing(name, is_, should):
                for link in {*_links(is_ or {}), *_links(should)}:
                    _check_link(link)
                if should["ensure"] == "absent":
                    self.tool("--quiet", "--remove-all", name)
                else:
                    self._change(name, is_, should)

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield that the program is missing."""
        missing = list(prerequisites.missing_program(None, "update-alternatives", needs="Package[dpkg]"))
        yield from ((name, problem) for name in changes for problem in missing)

    def _change(self, name: str, is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> None:
        """Install and remove choices, choose one, and restore the links."""
        present = is_ or {"choices": {}}
        link = should.get("link") or present.get("link")
        choices = should.get("choices") or {}
        installed = {path: each for path, each in choices.items() if each != "absent"}
        if link is None or (is_ is None and not installed):
            msg = "there is no such group: declare its link and its choices"
            raise ResourceError(msg)
        moved = should.get("link") not in {None, present.get("link")}
        anew = {path: present["choices"][path] for path in present["choices"] if moved} | {
            path: installed[path] for path in installed if moved or path in _differing(present["choices"], installed)
        }
        for path, choice in anew.items():
            known = present["choices"].get(path, {}).get("slaves", {})
            slaves = [(each["link"], slave, each["path"]) for slave, each in choice.get("slaves", known).items()]
            words = [word for each in slaves for word in ("--slave", *each)]
            self.tool("--quiet", "--install", link, name, path, str(choice["priority"]), *words)
        for path in choices.keys() - installed.keys():
            if path in present["choices"]:
                self.tool("--quiet", "--remove", name, path)
        now = self._query(name)
        path = should.get("path") or (now["path"] if now is not None else "auto")
        if path != "auto":
            self.tool("--quiet", "--set", name, path)
        elif now is None or now["path"] != "auto" or now.get("broken"):
            self.tool("--quiet", "--auto", name)

    def _query(self, name: str) -> Resource | None:
        """Return the state of a group; None for one that does not exist."""
        done = self.tool.attempt("--query", name, log="debug")
        if done.exit_code == UNKNOWN:
            return None
        if done.exit_code != 0:
            raise ProviderError(done.stderr.strip())
        return parse(done.stdout)


def _links(group: Mapping[str, Any]) -> Iterator[str]:
    """Yield the links that the program makes and removes for a group."""
    if group.get("link"):
        yield group["link"]
    for choice in (group.get("choices") or {}).values():
        if choice != "absent":
            yield from (slave["link"] for slave in choice.get("slaves", {}).values())


def _check_link(link: str) -> None:
    """Raise ``ResourceError`` for a link that others could have written to another directory.

    Of a path only the directories that exist are checked; the program creates none.
    """
    path = link
    while os.path.dirname(path) != path and not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - texts
        path = os.path.dirname(path)  # noqa: PTH120 - as above
    try:
        with files.Directories() as directories:
            trusted = path == "/" or directories.place(path)[0].trusted
    except OSError as error:
        raise ResourceError(files.describe_error(error, link)) from error
    if not trusted:
        msg = f"other users can write to a directory on the path of the link '{link}', and could put another one there"
        raise ResourceError(msg)


def parse(text: str) -> Resource:
    """Return the row of a group from what ``update-alternatives --query`` shows."""
    head, *blocks = [_fields(block) for block in text.strip().split("\n\n")]
    choices: dict[str, Any] = {}
    for block in blocks:
        slaves = {name: {"link": head["Slaves"][name], "path": path} for name, path in block["Slaves"].items()}
        choices[block["Alternative"]] = {"priority": int(block["Priority"]), **({"slaves": slaves} if slaves else {})}
    used = None if head["Value"] == "none" else head["Value"]
    return {
        "ensure": "present",
        "name": head["Name"],
        "link": head["Link"],
        "choices": choices,
        "used": used,
        # A choice that was made by hand and is missing is no choice.
        "path": used if head["Status"] == "manual" and used else "auto",
        # Where the priorities decide, a link to anything but the best choice is one that was not changed to the end.
        "broken": _broken(head["Name"], head["Link"], head.get("Best") if head["Status"] == "auto" else used, choices),
    }


def _fields(block: str) -> dict[str, Any]:
    """Return the fields of a block; ``Slaves`` by name."""
    fields: dict[str, Any] = {"Slaves": {}}
    for line in block.splitlines():
        if line.startswith(" "):
            name, _, path = line.strip().partition(" ")
            fields["Slaves"][name] = path
        elif not line.startswith("Slaves:"):
            key, _, value = line.partition(":")
            fields[key] = value.strip()
    return fields


def _broken(group: str, link: str, used: str | None, choices: Mapping[str, Any]) -> str | None:
    """Return the first link of a group that is missing or leads elsewhere; None if all are as they should be."""
    if used is None:
        return f"{DIRECTORY}/{group}"
    links = [(link, group, used)]
    # For a path that does not exist there are no links: manual pages that were not installed.
    slaves = choices.get(used, {}).get("slaves", {}).items()
    links += [(each["link"], name, each["path"]) for name, each in slaves if os.path.exists(each["path"])]  # noqa: PTH110 - a text
    for place, name, path in links:
        for each, target in ((place, f"{DIRECTORY}/{name}"), (f"{DIRECTORY}/{name}", path)):
            if not os.path.islink(each) or os.readlink(each) != target:  # noqa: PTH114, PTH115 - as above
                return each
    return None


def _differing(present: Mapping[str, Any], declared: Mapping[str, Any]) -> set[str]:
    """Return the declared choices that are not as declared; further links that are not declared are as they are."""
    return {path for path, choice in declared.items() if not _is_as_declared(present.get(path, "absent"), choice)}


def _is_as_declared(present: Any, choice: Any) -> bool:
    if "absent" in (present, choice):
        return bool(present == choice)
    slaves = present.get("slaves", {})
    return bool(present["priority"] == choice["priority"] and choice.get("slaves", slaves) == slaves)
