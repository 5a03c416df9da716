"""The laws of files of inputs: where a value comes from, and how it is stored, makes no difference."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyrage
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api.manifest.input_files import InputFiles, located_values
from resource_api.manifest.input_values import FileInput, LocatedValue
from resource_api.model.values.errors import ManifestError
from resource_api.system.age import Identities
from resource_api.system.filesystem.code_trust import CodeTrust

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = pyrage.x25519.Identity.generate()
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(min_codepoint=32, max_codepoint=126)),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.sampled_from("abcfile"), parts, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> InputFiles:
    """Return a reader with an identity."""
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_text(str(IDENTITY))
    path.chmod(0o600)
    return InputFiles(CodeTrust(), Identities(str(path)))


@given(TEXTS)
def test_a_text_is_the_same_from_every_source(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Without one final newline, as ``-i NAME=@FILE`` reads it."""
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(text.encode())
    os.environ["INPUT_OF_A_TEST"] = text
    sources = [{"file": "text"}, {"command": ["cat", "text"]}, {"command": "cat text"}, {"env": "INPUT_OF_A_TEST"}]
    located = {str(number): LocatedValue(source, f"{path.parent}/i.yaml", 1) for number, source in enumerate(sources)}
    resolved = InputFiles(CodeTrust()).resolve(located)
    assert set(resolved.values()) == {text.removesuffix("\n")}
    assert {type(value) for value in resolved.values()} == {FileInput}


@given(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1))
def test_an_encrypted_file_has_the_values_and_positions_of_the_plain_one(
    reader: InputFiles, values: dict[str, Any]
) -> None:
    """Armoured or not."""
    raw = json.dumps(values, indent=1).encode()
    plain = reader.parse(raw, "i.json")
    for armoured in (False, True):
        encrypted = pyrage.encrypt(raw, [IDENTITY.to_public()], armored=armoured)
        document = reader.parse(encrypted, "i.json.age")
        assert document.data == plain.data
        assert [document.position((name,)) for name in values] == [plain.position((name,)) for name in values]


@given(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1))
def test_a_literal_is_what_it_was(reader: InputFiles, values: dict[str, Any]) -> None:
    """Each mapping beneath ``value`` is one, and each value without the form of a source."""
    mappings = {name: {"value": {"file": value}} for name, value in values.items()}
    located = located_values(reader.parse(json.dumps(mappings).encode(), "i.json"))
    assert reader.resolve(located) == {name: {"file": value} for name, value in values.items()}


@given(VALUES)
def test_a_file_is_read_or_refused_with_its_place(reader: InputFiles, value: object) -> None:
    """There is no other error, and no message has a part of an encrypted text."""
    text = json.dumps({"a": value, "secret-4711": 1})[:-1] + ', "secret-4711": 2}'
    encrypted = pyrage.encrypt(text.encode(), [IDENTITY.to_public()])
    with pytest.raises(ManifestError) as refused:
        reader.parse(encrypted, "i.json.age")
    assert all(problem.line == 1 for problem in refused.value.problems)
    assert "4711" not in str(refused.value)


def test_a_relative_source_is_beside_its_file(tmp_path: Path) -> None:
    """Also where the file is named by a relative path, or is in the root."""
    assert LocatedValue(1, "i.yaml", 1).directory == ""
    assert LocatedValue(1, "/i.yaml", 1).directory == "/"
    assert LocatedValue(1, f"{tmp_path}/i.yaml", 1).directory == str(tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[]", "4", '{"version": 4, "outputs": []}', '{"version": 3, "outputs": {}}', ""]
)
def test_what_is_no_state_of_terraform_is_refused_at_its_input(tmp_path: Path, text: str) -> None:
    """Also a text that is nested beyond the stack."""
    (tmp_path / "s.tfstate").write_text(text)
    located = {"net": LocatedValue({"terraform_state": "s.tfstate"}, f"{tmp_path}/i.yaml", 2, 3)}
    with pytest.raises(ManifestError, match=r"i.yaml:2:3: input 'net': .*: it is no state file of Terraform"):
        InputFiles(CodeTrust()).resolve(located)
