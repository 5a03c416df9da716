"""``python -m release dist|deb [DIRECTORY]``: build the archives, or the package for Debian, of the current commit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from release import archives, debian
from release.source import ROOT, export


def main() -> None:
    """Build into a directory, by default ``dist``, which loses older files of the same kind; print the paths."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("kind", choices=["dist", "deb"])
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = export(Path(temporary, "source"))
        built = Path(temporary, "built")
        built.mkdir()
        paths = archives.build(source, built)
        if arguments.kind == "deb":
            paths = [debian.build(source, paths[0], built)]
        for path in paths:
            for old in arguments.directory.glob(f"*{path.suffix}"):
                old.unlink()
            target = arguments.directory / path.name
            target.write_bytes(path.read_bytes())
            print(target)  # noqa: T201 - the output of this command


if __name__ == "__main__":
    main()
