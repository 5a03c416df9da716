"""Assets and archives through the command line: in plans and in state by their digest."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.conftest import Bench


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def motd(bench: Bench) -> Path:
    """Return a file beside the manifest."""
    file = bench.home / "motd.txt"
    file.write_text("one\n", encoding="utf-8")
    return file


def site(bench: Bench, **attributes: Any) -> str:
    """Write a manifest of one file and return its name."""
    manifest = {"resources": {f"File[{bench.home}/out]": attributes}}
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    return "site.json"


@pytest.mark.parametrize("attribute", ["content", "source"])
def test_a_file_has_the_content_of_an_asset(bench: Bench, motd: Path, attribute: str) -> None:
    """An asset file is found beside the manifest, and a change of it is shown by the digests."""
    manifest = site(bench, **{attribute: {"asset": {"file": "motd.txt"}}})
    assert bench.run("apply", manifest).code == 0
    assert (bench.home / "out").read_text(encoding="utf-8") == "one\n"
    assert "1 unchanged" in bench.run("apply", manifest).out
    motd.write_text("two\n", encoding="utf-8")
    output = bench.run("plan", manifest).out
    old, new = digest("one\n")[:12], digest("two\n")[:12]
    assert f"    {attribute}: changed from sha256:{old} to sha256:{new} (motd.txt)\n" in output
    result = bench.run("apply", manifest)
    assert f"{attribute}: changed from sha256:{old} to sha256:{new} (motd.txt)" in result.err
    assert (bench.home / "out").read_text(encoding="utf-8") == "two\n"


def test_a_text_is_compared_as_text(bench: Bench) -> None:
    """The plan for a text asset is a diff of its lines."""
    bench.run("apply", site(bench, content={"asset": {"text": "one\ntwo\n"}}))
    assert "-two\n      +three\n" in bench.run("plan", site(bench, content={"asset": {"text": "one\nthree\n"}})).out


def test_a_long_file_is_written_unchanged(bench: Bench) -> None:
    """An asset of 3 MB is written byte for byte and is unchanged in the next run."""
    (bench.home / "long").write_bytes(b"x" * 3_000_000)
    manifest = site(bench, content={"asset": {"file": "long"}})
    assert bench.run("apply", manifest).code == 0
    assert (bench.home / "out").read_bytes() == b"x" * 3_000_000
    assert "1 unchanged" in bench.run("apply", manifest).out


def test_a_large_file_is_never_held_in_memory(bench: Bench) -> None:
    """A file of 200 MiB is copied and unpacked within a memory limit of 260 MiB."""
    with (bench.home / "huge").open("wb") as file:
        file.truncate(200 << 20)
    subprocess.run(["tar", "-C", bench.home, "-czf", bench.home / "huge.tar.gz", "huge"], check=True)
    manifest = {
        "resources": {
            f"File[{bench.home}/out]": {"source": {"asset": {"file": "huge"}}},
            f"Archive[{bench.home}/unpacked]": {"source": {"archive": {"file": "huge.tar.gz"}}},
        }
    }
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    program = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (260 << 20,) * 2)\n"
    program += "sys.argv[1:] = ['apply', 'site.json']; runpy.run_module('resource_api', run_name='__main__')"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=bench.home, env=bench.environment, check=False, timeout=50
    )
    assert process.returncode == 0
    for name in ("out", "unpacked/huge"):
        assert (bench.home / name).stat().st_size == 200 << 20
        (bench.home / name).unlink()


def test_a_missing_asset_is_reported_with_its_line(bench: Bench) -> None:
    """``validate`` refuses an asset file that does not exist, with line and reference."""
    text = f"resources:\n  File[{bench.home}/out]:\n    content: {{asset: {{file: nothing.txt}}}}\n"
    (bench.home / "site.yaml").write_text(text, encoding="utf-8")
    result = bench.run("validate", "site.yaml")
    assert result.code == 65
    assert f"site.yaml:3:5: File[{bench.home}/out]: nothing.txt cannot be read: no such file or directory" in result.err


def test_a_misplaced_asset_is_refused_with_a_hint(bench: Bench) -> None:
    """An asset for an attribute of another data type, and a wrong value for an asset, are refused."""
    result = bench.run("validate", site(bench, mode={"asset": {"text": "0644"}}))
    assert "mode must be" in result.err
    result = bench.run("validate", site(bench, source={"asset": "x"}))
    assert "an asset is given by one of text, file, url: {asset: {text: ...}}" in result.err
    result = bench.run("validate", site(bench, source=["x"]))
    assert "must be an absolute path or an asset" in result.err


def test_a_python_manifest_declares_assets(bench: Bench, motd: Path) -> None:
    """``m.asset`` declares an asset in a Python manifest."""
    text = f"def manifest(m):\n    m.file({str(bench.home / 'out')!r}, content=m.asset(file={motd.name!r}))\n"
    (bench.home / "site.py").write_text(text, encoding="utf-8")
    assert bench.run("apply", "site.py").code == 0
    assert (bench.home / "out").read_text(encoding="utf-8") == "one\n"


def test_inputs_values_and_references_carry_contents(bench: Bench, motd: Path) -> None:
    """Assets pass through inputs, values and references to other resources."""
    out = str(bench.home / "out")
    manifest = {
        "inputs": {"page": {"type": "Asset", "default": {"asset": {"file": motd.name}}}},
        "values": {"page": {"asset": {"text": "three\n"}}},
        "resources": {
            f"File[{out}]": {"source": "${inputs.page}"},
            f"File[{out}2]": {"source": f"${{File[{out}].source}}"},
            f"File[{out}3]": {"source": "${values.page}"},
            f"File[{out}4]": {"source": {"asset": {"text": f"${{File[{out}3].checksum}}"}}},
        },
    }
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "source: (none) → (known after apply)" in bench.run("plan", "site.json").out
    assert bench.run("apply", "site.json").code == 0
    texts = [(bench.home / f"out{number}").read_text(encoding="utf-8") for number in ("", "2", "3", "4")]
    assert texts == ["one\n", "one\n", "three\n", digest("three\n")]
    assert "4 unchanged" in bench.run("apply", "site.json").out


_PAGE = """
from resource_api import Attribute, ComponentDefinition

COMPONENT = ComponentDefinition(name="page", inputs={"text": Attribute("Asset"), "path": Attribute("String")})


def build(m):
    m.file(m.inputs.path, source=m.inputs.text)
"""


def test_inputs_of_components_and_python_manifests_are_contents(bench: Bench, motd: Path) -> None:
    """A file is found beside the manifest; a plan with one can be saved, and the command ``inputs`` lists it."""
    bench.write("components/page.py", _PAGE)
    out = str(bench.home / "out")
    pages = {
        "a": {"asset": {"file": motd.name}},
        "b": "${inputs.page}",
        "c": "${values.page}",
        "d": {"asset": {"text": f"of ${{File[{out}-a].checksum}}"}},
    }
    manifest = {
        "inputs": {"page": {"type": "Asset", "default": {"asset": {"text": "input"}}}},
        "values": {"page": {"asset": {"text": "value"}}},
        "resources": {f"Page[{name}]": {"path": f"{out}-{name}", "text": text} for name, text in pages.items()},
    }
    bench.write("site.json", json.dumps(manifest))
    assert bench.run("plan", "site.json", "-o", "plan.json").code == 0
    assert bench.run("apply", "plan.json").code == 0
    texts = [bench.home.joinpath(f"out-{name}").read_text(encoding="utf-8") for name in pages]
    assert texts == ["one\n", "input", "value", f"of {digest('one' + chr(10))}"]
    [listed] = bench.run("inputs", "site.json", "--json").document
    assert listed["value"] == {"asset": {"text": "input"}}
    code = f"INPUTS = {manifest['inputs']}\n\n\ndef manifest(m):\n    m.file('{out}', source=m.inputs.page)\n"
    bench.write("site.py", code)
    assert bench.run("apply", "site.py").code == 0
    assert bench.home.joinpath("out").read_text(encoding="utf-8") == "input"
    manifest["inputs"]["page"]["default"]["asset"]["file"] = "both"
    bench.write("site.json", json.dumps(manifest))
    assert "an asset is given by one of text, file, url" in bench.run("inputs", "site.json").err


def test_a_saved_plan_is_stale_when_an_asset_changed(bench: Bench, motd: Path) -> None:
    """A saved plan is refused for another content and can be applied from another directory."""
    manifest = site(bench, source={"asset": {"file": motd.name}})
    assert bench.run("plan", manifest, "-o", "plan.json").code == 0
    [step] = json.loads((bench.home / "plan.json").read_text(encoding="utf-8"))["steps"]
    assert step["should"]["source"] == {"$resource_api": "asset", "sha256": digest("one\n"), "file": "motd.txt"}
    motd.write_text("two\n", encoding="utf-8")
    result = bench.run("apply", "plan.json")
    assert (result.code, "stale" in result.err, (bench.home / "out").exists()) == (65, True, False)
    motd.write_text("one\n", encoding="utf-8")
    out, bench.home = bench.home / "out", bench.home / "elsewhere"
    bench.home.mkdir()
    assert bench.run("apply", "../plan.json").code == 0
    assert out.read_text(encoding="utf-8") == "one\n"


@pytest.mark.parametrize("key", [False, True])
def test_a_saved_plan_keeps_inputs_that_are_contents(bench: Bench, motd: Path, *, key: bool) -> None:
    """A saved plan keeps an asset input, a sensitive one under a key, and is stale while the content differs."""
    if key:
        bench.environment["RESOURCE_API_KEY"] = f"file:{bench.home}/state.key"
        assert bench.run("new", "key", "state.key").code == 0
    kind = "Sensitive[Asset]" if key else "Asset"
    manifest = {
        "inputs": {"page": {"type": kind, "default": {"asset": {"file": motd.name}}}},
        "resources": {f"File[{bench.home}/out]": {"source": "${inputs.page}"}},
    }
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    saved = bench.run("plan", "site.json", "-o", "plan.json")
    assert saved.code == 0, saved.err
    motd.write_text("two\n", encoding="utf-8")
    assert "stale" in bench.run("apply", "plan.json").err
    motd.write_text("one\n", encoding="utf-8")
    assert bench.run("apply", "plan.json").code == 0
    assert (bench.home / "out").read_text(encoding="utf-8") == "one\n"


def test_an_unpacked_archive_is_shown_as_a_manifest(bench: Bench) -> None:
    """An unpacked archive is shown with its digest as a comment instead of its source."""
    source = {"archive": {"files": {"a": {"asset": {"text": "x"}}}}}
    manifest = {"resources": {f"Archive[{bench.home}/site]": {"source": source, "mode": "0640"}}}
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert bench.run("apply", "site.json").code == 0
    output = bench.run("resource", "archive", f"{bench.home}/site")
    assert (output.code, 'mode: "0640"' in output.out) == (0, True)
    assert "    # source: sha256:" in output.out
    [row] = bench.run("resource", "archive", f"{bench.home}/site", "--json").document
    assert row["source"]["$resource_api"] == "archive"


@pytest.mark.parametrize("key", [False, True])
def test_a_secret_content_is_never_shown(bench: Bench, *, key: bool) -> None:
    """Neither the text nor the digest of a secret asset is in an output, and the text is not in state."""
    bench.environment["RESOURCE_API_STATE"] = f"sqlite:{bench.home}/state.db"
    if key:
        bench.environment["RESOURCE_API_KEY"] = f"file:{bench.home}/state.key"
        assert bench.run("new", "key", "state.key").code == 0
    manifest = {
        "inputs": {"key": {"type": "Sensitive[String]"}},
        "resources": {
            f"File[{bench.home}/out]": {"source": {"asset": {"text": "${inputs.key}"}}},
        },
    }
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    printed = ""
    for secret in ("hunter22hunter22", "other33other33"):
        (bench.home / "key").write_text(secret, encoding="utf-8")
        for command in (["plan", "--json"], ["plan"], ["apply", "-d"], ["apply", "--json"]):
            result = bench.run(*command, "site.json", "-i", "key=@key")
            printed += result.out + result.err
        assert (bench.home / "out").read_text(encoding="utf-8") == secret
        assert "1 unchanged" in bench.run("plan", "site.json", "-i", "key=@key").out
        printed += bench.run("state", "export").out
        assert secret.encode() not in (bench.home / "state.db").read_bytes()
        assert secret not in printed
        assert digest(secret)[:12] not in printed.replace(f'"checksum": "{digest(secret)}"', "")
    assert "source: <sensitive>" in printed


@pytest.mark.parametrize("options", [(), ("--isolate",)])
def test_a_custom_type_accepts_contents(bench: Bench, motd: Path, options: tuple[str, ...]) -> None:
    """A custom type with assets and archives receives their content, and a changed file is planned."""
    bench.type(
        "bundle",
        """
        "name": Attribute("String", kind="namevar"), "ensure": Attribute("Enum[present, absent]", default="present"),
        "site": Attribute("Archive"), "logo": Attribute("Hash[String, Asset]"),
        """,
        provider="""
        def _file(self):
            return Path(os.environ["BENCH"], "bundle.json")
        def get(self, context):
            found = json.loads(self._file().read_text()) if self._file().exists() else {}
            logo = {key: Asset(digest) for key, digest in found.get("logo", {}).items()}
            return [{"name": "b", "site": Archive(found["site"]), "logo": logo}] if found else []
        def create(self, context, name, should):
            held = {member.name: b"".join(member.parts).decode() for member in should["site"].members()}
            texts = {key: asset.open().read().decode() for key, asset in should["logo"].items()}
            digests = {"site": should["site"].sha256, "logo": {key: a.sha256 for key, a in should["logo"].items()}}
            self._file().write_text(json.dumps({**digests, "held": held, "texts": texts}))
        update = create
        def delete(self, context, name):
            self._file().unlink()
        """,
    )
    site = {"archive": {"files": {"a/x": {"asset": {"file": motd.name}}, "y": {"asset": {"text": "y"}}}}}
    manifest = {"resources": {"Bundle[b]": {"site": site, "logo": {"small": {"asset": {"file": motd.name}}}}}}
    (bench.home / "site.json").write_text(json.dumps(manifest), encoding="utf-8")
    result = bench.run("apply", "site.json", *options)
    assert result.code == 0, result.err
    document = json.loads((bench.things_of / "bundle.json").read_text(encoding="utf-8"))
    assert (document["held"], document["texts"]) == ({"a": "", "a/x": "one\n", "y": "y"}, {"small": "one\n"})
    assert "1 unchanged" in bench.run("apply", "site.json", *options).out
    motd.write_text("two\n", encoding="utf-8")
    changed = bench.run("plan", "site.json", *options).out
    assert "site: sha256:" in changed
    assert f"logo.small: sha256:{digest('one' + chr(10))[:12]} → " in changed
