"""Convert a playbook to a manifest that `validate` accepts, with comments on all that has no counterpart."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from resource_api.convert import playbook
from resource_api.convert.manifest_text import ManifestText, PlaySection
from resource_api.convert.play_conversion import Converted, Decisions, PlayConversion, Remark
from resource_api.convert.variables import Names
from resource_api.manifest import yaml_reader
from resource_api.manifest.read import from_documents
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.convert.expressions import Condition
    from resource_api.convert.playbook import Play
    from resource_api.model.values.errors import Problem
    from resource_api.runtime.runtime import Runtime

#: Hosts of a play that means this machine.
_HERE = ("localhost", "127.0.0.1")
#: How often a conversion is corrected by the problems of its manifest.
_ROUNDS = 20
_GROUP = re.compile(r"[A-Za-z0-9_.-]+\Z")


class Conversion(NamedTuple):
    """A converted playbook."""

    manifest: str
    tasks: int
    resources: int
    #: How many resources are `ansible_module`.
    modules: int
    remarks: Sequence[Remark]


def convert(path: str, runtime: Runtime) -> Conversion:
    """Return the manifest of a playbook, which ``runtime`` checks. Nothing of the machine is changed.

    Raise ``ManifestError`` for a file that cannot be read or is no playbook.
    """
    plays = playbook.read(path)
    decisions = Decisions({}, {})
    refused: dict[str, str] = {}
    for _round in range(_ROUNDS):
        attempt = _Attempt(path, plays, decisions, refused)
        problems = attempt.problems(runtime)
        if not attempt.learn(problems, decisions, refused):
            break
    return attempt.conversion(problems)


class _Attempt:
    """One conversion of all plays, with the decisions that earlier ones have led to."""

    def __init__(self, path: str, plays: Sequence[Play], decisions: Decisions, refused: dict[str, str]) -> None:
        self._path = path
        self._directory = os.path.dirname(path)
        names = Names()
        names.refused.update(refused)
        self._remarks = [Remark(location, "", reason) for play in plays for location, reason in play.remarks]
        self._sections: list[PlaySection] = []
        for play in plays:
            condition, comments = _condition(play, plays, names)
            tasks = PlayConversion(play, names, self._directory, decisions, condition).converted()
            title = f"{play.name or 'play'} ({play.location}), hosts: {play.hosts}"
            self._sections.append(PlaySection(title, comments, _without_repetitions(self._sections, tasks)))
        self._converted = [converted for section in self._sections for converted in section.tasks]
        self._remarks += [
            Remark(row.task.location, row.task.title, row.reason) for row in self._converted if row.reason
        ]
        self.text = ManifestText()
        self.text.add_head(list(self._title(plays)), _project(path))
        self.text.add_names(names, [row for converted in self._converted for row in converted.declarations])
        self.text.add_resources(self._sections, _sources(self._remarks))

    def _title(self, plays: Sequence[Play]) -> Iterator[str]:
        yield f"Converted from {self._path} by resource-api {__version__}. It is used beside the playbook's files."
        if any(play.keywords.get("become") for play in plays):
            yield "become: apply it as root, or with 'become' in the inventory."
        hosts = sorted({play.hosts for play in plays} - {*_HERE, "all"})
        if hosts:
            yield f"hosts: resource-api apply --on {','.join(hosts).replace(':', ',')}"
        yield from (
            f"NOT CONVERTED: {remark.location}: {remark.reason}" for remark in self._remarks if not remark.title
        )

    def problems(self, runtime: Runtime) -> Sequence[Problem]:
        """Return the errors of the manifest, without those of inputs that a user gives."""
        file = os.path.join(self._directory, f"{_project(self._path)}.yaml")
        try:
            document = yaml_reader.read(self.text.text.encode(), file)
            runtime.validate(from_documents([document], file))
        except ManifestError as error:
            problems = [row for row in error.problems if row.severity == "error"]
            return [row for row in problems if row.line not in self.text.inputs]
        return []

    def learn(self, problems: Sequence[Problem], decisions: Decisions, refused: dict[str, str]) -> bool:
        """Add decisions that avoid the problems; return whether there are any."""
        has_decision = False
        for problem in problems:
            reason = f"{problem.attribute}: {problem.message}" if problem.attribute else problem.message
            if (number := self.text.tasks.get(problem.line)) is not None:
                kinds = [
                    row.type for task in self._converted if task.task.number == number for row in task.declarations
                ]
                is_new = number not in decisions.by_module and "ansible_module" not in kinds
                (decisions.by_module if is_new else decisions.left_out).setdefault(number, reason)
                has_decision = True
            elif (name := self.text.values.get(problem.line)) is not None and name not in refused:
                refused[name] = reason
                has_decision = True
        return has_decision

    def conversion(self, problems: Sequence[Problem]) -> Conversion:
        """Return the result; problems that remain are remarks."""
        remarks = [*self._remarks]
        remarks += [Remark(playbook.Location(self._path, 1, 1), "the manifest", str(problem)) for problem in problems]
        declarations = [row for converted in self._converted for row in converted.declarations]
        modules = sum(row.type == "ansible_module" for row in declarations)
        return Conversion(self.text.text, len(self._converted), len(declarations), modules, remarks)


def _project(path: str) -> str:
    """Return the name of the project: the file's, as far as it can be one."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(path).rpartition(".")[0] or os.path.basename(path))
    return stem if STACK_NAME.match(stem) else "playbook"


def _condition(play: Play, plays: Sequence[Play], names: Names) -> tuple[Condition, list[str]]:
    """Return the condition that holds on the hosts of a play, where plays have different ones, and comments."""
    comments = []
    if play.keywords.get("serial"):
        comments.append("serial: see --batches")
    hosts = {row.hosts for row in plays}
    if len(hosts) == 1 or play.hosts in {"all", "*", *_HERE}:
        return True, comments
    groups = re.split(r"[,:]", play.hosts)
    if not all(map(_GROUP.match, groups)):
        return True, [*comments, f"the hosts '{play.hosts}' have no counterpart: choose them with --on"]
    tests: list[Condition] = [{names.in_group(group).path: True} for group in groups]
    return tests[0] if len(tests) == 1 else {"any": tests}, comments


def _without_repetitions(sections: Sequence[PlaySection], tasks: Sequence[Converted]) -> list[Converted]:
    """Return tasks in which a resource that was declared before is merged into its first declaration."""
    first = {row.reference: row for section in sections for task in section.tasks for row in task.declarations}
    result = []
    for task in tasks:
        rows, comments, reason = [], list(task.comments), ""
        for row in task.declarations:
            earlier = first.get(row.reference)
            if earlier is None:
                first[row.reference] = row
                rows.append(row)
            elif not earlier.merge(row):
                reason = f"{row.reference} is declared at {earlier.task.location} with other values"
            elif earlier.task is not row.task:
                comments.append(f"{row.reference}: see {earlier.task.location}")
        result.append(
            task._replace(declarations=rows, comments=tuple(comments), reason=task.reason or ("" if rows else reason))
        )
    return result


def _sources(remarks: Sequence[Remark]) -> dict[str, list[str]]:
    """Return the lines of the files that remarks are about."""
    sources = {}
    for file in {remark.location.file for remark in remarks}:
        with open(file, encoding="utf-8", errors="replace") as stream:
            sources[file] = stream.read().splitlines()
    return sources
