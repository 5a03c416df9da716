"""The whole command, for a sample: arguments, environment, standard input and files as anybody may give them."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from tests import command as runs
from tests.fuzz.target import target
from tests.fuzz.targets.manifests import MANIFESTS, TEXTS, _json, _yaml
from tests.fuzz.targets.state import JSON, directory
from tests.fuzz.things import MODULES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

#: The exit codes that are documented, without that of a bug.
CODES: Final = {0, 1, 2, 4, 6, 64, 65, 74, 75}
#: Characters: a longer line cannot be read as one.
LONGEST_LINE: Final = 5000
VARIABLES: Final = (
    *(
        f"RESOURCE_API_{name}"
        for name in ["STATE", "STACK", "KEY", "MODULE_PATH", "TRUST_PATH", "NOOP", "ISOLATE", "PASSPHRASE", "INPUT_A"]
    ),
    *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LANG", "LC_ALL", "TERM", "HOME", "XDG_STATE_HOME", "TZ", "TMPDIR", "PATH"),
)
COMMANDS: Final = (
    ("validate", "site.yaml"),
    ("plan", "site.yaml"),
    ("apply", "site.yaml", "--noop"),
    ("apply", "site.yaml"),
    ("graph", "site.yaml"),
    ("validate", "site.json"),
    ("apply", "site.json", "--json"),
    ("state", "import", "site.json"),
    ("state", "list"),
    ("output",),
    ("resource", "fixed", "a"),
    ("describe", "fixed"),
    ("destroy", "site.yaml", "--yes"),
)
OPTIONS: Final = (
    *("--json", "-v", "-d", "-q", "--noop", "--color", "always", "--log-format", "json", "--prune", "--isolate", "--"),
    *(
        "--target",
        "Fixed[a]",
        "--exclude",
        "--tags",
        "a,b",
        "--stack",
        "--project",
        "-i",
        "a=1",
        "--inputs",
        "site.json",
    ),
    *(
        "--state",
        "memory:",
        "--key",
        "file:site.json",
        "--lock-timeout",
        "0",
        "--parallel",
        "2",
        "--strict",
        "off",
        "-o",
    ),
)


def _encode(arguments: Sequence[str], environment: dict[str, str], files: tuple[bytes, bytes]) -> bytes:
    head = json.dumps([list(arguments), environment]).encode()
    return b"\0\0".join([head, *files])


@target(
    generate=st.builds(
        lambda first, more, environment, files: _encode([*first, *more], environment, files),
        st.sampled_from(COMMANDS),
        st.lists(st.sampled_from(OPTIONS) | TEXTS, max_size=3),
        st.dictionaries(st.sampled_from(VARIABLES), TEXTS | st.sampled_from(["1", "x:", ":", "sqlite:", "/", "xx_YY"])),
        st.tuples(
            MANIFESTS.map(_yaml) | st.binary(max_size=40), (MANIFESTS | JSON).map(_json) | st.binary(max_size=40)
        ),
    ),
    grows=False,
)
def command_line(data: bytes) -> None:
    """The command as a process: its arguments, its environment and the files that they name."""
    head, _, rest = data.partition(b"\0\0")
    first, _, second = rest.partition(b"\0\0")
    try:
        words, options = json.loads(head)
        arguments = [str(word).replace("\0", "").encode("utf-8", "replace").decode() for word in words]
        environment = {str(k): str(v).replace("\0", "").encode("utf-8", "replace").decode() for k, v in options.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        arguments, environment = ["validate", "site.yaml"], {}
    if any(word in {"new", "import", "refresh"} for word in arguments[:1]):
        return  # they write files where they are called
    path = directory() / "box"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    (path / "site.yaml").write_bytes(first)
    (path / "site.json").write_bytes(second)
    result = _run(arguments, environment, path)
    text = (result.stdout + result.stderr).decode("utf-8", "replace")
    assert result.returncode in CODES, f"exit code {result.returncode}: {text[-1500:]}"
    assert "Traceback" not in text or "-d" in " ".join(arguments), f"a traceback: {text[-1500:]}"
    assert result.returncode in {0, 2} or text.strip(), "a failure without a word"
    refused = result.returncode in {64, 65, 74, 75} and "--json" not in arguments and "json" not in arguments
    assert not refused or max(map(len, text.split("\n"))) < LONGEST_LINE, "a message that is too long"


def _run(arguments: list[str], environment: dict[str, str], position: Any) -> subprocess.CompletedProcess[bytes]:
    fixed = {
        "PATH": os.environ["PATH"],
        "HOME": str(position),
        "PYTHONPATH": str(runs.ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RESOURCE_API_STATE": f"sqlite:{position}/state/state.db",
        "RESOURCE_API_MODULE_PATH": str(MODULES),
    }
    stored = {name: value for name, value in environment.items() if name in VARIABLES and name != "TMPDIR"}
    if not str(stored.get("RESOURCE_API_STATE", "memory:")).startswith("memory:"):
        stored["RESOURCE_API_STATE"] = f"sqlite:{position}/{len(stored)}/state.db"
    result: subprocess.CompletedProcess[bytes] = runs.run(arguments, cwd=position, env={**fixed, **stored}, timeout=30)
    return result
