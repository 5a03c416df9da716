"""Packages of Terraform providers: addresses, ranges, layouts, hashes, lock files, mirrors of the tools."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet

from resource_api.model.values.errors import ResourceError
from resource_api.terraform import packages
from resource_api.terraform.packages import LockedProvider, Mirror, ProviderAddress, mirrors, parse_hcl

if TYPE_CHECKING:
    from pathlib import Path

NULL = ProviderAddress("hashicorp", "null")
#: The content of the package in the tests of Terraform's own hash, and its known hash.
PLACEHOLDER = "# This is just a placeholder file for discovery testing, not a real provider plugin.\n"
KNOWN = "h1:qjsREM4DqEWECD43FcPqddZ9oxCG+IaMTxvWPciS05g="


def opened(path: str) -> int:
    """Open a file that is trusted."""
    return os.open(path, os.O_RDONLY)


def mirror(home: Path, version: str, *, host: str = "registry.terraform.io") -> Path:
    """Return an unpacked package below ``home``."""
    directory = home / host / "hashicorp" / "null" / version / packages.platform()
    directory.mkdir(parents=True)
    (directory / "terraform-provider-null").write_text(PLACEHOLDER)
    return directory


def packed(home: Path, version: str) -> Path:
    """Return a packed package below ``home``."""
    path = home / f"registry.opentofu.org/hashicorp/null/terraform-provider-null_{version}_{packages.platform()}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("terraform-provider-null", PLACEHOLDER)
    return path


@pytest.mark.parametrize("text", ["null", "a/b/c/d", "Hash/null", "localhost/a/b", "../a/b", "a/..", "a/b/../../etc"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """An address becomes a path: nothing in it leads elsewhere."""
    with pytest.raises(ValueError, match="no address of a provider"):
        ProviderAddress.parse(text)


def test_the_two_default_registries_are_one() -> None:
    """Another host is a part of the address."""
    assert ProviderAddress.parse("registry.opentofu.org/hashicorp/null") == ProviderAddress.parse("hashicorp/null")
    assert str(ProviderAddress.parse("tf.example.org:8443/a/b")) == "tf.example.org:8443/a/b"


def test_the_hash_of_a_package_is_the_one_of_terraform(tmp_path: Path) -> None:
    """A known hash of Terraform's tests; a zip file, unpacked, has the same."""
    assert packages.package_hash(str(mirror(tmp_path, "2.0.0"))) == KNOWN
    package = packages.Package(packages.Version("2.0.0"), str(packed(tmp_path, "2.0.0")))
    assert packages.package_hash(packages.unpacked(package, opened, str(tmp_path / "cache"))) == KNOWN


def test_the_newest_version_that_fits_is_chosen_from_both_layouts(tmp_path: Path) -> None:
    """Directories that are no version, and other platforms, are ignored."""
    mirror(tmp_path, "1.9.0")
    mirror(tmp_path, "latest")
    packed(tmp_path, "2.1.0")
    packed(tmp_path, "3.0.0")
    (tmp_path / "registry.terraform.io/hashicorp/null/4.0.0/windows_amd64").mkdir(parents=True)
    found = list(packages.find(NULL, [str(tmp_path / "missing"), str(tmp_path)]))
    assert sorted(str(package.version) for package in found) == ["1.9.0", "2.1.0", "3.0.0"]
    chosen = packages.newest(found, SpecifierSet("<3"))
    assert chosen is not None
    assert (str(chosen.version), chosen.path.endswith(".zip")) == ("2.1.0", True)
    assert packages.newest(found, SpecifierSet(">4")) is None


def test_a_package_is_unpacked_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    """A member that leads outside is refused."""
    cache, path = str(tmp_path / "cache"), packed(tmp_path, "2.0.0")
    package = packages.Package(packages.Version("2.0.0"), str(path))
    first = packages.unpacked(package, opened, cache)
    assert packages.unpacked(package, opened, cache) == first
    assert os.access(packages.executable(first, "null"), os.X_OK)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("LICENSE", "free")
    assert packages.unpacked(package, opened, cache) != first
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../terraform-provider-null", "x")
    with pytest.raises(ResourceError):
        packages.unpacked(package, opened, cache)


def test_what_a_killed_run_has_unpacked_of_a_package_is_replaced(tmp_path: Path) -> None:
    """Nothing of it is left beside the whole package."""
    package = packages.Package(packages.Version("2.0.0"), str(packed(tmp_path, "2.0.0")))
    cache = tmp_path / "cache"
    directory = cache / packages.unpacked(package, opened, str(cache))
    directory.rename(cache / "new")  # as if it had been killed before the end
    (cache / "new/terraform-provider-null").write_bytes(b"")
    assert packages.package_hash(packages.unpacked(package, opened, str(cache))) == KNOWN
    assert list(cache.iterdir()) == [directory]


def test_a_package_has_exactly_one_program(tmp_path: Path) -> None:
    """With or without its version in the name; ``null-x`` is another provider's."""
    (tmp_path / "terraform-provider-null-x").touch()
    with pytest.raises(ResourceError, match="has no program terraform-provider-null"):
        packages.executable(str(tmp_path), "null")
    (tmp_path / "terraform-provider-null_v2.0.0_x5").touch()
    assert packages.executable(str(tmp_path), "null").endswith("_x5")
    (tmp_path / "terraform-provider-null").touch()
    with pytest.raises(ResourceError, match="has 2 programs"):
        packages.executable(str(tmp_path), "null")


@pytest.mark.parametrize(
    ("text", "better"),
    [("~> 2.0", "'~=2.0'"), ("~> 2.0.1, != 2.0.3", "'~=2.0.1, != 2.0.3'"), ("= 2.1", "'==2.1'"), ("new", "'>=1.2'")],
)
def test_a_range_in_the_form_of_terraform_gets_a_hint(text: str, better: str) -> None:
    """The hint is a range that can be copied."""
    with pytest.raises(ValueError, match="is not a range of versions") as raised:
        packages.version_range(text)
    assert better in str(raised.value)


def test_a_lock_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    """And one of Terraform itself, with constraints and other hashes."""
    providers = {
        NULL: LockedProvider("2.1.2", ["h1:a=", "h1:b="]),
        ProviderAddress("a", "b", "c.d"): LockedProvider("1"),
    }
    (tmp_path / "lock").write_text(packages.lock_text(providers))
    assert packages.read_lock(str(tmp_path / "lock")) == {
        key: value._replace(hashes=list(value.hashes)) for key, value in providers.items()
    }
    (tmp_path / "lock").write_text(
        '# maintained automatically by "terraform init".\nprovider "registry.terraform.io/hashicorp/null" {\n'
        '  version     = "3.2.1"\n  constraints = "~> 3.0"\n  hashes = ["h1:x=", "zh:00"]\n}\n'
    )
    assert packages.read_lock(str(tmp_path / "lock")) == {NULL: LockedProvider("3.2.1", ["h1:x=", "zh:00"])}
    assert packages.read_lock(str(tmp_path / "missing")) is None


@pytest.mark.parametrize(
    "text",
    [
        "provider {",
        'provider "x/y" {\n}',
        "\0",
        *(f'provider "x/y" {{\n version = {version}\n hashes = []\n}}' for version in ("1", '"abc"')),
        *(f'provider "x/y" {{\n version = "1.0"\n hashes = {hashes}\n}}' for hashes in ("[1]", "[" * 10_000)),
    ],
)
def test_a_damaged_lock_file_is_an_error(tmp_path: Path, text: str) -> None:
    """It names the file."""
    (tmp_path / "lock").write_text(text)
    with pytest.raises(ValueError, match="lock cannot be read"):
        packages.read_lock(str(tmp_path / "lock"))


def test_hcl_is_read_with_its_comments_and_values() -> None:
    """Literals of every kind, labels, nested blocks."""
    text = """
    // one
    a "b" "c" { # two
      d = [true, null, -1.5, { e = "x\\n", "f": [] }] /* three
      */ g {}
    }
    """
    (block,) = parse_hcl(text).blocks
    assert (block.type, list(block.labels)) == ("a", ["b", "c"])
    assert block.attributes == {"d": [True, None, -1.5, {"e": "x\n", "f": []}]}
    assert [inner.type for inner in block.blocks] == ["g"]
    with pytest.raises(ValueError, match="line 2: } is not expected"):
        parse_hcl("a = 1\n}")


def test_mirrors_are_the_ones_of_the_tools(tmp_path: Path) -> None:
    """Beside the manifest, the cache of plug-ins, then the default ones, or those that the configuration names."""
    environment = {"HOME": str(tmp_path), "TF_PLUGIN_CACHE_DIR": "/cache"}
    paths = [mirror.path for mirror in mirrors("/site", environment)]
    assert paths[:4] == [
        "/site/.terraform/providers",
        "/site/terraform.d/plugins",
        "/cache",
        f"{tmp_path}/.terraform.d/plugins",
    ]
    assert paths[-1] == "/usr/share/terraform/plugins"
    (tmp_path / ".terraformrc").write_text(
        'plugin_cache_dir = "$HOME/cache"\nprovider_installation {\n  filesystem_mirror {\n    path = "/mirror"\n'
        '    include = ["hashicorp/*"]\n  }\n  direct { exclude = ["*/*"] }\n}\n'
    )
    found = list(mirrors("/site", {"HOME": str(tmp_path)}))
    assert found[2:] == [Mirror(f"{tmp_path}/cache"), Mirror("/mirror", ["hashicorp/*"], [])]
    assert found[3].serves(NULL)
    assert not found[3].serves(ProviderAddress("other", "null"))
    assert not Mirror("/m", ["registry.terraform.io/*/*"]).serves(ProviderAddress("a", "b", "c.d"))
    assert Mirror("/m", ["registry.terraform.io/*/*"]).serves(NULL)
    assert not Mirror("/m", [], ["hashicorp/null"]).serves(NULL)
    (tmp_path / ".tofurc").write_text("}")
    with pytest.raises(ValueError, match=r"\.tofurc: line 1"):
        list(mirrors("/site", {"HOME": str(tmp_path)}))


@pytest.mark.parametrize("pattern", ['"aws"', "3", '"a/b/c/d"'])
def test_a_mirror_has_patterns_of_two_or_three_parts(tmp_path: Path, pattern: str) -> None:
    """As Terraform demands; the message shows the form."""
    mirror = f'filesystem_mirror {{\n path = "/mirror"\n exclude = [{pattern}]\n }}'
    (tmp_path / ".terraformrc").write_text(f"provider_installation {{\n {mirror}\n}}\n")
    with pytest.raises(ValueError, match="'NAMESPACE/NAME' or 'HOST/NAMESPACE/NAME', not "):
        list(mirrors("/site", {"HOME": str(tmp_path)}))


def test_a_variable_in_a_path_is_the_longest_name(tmp_path: Path) -> None:
    """A variable whose name begins with another one's is not taken for it; an unknown one stays."""
    (tmp_path / ".terraformrc").write_text('plugin_cache_dir = "$HOME_OF_CACHE/${HOME}/$NONE"')
    environment = {"HOME": str(tmp_path), "HOME_OF_CACHE": "/cache"}
    assert list(mirrors("/site", environment))[2] == Mirror(f"/cache/{tmp_path}/$NONE")


def test_a_lock_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path) -> None:
    """In words, without the number of the error."""
    (tmp_path / "lock").mkdir()
    with pytest.raises(ValueError, match=r"/lock cannot be read: Is a directory\Z"):
        packages.read_lock(str(tmp_path / "lock"))
