"""Locales that the real localedef builds from small sources, in a copy of /etc and an archive of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, converge, reason, run, warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api import Resource

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root builds locales"),
    pytest.mark.usefixtures("archive"),
]

LIST = Path("/etc/locale.gen")
SOURCES = Path("/usr/local/share/i18n/locales")
ASCII = "ANSI_X3.4-1968"
TEXT = f"# comment\n\n# de_DE.UTF-8 UTF-8\n# ra_XB {ASCII}\n"


@pytest.fixture(scope="module")
def archive(private_etc: None) -> None:  # noqa: ARG001 - /etc is a copy
    """Cover the archive and the sources of the administrator; some sources are the smallest there is."""
    for word in ("/usr/lib/locale", "/usr/local/share"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ra-test", word], check=True)
    SOURCES.mkdir(parents=True)
    for name in ("ra_XA", "ra_XB", "ra_XC", "ra_XA@more"):
        shutil.copy("/usr/share/i18n/locales/POSIX", SOURCES / name)


@pytest.fixture(autouse=True)
def _list() -> None:
    """Let no locale be listed or built."""
    LIST.write_text(TEXT)
    Path("/usr/lib/locale/locale-archive").unlink(missing_ok=True)


def usable() -> list[str]:
    """Return the locales of the tests that programs can use."""
    words = subprocess.run(["locale", "-a"], check=True, capture_output=True, text=True).stdout.split()
    return [name for name in words if name.startswith("ra_")]


def apply(**locales: dict[str, Any]) -> list[str]:
    """Apply locales twice, the second time without a change; return what programs can use."""
    converge({f"Locale[{name.replace('__', '@')}]": {"charset": ASCII, **locale} for name, locale in locales.items()})
    return usable()


def test_a_locale_is_listed_and_built_and_removed() -> None:
    """Its comment becomes its line; what the tests did not declare keeps every byte."""
    output = apply(ra_XB={}, ra_XA__more={})
    assert {"ra_XB", "ra_XA@more"} <= set(output)
    assert LIST.read_text() == TEXT.replace("# ra_XB", "ra_XB") + f"ra_XA@more {ASCII}\n"
    assert apply(ra_XB={"ensure": "absent"}, ra_XA__more={"ensure": "absent"}) == []
    assert LIST.read_text() == TEXT.replace(f"# ra_XB {ASCII}\n", "")


def test_a_locale_with_another_character_set_stays() -> None:
    """Without one in its name, a locale is that with the character set that it is listed with."""
    both = {"Locale[ra_XA]": {"charset": "ISO-8859-1"}, "Locale[ra_XA.UTF-8]": {}}
    assert [step.error for step in run(both)[0].steps if step.error] == []
    assert run({"Locale[ra_XA]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert run({"Locale[ra_XA.UTF-8]": {}})[0].summary.unchanged == 1
    assert usable() == ["ra_XA.utf8"]


def test_a_line_in_another_spelling_is_the_locale_s() -> None:
    """It is kept where it is, listed once, and removed; a listing of it is no error of the provider."""
    LIST.write_text("ra_XA.utf8 UTF-8\nra_XB.UTF8 utf8 # why\n")
    converge({"Locale[ra_XA.UTF-8]": {}})
    assert LIST.read_text() == "ra_XA.utf8 UTF-8\nra_XB.UTF8 utf8 # why\n"
    assert run({"Locale[ra_XA.utf8]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert (LIST.read_text(), usable()) == ("ra_XB.UTF8 utf8 # why\n", [])


def test_a_line_of_the_package_becomes_a_comment_again() -> None:
    """So that an administrator finds it where it was."""
    LIST.write_text(TEXT.replace("# de_DE", "de_DE"))
    assert run({"Locale[de_DE.utf8]": {"ensure": "absent"}})[0].summary.deleted == 1
    assert LIST.read_text() == TEXT


@pytest.mark.parametrize("damage", ["not built", "not listed"])
def test_one_half_is_not_enough(damage: str) -> None:
    """What was interrupted, or changed by hand, is completed, and removed as well."""
    for ensure in ("present", "absent"):
        apply(ra_XC={})
        if damage == "not built":
            Path("/usr/lib/locale/locale-archive").unlink()
        else:
            LIST.write_text(TEXT)
        assert bool(apply(ra_XC={"ensure": ensure})) is (ensure == "present")
        assert (f"ra_XC {ASCII}\n" in LIST.read_text()) is (ensure == "present")


def test_only_what_is_missing_is_built() -> None:
    """The others in the list are not built anew, whatever they are."""
    LIST.write_text("de_DE.UTF-8 UTF-8\n")
    assert apply(ra_XC={})[0] == "ra_XC"
    output = subprocess.run(["locale", "-a"], check=True, capture_output=True, text=True).stdout
    assert "de_DE" not in output


def test_what_cannot_be_built_is_an_error() -> None:
    """A locale without a source, an unknown character set, and a source with a mistake; the plan warns of the first."""
    declared = {"Locale[ra_NO.UTF-8]": {}}
    assert warned(declared) == ["there is no source of it in /usr/share/i18n/locales"]
    assert reason(run(declared)[0]) == "there is no source of it in /usr/share/i18n/locales"
    assert "there is no character set 'RA-1'" in reason(run({"Locale[ra_XC]": {"charset": "RA-1"}})[0])
    (SOURCES / "ra_BAD").write_text('LC_CTYPE\ncopy "ra_NONE"\nEND LC_CTYPE\n')
    error = reason(run({"Locale[ra_BAD]": {"charset": ASCII}})[0])
    assert "localedef did not build it: [error] cannot open locale definition file `ra_NONE'" in error
    assert usable() == []


@pytest.mark.parametrize(
    ("title", "reason"),
    [
        ("C.UTF-8", "must be a locale"),
        ("../x", "must be a locale"),
        ("de_DE", "charset is needed where the name has none"),
    ],
)
def test_what_cannot_be_meant_is_refused(title: str, reason: str) -> None:
    """Before anything is read."""
    with pytest.raises(ManifestError, match=reason):
        Runtime(REGISTRY).validate({"resources": {f"Locale[{title}]": {}}})


class TestLocale(ProviderCompliance):
    """A locale, which then gets another character set."""

    type_name = "locale"

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra_XA", "charset": ASCII}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "charset": "ISO-8859-1"}

    @pytest.fixture
    def others(self, present: Resource) -> list[Resource]:
        return [{**present, "name": "ra_XB"}, {**present, "name": "ra_XA@more"}]

    @pytest.fixture
    def world(self) -> Callable[[], Any]:
        return lambda: (LIST.read_bytes(), usable())

    @pytest.fixture
    def neighbours(self) -> str:
        return "only root writes to what it reads"
