"""Suggestions: the word that is meant, never a wrong or a dangerous one."""

from __future__ import annotations

import click
import pytest

from resource_api import Registry
from resource_api.cli.help import NEVER_SUGGESTED
from resource_api.cli.main import COMMANDS, cli
from resource_api.manifest import metaparameters, sections
from resource_api.model.attribute import METAPARAMETERS
from resource_api.model.values.errors import suggestion
from resource_api.model.values.suggestions import foreign_terms
from resource_api.system.facts import Facts

TERMS = foreign_terms()
ATTRIBUTES = ["content", "cwd", "ensure", "mode", "path", "require"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("contnet", "did you mean 'content'?"),
        ("Ensure", "did you mean 'ensure'?"),
        ("ens", "did you mean 'ensure'?"),
        ("recurse", ""),
        ("cwx", "did you mean 'cwd'?"),
        ("size", ""),
        ("", ""),
        ("é\x00", ""),
    ],
)
def test_only_a_word_that_is_near_is_suggested(word: str, hint: str) -> None:
    """Words of one length with some letters in common are not near."""
    assert suggestion(word, ATTRIBUTES) == hint


@pytest.mark.parametrize(
    ("reference", "suggested"),
    [
        ("File[/etc/mtd]", "did you mean 'File[/etc/motd]'?"),
        ("Fil[/etc/motd]", "did you mean 'File[/etc/motd]'?"),
        ("Ssh_authorized_key[bo]", ""),
        ("File", "did you mean 'File[/etc/motd]'?"),
    ],
)
def test_a_reference_is_suggested_only_where_the_titles_are_alike(reference: str, suggested: str) -> None:
    """One type in common makes any two references alike."""
    assert suggestion(reference, ["File[/etc/motd]", "Ssh_authorized_key[alice]"]) == suggested


def test_one_of_many_names_is_suggested() -> None:
    """Of thousands of names only those with the same beginning and end are compared."""
    assert suggestion("File[/srv/flie-77.conf]", [f"File[/srv/file-{n}.conf]" for n in range(5000)]) == (
        "did you mean 'File[/srv/file-77.conf]'?"
    )


def test_a_word_of_another_tool_leads_to_the_word_of_this_place() -> None:
    """The type decides first, then the place; an entry whose word does not exist here is not shown."""
    assert suggestion("state", ["ensure"], "attribute", "file").startswith(
        "did you mean 'ensure'? It is present, file,"
    )
    assert suggestion("STATE", ["ensure"], "attribute", "queue").startswith("did you mean 'ensure'? It is usually")
    assert suggestion("state", ["size"], "attribute", "queue") == ""
    assert suggestion("loop", ["for_each"], "attribute", "queue").startswith("did you mean 'for_each'? It takes")


def _known(path: str, details: str) -> set[str]:
    """Return all words that exist in a place."""
    registry = Registry.from_path()
    commands = {name: command for name in COMMANDS if (command := cli.get_command(click.Context(cli), name))}
    options = {option for item in [cli, *commands.values()] for param in item.params for option in param.opts}
    groups = {name: group.commands for name, group in commands.items() if isinstance(group, click.Group)}
    types = [details] if path in {"attribute", "read_only"} and details else registry.names()
    attributes = {attribute for name in types for attribute in registry.type(name).attributes}
    return {
        "attribute": {*attributes, *METAPARAMETERS},
        "read_only": attributes,
        "section": set(sections.SECTIONS),
        "lifecycle": set(metaparameters._LIFECYCLE),
        "input": set(sections._INPUT_KEYS),
        "type": set(registry.names()),
        "option": options | {"-V", "--version", "--parallel"},
        "command": set(groups.get(details, COMMANDS)),
        "value": {
            *metaparameters.REPLACEMENTS,
            *metaparameters.LOGLEVELS,
            "running",
            "stopped",
            "present",
            "absent",
            "purged",
        }
        | {"latest", "file", "directory", "link"},
        "scope": {"inputs", "values", "facts", "host", "stacks"},
        "fact": set(Facts().names()),
        "boolean": {"true", "false"},
        "provider": set(sections._PROVIDER_KEYS),
    }.get(path, set())


@pytest.mark.parametrize("path", TERMS)
def test_each_word_of_another_tool_leads_to_something_that_exists(path: str) -> None:
    """A renamed attribute, option or command must be renamed in the table; what is not built yet has no entry."""
    kind, _, details = path.partition(" ")
    assert {intended for intended, _ in TERMS[path].values() if intended} <= _known(kind, details)
    assert all(expected or sentence for expected, sentence in TERMS[path].values())


def test_no_dangerous_option_is_in_the_table() -> None:
    """What deletes, replaces or shows a secret is never suggested."""
    assert not {intended for term in TERMS for intended, _ in TERMS[term].values()} & NEVER_SUGGESTED
    texts = " ".join(sentence for path in TERMS for _, sentence in TERMS[path].values())
    assert not any(f"{option} " in f"{texts} " for option in NEVER_SUGGESTED)
