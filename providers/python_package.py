"""Read packages from the files of an environment, and change them with pip, all of an environment at once."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from lib import listing, prerequisites, python_environment
from lib.closure import closure
from lib.rename import rename
from lib.sensitive import exposed_password, refused_secrets
from resource_api import BaseProvider, CannotList, Command, CommandError, Problem, ResourceError, SideEffect, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.requirements import Requirement

    from resource_api import Change, CommandResult, Context, Resource

    #: The name of a package and the directory of its environment.
    Name = tuple[str, str]
    #: The version of a package, and its requirements as text.
    Package = tuple[str, Sequence[str]]

#: The directory in which a package describes itself.
DESCRIPTION = re.compile(r"([A-Za-z0-9][\w.]*)-([\w.!+]+)\.dist-info", re.ASCII)
#: The directory of a package in its own record.
RECORDED = re.compile(r"^([^/\n,]+\.dist-info)/", re.MULTILINE)
#: A requirement in the head of a description.
REQUIRED = re.compile(r"^Requires-Dist: *(.+)$", re.MULTILINE)
INSTALLER = b".dist-info/INSTALLER,"
LARGEST_RECORD = 64 << 20  # bytes
ORIGIN = "direct_url.json"
LARGEST = 65536  # bytes of an origin
#: Parts of a URL: a user, which pip does not record (PEP 610), and a directory, of which it records the name alone.
USER = re.compile(r"(?<=://)[^/?#]*@")
SUBDIRECTORY = re.compile(r"[#&]subdirectory=([^&]*)")
PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check", "--quiet")


class Provider(BaseProvider):
    """The packages of the environments that a manifest names."""

    sync = Command("sync", timeout=3600)

    def __init__(self) -> None:
        """Start without a package that is declared in its latest version."""
        self._latest: dict[Name, tuple[str, ...]] = {}

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write names as indexes do; record ``latest`` packages and their options for ``get``, which has only names."""
        for resource in resources:
            if "name" in resource:
                resource["name"] = _canonical(resource["name"])
            if str(resource.get("source")).startswith("/"):
                resource["source"] = files.canonical_path(resource["source"])
            if resource.get("ensure") == "latest" and {"name", "virtualenv"} <= resource.keys():
                self._latest[resource["name"], resource["virtualenv"]] = _options(resource)
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse attributes that exclude each other, and secrets, which as arguments of pip would be visible to all."""
        yield from refused_secrets(should)
        ensure, source = should.get("ensure"), should.get("source")
        yield from exposed_password("source", source, "pip reads one from the file ~/.netrc of the environment's owner")
        if source is not None and isinstance(ensure, str) and ensure not in {"present", "absent"}:
            yield Problem("ensure", "ensure: a package from a 'source' has the version that is there")
        if should.get("editable") is True and source is None:
            yield Problem("editable", "editable: declare the directory of the package as 'source'")

    def insync(
        self, _context: Context, _name: Name, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare the installed version with ``ensure``, and sources in the form in which pip records them.

        ``present`` accepts any version, ``latest`` only the candidate.
        """
        if attribute == "source":
            return True if _recorded(should["source"]) == _recorded(is_.get("source")) else None
        if attribute != "ensure" or should["ensure"] == "absent":
            return None
        version, ensure = is_.get("version"), should["ensure"]
        if is_.get("status") != "installed":
            return False, "the installation was interrupted"
        expected = {"present": version, "latest": is_.get("candidate")}.get(ensure, ensure)
        return _version(version) == _version(expected) or (False, f"changed from {version} to {expected}")

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the packages in ``names``; if an environment cannot be read, its packages fail."""
        if names is None:
            raise CannotList("an environment can be in any directory")
        for venv in dict.fromkeys(venv for _, venv in names):
            requested = [name for name in names if name[1] == venv]
            try:
                rows = self._rows(venv, requested)
            except (OSError, CommandError) as error:
                reason = f"the packages in {venv} cannot be read: {files.describe_error(error, '')}"
                context.failed(requested, message=reason)
            else:
                yield from context.accepted(rows)

    def _rows(self, venv: str, names: list[Name]) -> Iterable[Resource]:
        """Return the packages of ``names`` in an environment, with the candidates of those declared as ``latest``."""
        rows = {row["name"]: row for row in _packages(venv, {name for name, _ in names})}
        latest = [name for name in names if name in self._latest and name[0] in rows]
        candidates = dict(self._candidates(venv, latest))
        for name, _ in latest:
            rows[name]["candidate"] = candidates.get(name, rows[name]["version"])
        return rows.values()

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a package: its environment, its source and its constraints.

        Yield a problem if other users could change code that pip executes: ``set`` refuses this.
        """
        # Each environment is checked once.
        refused = cache(lambda venv: _refusal(venv, python_environment.code(venv)))
        for name, should in changes.items():
            missing, (title, venv) = [], name
            if not os.path.lexists(f"{venv}/bin/python"):
                missing.append(Problem("virtualenv", f"'{venv}' is no environment", needs=f"Python_venv[{venv}]"))
            elif refusal := refused(venv) or _refusal(venv, _local((*_options(should), *_requirement(title, should)))):
                missing.append(Problem("virtualenv", refusal))
            source = should.get("source") or ""
            missing += prerequisites.missing_file("source", source if source.startswith("/") else None)
            missing += prerequisites.missing_file("constraints", should.get("constraints"))
            yield from ((name, problem) for problem in missing)

    def side_effects(self, _context: Context, changes: Mapping[Name, Change]) -> Iterator[tuple[Name, SideEffect]]:
        """Yield the undeclared packages that pip would change, and those whose requirements would then be unmet."""
        installed: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = defaultdict(dict)
        removed: dict[str, list[str]] = defaultdict(list)
        for (name, venv), (is_, should) in changes.items():
            if not os.path.lexists(f"{venv}/bin/python"):
                continue  # an earlier resource makes the environment, and nothing is in it
            if should["ensure"] == "absent":
                removed[venv].append(name)
            else:
                options = (*_options(should), *["--force-reinstall"] * _moved(is_, should))
                installed[venv, options][name] = _requirement(name, should)
        for venv, names in removed.items():
            yield from _side_effects(venv, names, dict.fromkeys(names), ())
        for (venv, options), packages in installed.items():
            metadata = _resolved(venv, *options, *chain.from_iterable(packages.values()))
            versions = {_canonical(package["name"]): package["version"] for package in metadata}
            links = []
            for package in metadata:
                needed = _requirements(package.get("requires_dist", ()))
                links += [(_canonical(package["name"]), _canonical(requirement.name)) for requirement in needed]
            yield from _side_effects(venv, list(packages), versions, links)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Run pip once for each environment and set of options, and once for all removals from an environment.

        Before that, descriptions left by a killed pip are brought into a state that pip can handle.
        """
        installed: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        removed: dict[str, list[str]] = defaultdict(list)
        for (name, venv), (is_, should) in changes.items():
            whole = is_ is not None and is_.get("status") == "installed"
            if is_ is not None and not whole:
                _forget(name, venv)
            restored = is_ is not None and _restore(name, venv, whole=whole)
            if should["ensure"] != "absent":
                options = (*_options(should), *["--force-reinstall"] * (_moved(is_, should) or restored))
                installed[venv, options] += _requirement(name, should)
            # Of an incomplete package without a restored description, nothing is left that pip could remove.
            elif is_ is None or restored or whole:
                removed[venv].append(name)
        for venv, names in removed.items():
            _pip(venv, "uninstall", "--yes", "--", *names)
        for (venv, options), requirements in installed.items():
            _pip(venv, "install", *options, *requirements)
        for venv in dict.fromkeys([*removed, *(venv for venv, _ in installed)]):
            self.sync("-f", "--", venv)

    def _candidates(self, venv: str, names: list[Name]) -> Iterator[tuple[str, str]]:
        """Yield (name, newest version) of ``names`` that pip would upgrade, by one call for each set of options."""
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in names:
            groups[self._latest[name]].append(name[0])
        for options, group in groups.items():
            for metadata in _resolved(venv, *options, "--no-deps", *group):
                yield _canonical(metadata["name"]), metadata["version"]


def _moved(is_: Mapping[str, Any] | None, should: Mapping[str, Any]) -> bool:
    """Return whether the declared ``source`` or ``editable`` differs: pip must then reinstall even the same version."""
    return is_ is not None and (
        _recorded(should.get("source", is_.get("source"))) != _recorded(is_.get("source"))
        or should.get("editable", is_.get("editable")) != is_.get("editable")
    )


def _recorded(source: str | None) -> str | None:
    """Return a source in the form in which pip records it (PEP 610), to compare a declared source with a recorded one.

    The record has no user, and of the fragment only the directory.
    """
    if source is None or source.startswith("/"):
        return source
    directory = SUBDIRECTORY.search(source)
    return USER.sub("", source.partition("#")[0]) + (f"#subdirectory={directory[1]}" if directory else "")


def _resolved(venv: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the metadata of each package that pip would install, for plans and for the newest versions.

    They come from pip's dry run, which pip has since 22.2: before that, none. Raise ``CommandError`` if pip would fail.
    """
    try:
        report = _pip(venv, "install", "--dry-run", "--report", "-", *arguments).stdout
    except CommandError as error:
        if "no such option" in error.stderr:
            return []
        raise
    return [entry["metadata"] for entry in json.loads(report)["install"]]


def _side_effects(
    venv: str, names: Sequence[str], versions: Mapping[str, str | None], links: Iterable[tuple[str, str]]
) -> Iterator[tuple[Name, SideEffect]]:
    """Yield (declared package, side effect) pairs of one call of pip for the packages ``names`` of an environment.

    ``versions`` has all packages that the call changes, with None for a removal; ``links`` are pairs of a package and
    its requirement. They attribute an effect to the package that causes it, or to all of ``names``.
    """
    present = dict(_described(venv))
    broken = list(_broken(present, versions))
    # Each package → all packages that change, or lack a requirement, because of it.
    consequences = closure([*links, *broken])
    effects = [_effect(venv, name, present.get(name, ("",))[0], version) for name, version in versions.items()]
    effects += [SideEffect((name, venv), "break") for name in dict.fromkeys(name for _, name in broken)]
    for effect in effects:
        if effect.name[0] not in names:
            causes = [name for name in names if effect.name[0] in consequences.get(name, ())]
            yield from (((name, venv), effect) for name in causes or names)


def _effect(venv: str, name: str, before: str, version: str | None) -> SideEffect:
    """Return the effect on a package for a plan; ``before`` is its present version, "" for a new package.

    ``version`` is None for a removal.
    """
    if version is None:
        return SideEffect((name, venv), "remove")
    action = "install"
    if before:
        action = "upgrade" if _order(before) < _order(version) else "downgrade"
    return SideEffect((name, venv), action, state={"ensure": "present", "version": version, "status": "installed"})


def _described(venv: str) -> Iterator[tuple[str, Package]]:
    """Yield each package of an environment with its version and its requirements, which a change may break."""
    for directory in _libraries(venv):
        for entry in os.listdir(directory):  # noqa: PTH208 - bare names
            if match := DESCRIPTION.fullmatch(entry):
                with suppress(FileNotFoundError):
                    text = files.read(f"{directory}/{entry}/METADATA", LARGEST_RECORD).decode("utf-8", "replace")
                    yield _canonical(match[1]), (match[2], REQUIRED.findall(text.partition("\n\n")[0]))


def _pip(venv: str, *arguments: str) -> CommandResult:
    """Run an environment's pip as its owner. Raise ``CommandError`` if others can change the code that it executes."""
    if not os.path.lexists(f"{venv}/bin/python"):
        raise ResourceError(f"{venv} is no environment")
    python, owner = Command(f"{venv}/bin/python", timeout=3600), _owner(venv)
    python.check_code(*python_environment.code(venv), *_local(arguments), user=owner)
    return python(*PIP, *arguments, user=owner)


def _refusal(venv: str, paths: Iterable[str]) -> str:
    """Return the reason why an environment's Python may not execute the code in ``paths``, or an empty text."""
    try:
        Command(f"{venv}/bin/python").check_code(*paths, user=_owner(venv))
    except CommandError as error:
        return str(error)
    return ""


def _owner(venv: str) -> str:
    """Return the user who owns an environment: pip runs as that user."""
    return files.user_name(Path(venv).stat().st_uid)


def _local(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the local files and directories among pip's arguments, to check that no other user can change them.

    pip builds their content, which executes code, or reads names of packages in them.
    """
    # ``app @ file:///srv/app``, ``--constraint=/srv/c.txt``, ``/srv/app[extra]`` and ``-c/srv/c.txt``.
    for argument in arguments:
        path = unquote(argument.rpartition("file://")[2]) if "file://" in argument else argument.rpartition("=")[2]
        for candidate in (path, path.rpartition("[")[0], argument[2:]):
            if candidate[:1] == "/" and os.path.lexists(candidate):
                yield candidate


def _packages(venv: str, names: Collection[str]) -> Iterator[Resource]:
    """Yield the packages of ``names`` in an environment, none if that does not exist. Raise ``OSError``.

    A package is incomplete if pip was killed after it had renamed its description (``_set_aside``), or before it had
    written all files.
    """
    for directory in _libraries(venv):
        entries = os.listdir(directory)  # noqa: PTH208 - bare names
        present = _names(entries)
        # Former name of a description → its present name, unless the package has a newer description.
        aside = {former: entry for entry, former in _set_aside(directory, entries) if not _names([former]) & present}
        for entry in [*entries, *aside]:
            if (match := DESCRIPTION.fullmatch(entry)) and _canonical(match[1]) in names:
                description = f"{directory}/{aside.get(entry, entry)}"
                whole = entry not in aside and _is_whole(description)
                row = {"name": _canonical(match[1]), "virtualenv": venv, "ensure": "present", "version": match[2]}
                yield {**row, "status": "installed" if whole else "incomplete", **_origin(description)}


def _libraries(venv: str) -> list[Path]:
    """Return the directories of an environment in which packages are. Raise ``OSError``."""
    paths = (path / "site-packages" for path in listing.matching(f"{venv}/lib", "python3*"))
    return [path for path in paths if os.path.lexists(path)]


def _set_aside(directory: Path, entries: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each description that a killed pip had renamed, as it does before a removal, and its former name."""
    for entry in entries:
        if entry.startswith("~") and entry.endswith(".dist-info"):
            with suppress(FileNotFoundError):
                record = files.read(f"{directory}/{entry}/RECORD", LARGEST_RECORD).decode("utf-8", "replace")
                if (former := RECORDED.search(record)) and DESCRIPTION.fullmatch(former[1]):
                    yield entry, former[1]


def _names(entries: Iterable[str]) -> set[str]:
    """Return the canonical names of the packages whose descriptions are among directory entries."""
    return {_canonical(match[1]) for entry in entries if (match := DESCRIPTION.fullmatch(entry))}


def _is_whole(description: str) -> bool:
    """Return whether the installation of a package ended, and no loss of power emptied its files.

    Its record then contains the file that installers add to it, and each file with its size.
    """
    try:
        record = files.read(f"{description}/RECORD", LARGEST_RECORD)
    except FileNotFoundError:
        return False
    directory = os.fsencode(Path(description).parent)
    entries = (line.rsplit(b",", 2) for line in record.splitlines())
    return INSTALLER in record and not any(
        _is_empty(b"%s/%s" % (directory, entry[0].strip(b'"'))) for entry in entries if entry[-1] not in {b"", b"0"}
    )


def _is_empty(path: bytes) -> bool:
    """Return whether a file exists and has no bytes, as a file that was not flushed before a loss of power."""
    try:
        return os.stat(path).st_size == 0  # noqa: PTH116 - quick: a package has thousands
    except OSError:
        return False


def _origin(description: str) -> Resource:
    """Return ``source`` and ``editable`` by pip's record of a package's origin (PEP 610).

    Packages from an index have no such record, and no ``source``.
    """
    try:
        origin = json.loads(files.read(f"{description}/{ORIGIN}", LARGEST))
        url, control = origin["url"], origin.get("vcs_info")
        editable = origin.get("dir_info", {}).get("editable") is True
        inside = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
        if control:
            revision = f"@{control['requested_revision']}" if control.get("requested_revision") else ""
            return {"source": f"{control['vcs']}+{url}{revision}{inside}", "editable": editable}
        source = unquote(urlsplit(url).path) if url.startswith("file:") else f"{url}{inside}"
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return {"editable": False}
    return {"source": source, "editable": editable}


def _restore(name: str, venv: str, *, whole: bool) -> bool:
    """Undo the renaming of a package's description by a killed pip; return whether there was one to restore.

    By its description pip can remove or replace the package's files. If the package is ``whole``, it was replaced
    already: then the renamed description, of the former version, is only removed.
    """
    for directory in _libraries(venv):
        for entry, former in list(_set_aside(directory, os.listdir(directory))):  # noqa: PTH208 - bare names
            if _names([former]) == {name}:
                if not whole:
                    _restore_metadata(f"{directory}/{entry}", former)
                    rename(f"{directory}/{entry}", former)
                    return True
                with files.Batch() as batch:
                    batch.remove(f"{directory}/{entry}", recursive=True)
    return False


def _restore_metadata(description: str, former: str) -> None:
    """Write the file METADATA of a description if pip had removed it before it was killed: a removal needs it."""
    match = DESCRIPTION.fullmatch(former)
    if match is not None and not os.path.lexists(f"{description}/METADATA"):
        text = f"Metadata-Version: 2.1\nName: {match[1]}\nVersion: {match[2]}\n"
        files.replace(f"{description}/METADATA", text.encode(), mode=0o644)


def _forget(name: str, venv: str) -> None:
    """Remove the description of an incomplete package, which pip could neither remove nor replace."""
    with files.Batch() as batch:
        for directory in _libraries(venv):
            for entry in os.listdir(directory):  # noqa: PTH208 - bare names
                if (match := DESCRIPTION.fullmatch(entry)) and _canonical(match[1]) == name:
                    with suppress(FileNotFoundError):
                        batch.remove(f"{directory}/{entry}", recursive=True)


def _options(should: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of ``pip install`` for a declared package, by which packages are grouped into calls of pip."""
    constraints = ("--constraint", should["constraints"]) if should.get("constraints") else ()
    upgrade = ("--upgrade",) if should.get("ensure") == "latest" else ()
    return (*upgrade, *constraints, *(should.get("install_options") or ()))


def _requirement(name: str, should: Mapping[str, Any]) -> list[str]:
    """Return the arguments of ``pip install`` for a declared package, by version or source."""
    extras = f"[{','.join(should['extras'])}]" if should.get("extras") else ""
    source, ensure = should.get("source"), should["ensure"]
    if source and should.get("editable"):
        # Without this option, pip before 25.3 leaves no description of a package that has only a setup.py.
        return ["--use-pep517", "--editable", f"{source}{extras}"]
    if source:
        address = f"file://{quote(source)}" if source.startswith("/") else source
        return [f"{name}{extras} @ {address}"]
    return [f"{name}{extras}" if ensure in {"present", "latest"} else f"{name}{extras}=={ensure}"]


def _canonical(name: str) -> str:
    """Return the name of a package as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _order(version: str) -> tuple[bool, Any]:
    """Return a sort key of a version; a text that is no version comes first."""
    parsed = _version(version)
    return not isinstance(parsed, str), parsed


def _version(text: Any) -> Any:
    """Return a version that compares as equal in all its spellings, ``1.0`` and ``1.0.0``; else the text itself."""
    from packaging.version import InvalidVersion, Version  # an extra installs it

    try:
        return Version(str(text))
    except InvalidVersion:
        return text


def _broken(present: Mapping[str, Package], versions: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield (package that changes, package whose requirement it then no longer meets).

    Requirements that are not met already are left out, as the change does not break them.
    """
    for name, (_, texts) in present.items():
        for requirement in _requirements(texts) if name not in versions else ():
            needed = _canonical(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if needed in versions and applies:
                before, after = present.get(needed, (None,))[0], versions[needed]
                if _accepts(requirement, before) and not _accepts(requirement, after):
                    yield needed, name


def _accepts(requirement: Requirement, version: str | None) -> bool:
    """Return whether a requirement is met by a version; None, for a removed package, meets none."""
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """Yield the valid requirements among texts such as ``flask>=3; extra == 'web'``, for the side effects in a plan."""
    from packaging.requirements import InvalidRequirement, Requirement  # an extra installs it

    for text in texts:
        with suppress(InvalidRequirement):
            yield Requirement(text)
