"""Run the corpus of mistakes and show which answers have changed; with ``--write``, write them and the page down."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hostile.mistakes import cases, page


def answered(case: cases.Case) -> cases.Case:
    """Return a case with the answer that the command gives now."""
    with tempfile.TemporaryDirectory() as directory:
        code, stderr = case.run(Path(directory))
    return case._replace(exit=code, stderr=stderr)


def main() -> int:
    """Run the groups named on the command line, or all; return 1 where an answer has changed and is not written."""
    names = {word for word in sys.argv[1:] if word != "--write"}
    changed = 0
    for path in cases.groups():
        if names and path.stem not in names:
            continue
        before = cases.load(path)
        current = [answered(case) for case in before]
        for old, new in zip(before, current, strict=True):
            if old != new:
                changed += 1
                print(f"{old.group}: {old.name}: exit {new.exit}\n{new.stderr}")  # noqa: T201 - a command prints
        if "--write" in sys.argv:
            cases.write(path, current)
    if "--write" in sys.argv:
        page.PAGE.write_text(page.page(), encoding="utf-8")
    return int(bool(changed) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
