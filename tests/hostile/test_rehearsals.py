"""Rehearsals of manifests with a fault, each of which is named, and of sound ones, in many orders."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from resource_api.rehearse import side_effects
from resource_api.testing import rehearse
from tests.namespaces import bind, private_mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.rehearse.result import Rehearsal

HERE: Final = Path(__file__).with_name("rehearsals")
FAULTY, SOUND, BAD_PROVIDERS, DAMAGED, PAIRS = (
    yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    for name in ("faulty", "sound", "faulty-damaged", "sound-damaged", "mended")
)
#: How many other orders of a sound manifest are tried.
ORDERS: Final = 50 if os.environ.get("FAULTS_ALL_POINTS") else 2

#: The packages of the repository: name → path → content; a script of the maintainer is named alone.
PACKAGES: Final[dict[str, dict[str, str]]] = {
    "ra-server": {
        "etc/ra-server/defaults": "port = 80\n",
        "etc/ra-server/server.conf": "user = root\n",
        "conffiles": "/etc/ra-server/server.conf\n",
        "etc/ra-server/conf.d/README": "One file for each site.\n",
        "usr/bin/ra-server": "#!/bin/sh\nexec cat /etc/ra-server/conf.d/*.conf\n",
        "postinst": "#!/bin/sh\nmkdir -p /var/lib/ra-server\necho ra-server >>/etc/shells\n",
        "postrm": "#!/bin/sh\nrm -rf /var/lib/ra-server\nsed -i /ra-server/d /etc/shells\n",
    },
    "ra-tool": {
        "usr/bin/ra-tool": '#!/bin/sh\necho "$1" >>/srv/tool.log\n',
        "postinst": "#!/bin/sh\necho ra-tool >>/etc/shells\n",
    },
    "ra-greedy": {
        "usr/share/ra-greedy/README": "Hello!\n",
        "postinst": "#!/bin/sh\necho ra-greedy >>/etc/hostname\n",
    },
}


def build(repository: Path, name: str, files: dict[str, str]) -> str:
    """Build a package and return its paragraph of the repository's index."""
    tree = repository / name
    control = tree / "DEBIAN"
    control.mkdir(parents=True)
    fields = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: test\n"
    (control / "control").write_text(fields)
    for key, text in files.items():
        path = tree / key if "/" in key else control / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    deb = repository / f"{name}.deb"
    words = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(deb)]
    subprocess.run(words, check=True, capture_output=True)
    data = deb.read_bytes()
    return f"{fields}Filename: ./{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


@pytest.fixture(scope="module", autouse=True)
def _repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let apt know the repository of the tests and nothing else, in a mount namespace of this thread."""
    home = tmp_path_factory.mktemp("apt")
    repository, configuration, lists, srv = (home / name for name in ("repository", "etc", "lists", "srv"))
    for path in (repository, configuration, lists, srv):
        path.mkdir()
    for name in ("apt.conf.d", "preferences.d", "sources.list.d"):
        (configuration / name).mkdir()
    (repository / "Packages").write_text("\n".join(build(repository, *package) for package in PACKAGES.items()))
    (configuration / "sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    with private_mounts():
        bind(configuration, "/etc/apt")
        bind(lists, "/var/lib/apt")
        bind(srv, "/srv")
        subprocess.run(["apt-get", "update"], check=True, capture_output=True)
        yield
    assert list(srv.iterdir()) == []


def rehearsed(case: dict[str, Any], directory: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Rehearsal:
    """Return the rehearsal of a case, whose files are in a directory of their own."""
    for name, text in case["files"].items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("HERE", str(directory)), encoding="utf-8")
    if "git" in case:
        _make_repository(directory / case["git"])
    monkeypatch.chdir(directory)
    return rehearse("site.yaml", **{**case.get("options", {}), **more})


def _make_repository(path: Path) -> None:
    git = ["git", "-C", str(path), "-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    path.mkdir()
    (path / "page").write_text("Hello!\n")
    for words in (["init", "-q"], ["add", "page"], ["commit", "-q", "-m", "a page"]):
        subprocess.run([*git, *words], check=True)


def found(result: Rehearsal) -> list[str]:
    """Return each thing that is wrong, after the question of its verdict."""
    bad = [verdict for verdict in result.verdicts if not verdict.ok]
    return [f"{item.question}: {text}" for item in bad for text in map(str, item.findings or [item.text])]


@pytest.mark.parametrize("case", [*FAULTY, *BAD_PROVIDERS], ids=[case["name"] for case in (*FAULTY, *BAD_PROVIDERS)])
def test_a_fault_is_named_with_the_line_to_mend(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finding names the resource, the line to mend and what to write there; nothing else is found."""
    result = rehearsed(case, tmp_path, monkeypatch)
    # How many caches apt writes anew depends on their age in whole seconds.
    beyond = [line for line in side_effects.lines(result.side_effects) if "of caches" not in line]
    assert (found(result), beyond if "beyond" in case else []) == (case["finds"], case.get("beyond", []))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", SOUND, ids=[case["name"] for case in SOUND])
def test_a_sound_manifest_raises_no_alarm(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order, nothing is found."""
    assert found(rehearsed(case, tmp_path, monkeypatch, orders=ORDERS)) == []


@pytest.mark.parametrize("case", DAMAGED, ids=[case["name"] for case in DAMAGED])
def test_what_two_creations_make_differently_is_no_damage(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is damaged, nothing is found, in the order of the file and in another one."""
    options = case.get("options", {"damage": True, "orders": 1})
    assert found(rehearsed({**case, "options": options}, tmp_path, monkeypatch)) == []


@pytest.mark.parametrize("case", PAIRS, ids=[case["name"] for case in PAIRS])
def test_a_fault_is_found_until_it_is_mended(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of fault is named with its line; of the same manifest without the fault nothing is said."""
    results = {}
    for kind in ("faulty", "sound"):
        (tmp_path / kind).mkdir()
        results[kind] = rehearsed({**case, "files": case[kind]}, tmp_path / kind, monkeypatch)
    beyond = [list(side_effects.lines(result.side_effects)) if "beyond" in case else [] for result in results.values()]
    assert (found(results["faulty"]), beyond[0]) == (case["finds"], case.get("beyond", []))
    assert (found(results["sound"]), beyond[1]) == ([], [])
