"""The text of a converted manifest, with the line of each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.model.values.start_up import regex
from resource_api.model.values.text import escape
from resource_api.render.yaml_manifest import entry, flow_text, key_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from resource_api.convert.converted_resource import ConvertedResource
    from resource_api.convert.play_conversion import Converted
    from resource_api.convert.variables import ConvertedInput, Names

#: The most lines of a task that are repeated as a comment.
_REPEATED: Final = 12
#: The name of an input or value in a reference or condition.
_NAME_USE: Final = regex(r"\b(?:inputs|values)(?:\.([A-Za-z0-9_-]+)|\[\\?'([^']+)\\?'\])")
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
    """Writes the lines of a manifest."""

    def __init__(self) -> None:
        """Begin without lines."""
        self.lines: list[str] = []
        #: Line, from 1 → the number of the task, the name of the value or the name of the input that stands there.
        self.tasks: dict[int, int] = {}
        self.values: dict[int, str] = {}
        self.inputs: set[int] = set()

    @property
    def text(self) -> str:
        """The whole manifest."""
        return "\n".join(self.lines) + "\n"

    def add_head(self, title: Sequence[str], project: str) -> None:
        """Add the comments at the beginning, and the project."""
        self.lines += [*(f"# {escape(line)}" for line in title), *_entry("project", project, "")]

    def add_names(self, names: Names, declarations: Sequence[ConvertedResource]) -> None:
        """Add the inputs and values that the declarations need."""
        inputs, values = _needed(names, declarations)
        if inputs:
            self.lines += ["", "inputs:"]
        for name, declared in inputs.items():
            start = len(self.lines) + 1
            self._comment("  ", declared.comment)
            self.lines += _entry(name, _escaped_default(declared.declaration), "  ")
            self.inputs.update(range(start, len(self.lines) + 1))
        if values:
            self.lines += ["", "values:"]
        for name, value in values.items():
            start = len(self.lines) + 1
            self._comment("  ", names.comments[name])
            self.lines += _entry(name, value, "  ")
            self.values |= dict.fromkeys(range(start, len(self.lines) + 1), name)

    def add_resources(self, sections: Iterable[PlaySection], sources: Mapping[str, Sequence[str]]) -> None:
        """Add the resources of plays. ``sources``: file → its lines, which are repeated where nothing was converted."""
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
        task = converted.task
        self.lines.append("")
        location = f"{task.location}{': ' if task.title else ''}{task.title}"
        if converted.reason:
            self._comment("  ", f"NOT CONVERTED: {location}: {converted.reason}")
            for line in _source(sources.get(task.location.file, ()), task.location.line, task.location.column):
                self._comment("  ", f"    {line}")
            return
        self._comment("  ", location)
        for comment in converted.comments:
            self._comment("  ", f"({comment})")
        for declaration in converted.declarations:
            start = len(self.lines) + 1
            attributes = dict(declaration.attributes)
            if attributes:
                self.lines.append(f"  {key_text(declaration.reference)}:")
                for name, value in sorted(attributes.items(), key=lambda item: item[0] not in _FIRST):
                    self.lines += _entry(name, value, "    ")
            else:
                self.lines.append(f"  {key_text(declaration.reference)}: {{}}")
            self.tasks |= dict.fromkeys(range(start, len(self.lines) + 1), task.number)

    def _comment(self, indent: str, text: str) -> None:
        if text:
            self.lines.append(f"{indent}# {escape(text)}")


def _needed(
    names: Names, declarations: Sequence[ConvertedResource]
) -> tuple[dict[str, ConvertedInput], dict[str, Any]]:
    """Return the inputs and values that declarations use, also by other values."""
    waiting: list[Any] = [(row.title, row.attributes) for row in declarations]
    names_in_use: set[str] = set()
    while waiting:
        for name in map("".join, _NAME_USE.findall(repr(waiting.pop()))):
            if name not in names_in_use:
                names_in_use.add(name)
                waiting.append(names.values.get(name))
    inputs = {name: declared for name, declared in names.inputs.items() if name in names_in_use}
    return inputs, {name: value for name, value in names.values.items() if name in names_in_use}


def _entry(name: str, value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a key with its value, on one line where it is short and holds no other collections."""
    line = f"{indent}{key_text(name)}: {flow_text(value)}"
    is_flat = not any(isinstance(part, (dict, list)) for part in _parts(value)) and "\n" not in line
    if isinstance(value, (dict, list)) and value and is_flat and "\\n" not in line and len(line) <= _WIDTH:
        yield line
    elif isinstance(value, dict) and value:
        yield f"{indent}{key_text(name)}:"
        for key, part in value.items():
            yield from _entry(key, part, f"{indent}  ")
    else:
        yield from entry(name, value, indent)


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _escaped_default(declaration: dict[str, Any]) -> dict[str, Any]:
    """Return an input whose default, which is no template, holds no reference."""
    return {**declaration, "default": _escaped(declaration["default"])} if "default" in declaration else declaration


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_escaped, value))
    return value.replace("${", "$${") if isinstance(value, str) else value


def _source(lines: Sequence[str], start: int, column: int) -> Iterable[str]:
    """Return the lines of a task: from its first one to before the next that is not indented more than its dash."""
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
