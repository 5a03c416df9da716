"""``python -m tests.pictures``: draw ``docs/pictures/plan.svg``, a plan as a terminal shows it, from a real run.

The run changes a machine of its own. The picture follows the reader's colour scheme, light or dark, and loads nothing.
"""

from __future__ import annotations

import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.command import ROOT
from tests.systemd_machine import download_packages, started_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURE: Final = ROOT / "docs/pictures/plan.svg"
_BEFORE: Final = """
resources:
  Package[nginx-light]: {ensure: present}
  File[/etc/nginx/conf.d/hello.conf]:
    content: |
      server {
          listen 8080;
          root /srv/hello;
      }
  Service[nginx]: {ensure: running, enable: true}
"""
_AFTER: Final = """
resources:
  Package[nginx-light]: {ensure: present}
  User[deploy]: {shell: /bin/bash, managehome: true}
  File[/srv/hello]: {ensure: directory, owner: deploy}
  File[/etc/nginx/conf.d/hello.conf]:
    content: |
      server {
          listen 80;
          root /srv/hello;
      }
    notify: Service[nginx]
  Service[nginx]: {ensure: running, enable: true}
"""
#: A change by hand, which the plan names as drift.
_DRIFT: Final = "systemctl disable --quiet nginx"
#: Codes of colours, and the colour of each in the light and in the dark scheme.
_COLOURS: Final = {
    "31": ("#b42318", "#ff7b72"),
    "32": ("#1a7f37", "#56d364"),
    "33": ("#946200", "#e3b341"),
    "34": ("#0550ae", "#79c0ff"),
    "35": ("#8250df", "#d2a8ff"),
    "36": ("#0a6b74", "#39c5cf"),
}
_WIDTH, _LINE, _MARGIN = 8.43, 20, 20
_CODE: Final = re.compile(r"\x1b\[([\d;]*)m")


def drawn(text: str) -> str:
    """Return a text with codes of colours as a picture."""
    lines = text.rstrip("\n").split("\n")
    columns = max(len(_CODE.sub("", line)) for line in lines)
    width, height = round(columns * _WIDTH + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN
    light = "".join(f".c{code}{{fill:{pair[0]}}}" for code, pair in _COLOURS.items())
    dark = "".join(f".c{code}{{fill:{pair[1]}}}" for code, pair in _COLOURS.items())
    body = "\n".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + _LINE * number + 15}">{"".join(_spans(line))}</text>'
        for number, line in enumerate(lines)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}}
rect{{fill:#f6f8fa;stroke:#d0d7de}}.c1{{font-weight:bold}}.c2{{opacity:.65}}{light}
@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}rect{{fill:#0d1117;stroke:#30363d}}{dark}}}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>
{body}
</svg>
"""


def _spans(line: str) -> Iterator[str]:
    codes: list[str] = []
    pieces = _CODE.split(line)
    for number, piece in enumerate(pieces):
        if number % 2:
            codes = [] if piece in {"", "0"} else [*codes, *piece.split(";")]
        elif piece:
            classes = " ".join(f"c{code}" for code in codes)
            yield f'<tspan class="{classes}">{escape(piece)}</tspan>' if classes else escape(piece)


def plan() -> str:
    """Return a plan in colour, made on a machine of its own after a run and a change by hand."""
    download_packages("nginx-light")
    with tempfile.TemporaryDirectory() as directory:
        mounts = Path(directory, "mounts")
        mounts.mkdir()
        with started_machine(mounts, network=False) as machine:
            machine.run("rm", "-rf", "/usr/sbin/policy-rc.d", "/var/lib/resource-api")
            machine.apply(_BEFORE)
            machine.run("sh", "-c", _DRIFT)
            machine.write("/root/site.yaml", _AFTER)
            command = [sys.executable, "-m", "resource_api", "plan", "site.yaml", "--color", "always"]
            typed = machine.run("env", "--chdir=/root", "COLUMNS=88", *command).stdout
    return f"$ resource-api plan site.yaml\n{typed}"


def main() -> None:
    """Draw the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(plan()), encoding="utf-8")


if __name__ == "__main__":
    main()
