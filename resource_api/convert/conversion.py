"""Convert a playbook to a manifest that `validate` accepts, with comments on all parts without a counterpart.

``ManifestText`` records the part of each line, so that a problem of ``validate`` leads back to its task.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.convert import playbook
from resource_api.convert.condition_algebra import exclude
from resource_api.convert.expressions import Unconvertible, refuse
from resource_api.convert.play_conversion import Converted, Decisions, PlayConversion, Remark
from resource_api.convert.variables import Names, numbered
from resource_api.manifest import yaml_reader
from resource_api.manifest.read import from_documents
from resource_api.model.values.errors import DefinitionError, ManifestError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.text import escape, shell_word
from resource_api.model.values.values import as_list
from resource_api.model.values.version import __version__
from resource_api.render.yaml_manifest import entry, flow_text, key_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.convert.condition_algebra import Condition
    from resource_api.convert.module_task import ConvertedResource
    from resource_api.convert.playbook import Play
    from resource_api.model.values.errors import Problem
    from resource_api.runtime.runtime import Runtime

#: The most lines of a task that are repeated as a comment.
_REPEATED: Final = 12
#: The longest line of a collection.
_WIDTH: Final = 100
#: Metaparameters that stand above the attributes.
_FIRST: Final = ("for_each", "when")


class PlaySection(NamedTuple):
    """The converted tasks of a play, below a title."""

    title: str
    comments: Sequence[str]
    tasks: Sequence[Converted]


class ManifestText:
    """Writes the lines of a manifest, and records the task or value in each, for errors of validation."""

    def __init__(self) -> None:
        """Begin without lines."""
        self.lines: list[str] = []
        #: Number of a line, from 1 → the number of the task, or the name of the value, that stands there.
        self.tasks: dict[int, int] = {}
        self.values: dict[int, str] = {}
        #: The numbers of the lines of inputs, where errors are expected: a mandatory input has no value yet.
        self.input_lines: set[int] = set()

    @property
    def text(self) -> str:
        """The whole manifest."""
        return "\n".join(self.lines) + "\n"

    def add_names(self, names: Names, declarations: Sequence[ConvertedResource]) -> None:
        """Add the inputs and values that the declarations use; unused ones would only clutter the manifest."""
        names_in_use = names.uses(*((row.title, row.attributes) for row in declarations))
        inputs = {name: declared for name, declared in names.inputs.items() if name in names_in_use}
        values = {name: value for name, value in names.values.items() if name in names_in_use}
        declared_inputs = {name: (row.comment, row.declaration) for name, row in inputs.items()}
        self.input_lines.update(self._add_section("inputs", declared_inputs))
        commented = {name: (names.comments[name], value) for name, value in values.items()}
        self.values = self._add_section("values", commented)

    def _add_section(self, key: str, entries: Mapping[str, tuple[str, object]]) -> dict[int, str]:
        """Add a section of name → (comment, value), unless empty; return line → name, for errors of validation."""
        names: dict[int, str] = {}
        if entries:
            self.lines += ["", f"{key}:"]
        for name, (comment, value) in entries.items():
            start = len(self.lines) + 1
            self._comment("  ", comment)
            self.lines += _compact_entry(name, value, "  ")
            names |= dict.fromkeys(range(start, len(self.lines) + 1), name)
        return names

    def add_resources(self, sections: Iterable[PlaySection], sources: Mapping[str, Sequence[str]]) -> None:
        """Add the resources of plays; ``sources``: file → lines, for comments about tasks that were not converted."""
        self.lines += ["", "resources:"]
        is_empty = True
        for section in sections:
            self.lines += [""] if not is_empty else []
            self._comment("  ", section.title)
            for comment in section.comments:
                self._comment("  ", comment)
            for converted in section.tasks:
                is_empty = is_empty and not converted.declarations
                self._add_task(converted, sources)
        if is_empty:
            self.lines.append("  {}")

    def _add_task(self, converted: Converted, sources: Mapping[str, Sequence[str]]) -> None:
        """Add a task's resources, or a comment with the reason and the lines of one that was not converted.

        Record the task of each line: an error of validation has a line, and the next attempt needs the task.
        """
        task = converted.task
        self.lines.append("")
        location = f"{task.location}{': ' if task.title else ''}{task.title}"
        if converted.reason:
            self._comment("  ", f"NOT CONVERTED: {location}: {converted.reason}")
            for line in _task_lines(sources.get(task.location.file, ()), task.location.line, task.location.column):
                self._comment("  ", f"    {line}")
            return
        self._comment("  ", location)
        for comment in converted.comments:
            self._comment("  ", f"({comment})")
        for declaration in converted.declarations:
            start = len(self.lines) + 1
            # stable, so that the other attributes stay in their order
            attributes = sorted(declaration.attributes.items(), key=lambda item: item[0] not in _FIRST)
            self.lines.append(f"  {key_text(declaration.reference)}:{'' if attributes else ' {}'}")
            for name, value in attributes:
                self.lines += _compact_entry(name, value, "    ")
            self.tasks |= dict.fromkeys(range(start, len(self.lines) + 1), task.number)

    def _comment(self, indent: str, text: str) -> None:
        """Add a comment of one line, unless the text is empty."""
        if text:
            self.lines.append(f"{indent}# {escape(text)}")


def _compact_entry(name: str, value: object, indent: str) -> Iterator[str]:
    """Yield the lines of a key with its value in YAML; a short flat collection takes one line, ``key: [a, b]``."""
    line = f"{indent}{key_text(name)}: {flow_text(value)}"
    # a text of several lines is easier to read as a block
    is_line = len(line) <= _WIDTH and "\n" not in line and "\\n" not in line
    if isinstance(value, (dict, list)) and value and is_line and _is_flat(value):
        yield line
    elif isinstance(value, dict) and value:
        yield f"{indent}{key_text(name)}:"
        for key, part in value.items():
            yield from _compact_entry(key, part, f"{indent}  ")
    else:
        yield from entry(name, value, indent)


def _is_flat(collection: dict[str, Any] | list[Any]) -> bool:
    """Return whether a collection has no list and no mapping in it."""
    parts = collection.values() if isinstance(collection, dict) else collection
    return not any(isinstance(part, (dict, list)) for part in parts)


def _task_lines(lines: Sequence[str], start: int, column: int) -> Iterable[str]:
    """Return the first lines of the task at line ``start`` and ``column`` of a file, for a comment.

    The task ends before the first line that is indented less. At most ``_REPEATED`` lines are returned.
    """
    excerpt: list[str] = []
    for number, line in enumerate(lines[start - 1 :]):
        indent = len(line) - len(line.lstrip())
        if (number and line.strip() and indent < column - 1) or len(excerpt) == _REPEATED:
            break
        excerpt.append(line.rstrip())
    while excerpt and not excerpt[-1].strip():
        excerpt.pop()
    margin = min((len(line) - len(line.lstrip()) for line in excerpt if line.strip()), default=0)
    return [line[margin:] for line in excerpt]


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

    The conversion is repeated without the parts that the check refuses, until no further error can be avoided. Raise
    ``ManifestError`` for a file that cannot be read or is no playbook.
    """
    plays = playbook.read(path)
    decisions = Decisions({}, {}, {})
    for _round in range(_ROUNDS):
        attempt = _Attempt(path, plays, decisions, runtime)
        problems = attempt.problems()
        if not attempt.learn(problems):
            break
    return attempt.conversion(problems)


class _Attempt:
    """One conversion of all plays, with the decisions that earlier ones have led to."""

    def __init__(self, path: str, plays: Sequence[Play], decisions: Decisions, runtime: Runtime) -> None:
        """Convert all plays and write the manifest.

        ``decisions``: the tasks to convert to an `ansible_module` or not at all, and the values to do without, because
        validation refused them in the manifests of earlier attempts.
        """
        self._path = path
        self._runtime = runtime
        self._directory = os.path.dirname(path)
        self._decisions = decisions
        names = Names(decisions.refused_values)
        self._sections: list[PlaySection] = []
        for play in plays:
            condition, comments = _condition(play, plays, names)
            tasks = PlayConversion(play, names, self._directory, decisions, condition).converted()
            title = f"{play.name or 'play'} ({play.location}), hosts: {play.hosts}"
            self._sections.append(PlaySection(title, comments, self._without_repetitions(tasks)))
        self._tasks = [task for section in self._sections for task in section.tasks]
        self._declarations = [row for task in self._tasks for row in task.declarations]
        self._remarks = [Remark(location, "", reason) for play in plays for location, reason in play.remarks]
        self._remarks += [Remark(row.task.location, row.task.title, row.reason) for row in self._tasks if row.reason]
        self.text = ManifestText()
        self.text.lines += [f"# {escape(line)}" for line in self._head_comments(plays)]
        self.text.lines += _compact_entry("project", _project(path), "")
        self.text.add_names(names, self._declarations)
        self.text.add_resources(self._sections, _lines_of_files(self._remarks))

    def _without_repetitions(self, tasks: Sequence[Converted]) -> list[Converted]:
        """Return tasks, each repeated declaration merged into its first one: a manifest has only one of each."""
        former = [row for section in self._sections for task in section.tasks for row in task.declarations]
        declared = {row.reference: row for row in former}
        return [self._without_repetition(task, tasks, declared) for task in tasks]

    def _without_repetition(
        self, task: Converted, tasks: Sequence[Converted], declared: dict[str, ConvertedResource]
    ) -> Converted:
        """Return one of ``tasks`` without the resources that ``declared`` has already, and add the new ones there.

        A resource that contradicts the earlier declaration is left out with a comment; if it is the task's only one,
        the task is not converted. A resource may get a new title: `notify` of other tasks must then have it too.
        """
        rows, comments, conflict = [], list(task.comments), ""
        for row in task.declarations:
            reference = row.reference
            try:
                earlier = self._merged(row, declared)
            except Unconvertible as error:
                conflict = str(error)
                continue
            if earlier is None:
                declared[row.reference] = row
                rows.append(row)
                if row.reference != reference:
                    _repeat_references(tasks, reference, row.reference)
            elif earlier.task is not row.task:
                comments.append(f"{earlier.reference}: see {earlier.task.location}")
        if conflict and rows:
            comments.append(f"not repeated: {conflict}")
        reason = task.reason or ("" if rows else conflict)
        return task._replace(declarations=rows, comments=tuple(comments), reason=reason)

    def _merged(self, row: ConvertedResource, declared: Mapping[str, ConvertedResource]) -> ConvertedResource | None:
        """Return the earlier declaration of the same resource, with this one merged into it; None if this one is new.

        ``declared``: reference → declaration. Two that contradict both stay if they never apply together, because their
        loops or conditions differ: this one gets a new title, and its former title as the namevar, such as
        ``File[/a (2)]`` with ``path: /a``. Raise ``Unconvertible`` for any other contradiction.
        """
        first, titles = row.reference, numbered(row.title)
        while (earlier := declared.get(row.reference)) is not None and not earlier.merge(row):
            namevars = self._namevars(row.type)
            if len(namevars) != 1 or not _are_apart(earlier.attributes, row.attributes):
                refuse(f"{first} is declared at {earlier.task.location} with other values")
            row.attributes = {namevars[0]: row.title, **row.attributes}
            row.title = next(titles)
        return earlier

    def _namevars(self, type_name: str) -> Sequence[str]:
        """Return a type's namevars, to identify a resource with a changed title; none of an unknown type.

        Validation will report the unknown type.
        """
        try:
            return self._runtime.registry.type(type_name).namevars
        except DefinitionError:
            return ()

    def _head_comments(self, plays: Sequence[Play]) -> Iterator[str]:
        """Yield the comments above a manifest: its origin, how to apply it, and remarks that belong to no task."""
        yield f"Converted from {self._path} by resource-api {__version__}. It is used beside the playbook's files."
        if any(task.keywords.get("become") for play in plays for task in (*play.tasks, *play.handlers)):
            yield "become: apply it as root, or with 'become' in the inventory."
        hosts = sorted({play.hosts for play in plays} - {*_HERE, "all"})
        if hosts:
            yield f"hosts: resource-api apply MANIFEST --on {shell_word(','.join(hosts).replace(':', ','))}"
        for remark in self._remarks:
            if not remark.title:
                yield f"NOT CONVERTED: {remark.location}: {remark.reason}"

    def problems(self) -> Sequence[Problem]:
        """Return the errors of validation, except in lines of inputs: a mandatory input has no value yet."""
        file = os.path.join(self._directory, f"{_project(self._path)}.yaml")
        try:
            self._runtime.validate(from_documents([yaml_reader.read(self.text.text.encode(), file)], file))
        except ManifestError as error:
            problems = [row for row in error.problems if row.severity == "error"]
            return [row for row in problems if row.line not in self.text.input_lines]
        return []

    def learn(self, problems: Sequence[Problem]) -> bool:
        """Add decisions that avoid the problems, for the next attempt; return whether there are any.

        The task of a refused resource becomes an `ansible_module`, or is left out if that has been tried. A refused
        value is recorded, so that the tasks that need it are converted without it.
        """
        decisions = self._decisions
        has_decision, former = False, set(decisions.by_module)
        for problem in problems:
            reason = f"{problem.attribute}: {problem.message}" if problem.attribute else problem.message
            number, name = self.text.tasks.get(problem.line), self.text.values.get(problem.line)
            if number is not None:
                has_module = any(row.has_module for row in self._tasks if row.task.number == number)
                # a decision of this call does not count: it may be of another line of the same task
                is_tried = has_module or number in former
                (decisions.left_out if is_tried else decisions.by_module).setdefault(number, reason)
                has_decision = True
            elif name is not None and name not in decisions.refused_values:
                decisions.refused_values[name] = reason
                has_decision = True
        return has_decision

    def conversion(self, problems: Sequence[Problem]) -> Conversion:
        """Return the result of the last attempt; problems that no decision could avoid become remarks."""
        remarks = [*self._remarks]
        remarks += [Remark(playbook.Location(self._path, 1, 1), "the manifest", str(problem)) for problem in problems]
        modules = sum(row.type == "ansible_module" for row in self._declarations)
        return Conversion(self.text.text, len(self._tasks), len(self._declarations), modules, remarks)


def _project(path: str) -> str:
    """Return the name of the project: the file's, as far as it can be one."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(path).rpartition(".")[0] or os.path.basename(path))
    return stem if STACK_NAME.match(stem) else "playbook"


def _are_apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two declarations never apply together, because their loops or conditions differ."""
    loops = [first.get("for_each"), second.get("for_each")]
    return (None not in loops and loops[0] != loops[1]) or exclude(first.get("when", True), second.get("when", True))


def _repeat_references(tasks: Sequence[Converted], old: str, new: str) -> None:
    """Add ``new`` beside the reference ``old`` in all `notify` and `on_failure`.

    Both are declarations of one resource under conditions that exclude each other: only one will exist on a host.
    """
    for attributes in [row.attributes for task in tasks for row in task.declarations]:
        for name in ("notify", "on_failure"):
            if old in (references := as_list(attributes.get(name))):
                attributes[name] = [*references, new]


def _condition(play: Play, plays: Sequence[Play], names: Names) -> tuple[Condition, list[str]]:
    """Return the condition that this host is one of a play's ``hosts``, and comments on keywords without a counterpart.

    All resources of the play get the condition, because all plays become one manifest. It is True for a play on all
    hosts or on this machine, if all plays have the same hosts, and if groups cannot express them: the user then chooses
    the hosts with ``--on``.
    """
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


def _lines_of_files(remarks: Sequence[Remark]) -> dict[str, list[str]]:
    """Return file → its lines, for the files with remarks: comments of the manifest quote their tasks."""
    sources = {}
    for file in {remark.location.file for remark in remarks}:
        with open(file, encoding="utf-8", errors="replace") as stream:
            sources[file] = stream.read().splitlines()
    return sources
