"""Read and edit blocks between marker lines, each file once for all its changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lib import file_parts, line_places, validate_cmd
from lib.sensitive import reveal
from resource_api import BaseProvider, Problem, ResourceError, Sensitive, files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from resource_api import Change, Context, Resource

    Name = tuple[str, str, str]

LINE_END = re.compile(r"\r+\n")


class Provider(BaseProvider):
    """The blocks of text files."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Write blocks with line feeds only, so that a block equals the one in a file with other line ends.

        Clean paths for the same reason.
        """
        for resource in resources:
            if "block" in resource:
                resource["block"] = _canonical_block(resource["block"])
            if "path" in resource:
                resource["path"] = files.canonical_path(resource["path"])
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> Iterator[Problem]:
        """Refuse wrong expressions, and a block with a line of its own marker, at which the next run would end it."""
        yield from validate_cmd.problems("validate_cmd", should.get("validate_cmd"))
        yield from line_places.place_problems(should)
        block, name, marker = reveal(should.get("block")), should.get("name"), should.get("marker")
        if isinstance(block, str) and isinstance(name, str) and isinstance(marker, str):
            markers = _markers(name, marker)
            if any(line.rstrip() in markers for line in block.split("\n")):
                yield Problem("block", f"block contains a line of its own marker '{marker}'")

    def get(self, context: Context, names: Collection[Name] | None = None) -> Iterator[Resource]:
        """Return the blocks in ``names``; a block whose marker lines are not a single pair fails its name."""
        unlisted = "the blocks of all files cannot be listed; name a file and a block"
        for path, group, lines in file_parts.read_files(context, names, files.read_lines, unlisted):
            texts = list(lines)
            for name in group:
                try:
                    markers = find(texts, *name[1:])
                except ResourceError as error:
                    context.failed(name, message=str(error))
                    continue
                if markers is not None:
                    block = files.printable("\n".join(texts[markers[0] + 1 : markers[1]]))
                    row = {"ensure": "present", "path": path, "name": name[1], "marker": name[2]}
                    yield {**row, "block": _canonical_block(block)}

    def preflight(self, _context: Context, changes: Mapping[Name, Mapping[str, Any]]) -> Iterator[tuple[Name, Problem]]:
        """Yield the missing prerequisites of a block: the directory of its file, the program that checks it."""
        return file_parts.missing(changes)

    def set(self, _context: Context, changes: Mapping[Name, Change]) -> None:
        """Edit each file once, also after another file failed, and then raise the first failure."""
        file_parts.edit_lines(changes, edit)


def edit(lines: files.Lines, states: Mapping[tuple[str, str], Mapping[str, Any] | None]) -> None:
    """Bring the blocks in ``states``, by name and marker, to these states; None removes them.

    A new block is added with its marker lines at the declared place. Raise ``ResourceError`` if marker lines are not a
    single pair.
    """
    for (name, marker), should in states.items():
        markers = find(list(lines), name, marker)
        if markers is not None:
            # The marker lines of a block that stays keep their bytes.
            first, last = markers if should is None else (markers[0] + 1, markers[1] - 1)
            lines.delete(range(first, last + 1))
        if should is None:
            continue
        block = reveal(should["block"])
        texts = block.rstrip("\n").split("\n") if block else []
        if markers is None:
            begin, end = _markers(name, marker)
            texts = [begin, *texts, end]
        start = line_places.place(lines, should) if markers is None else markers[0] + 1
        for number, text in enumerate(texts, start):
            lines.insert(number, text)


def find(texts: list[str], name: str, marker: str) -> tuple[int, int] | None:
    """Return the numbers of a block's two marker lines, or None without any.

    Raise ``ResourceError`` if one of them is missing, there twice, or in the wrong order.
    """
    begin, end = _markers(name, marker)
    begins, ends = ([number for number, text in enumerate(texts) if text.rstrip() == line] for line in (begin, end))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        numbers = ", ".join(str(number + 1) for number in sorted((*begins, *ends)))
        raise ResourceError(f"has not one '{begin}' and one '{end}' below it, but such lines: {numbers}")
    return begins[0], ends[0]


def _markers(name: str, marker: str) -> tuple[str, str]:
    """Return the lines before and after a block."""
    text = marker.replace("{name}", name)
    return text.replace("{mark}", "BEGIN").rstrip(), text.replace("{mark}", "END").rstrip()


def _canonical_block(block: Any) -> Any:
    """Return a block with a line feed as the end of each line, or an empty text; a secret stays one."""
    if isinstance(block, Sensitive):
        return Sensitive(_canonical_block(block.reveal()))
    text = LINE_END.sub("\n", block).rstrip("\r\n")
    return f"{text}\n" if text else ""
