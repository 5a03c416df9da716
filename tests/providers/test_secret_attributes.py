"""An attribute that is a secret by a reference is refused in the manifest, or used, and never an exception."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any, Final

import pytest
import yaml

from resource_api import ManifestError, Runtime
from resource_api.model.report import Diagnosed
from resource_api.system.log import Log
from tests.bundled import types_with_resources
from tests.providers.applied import REGISTRY

#: Indented lines of a documentation, with the blank ones among them.
BLOCK: Final = re.compile(r"(?:^ {4}.*\n|^\n)+", re.MULTILINE)
#: Keys beside attributes in the examples.
METAPARAMETERS: Final = {"require", "before", "notify", "subscribe", "implementation"}
#: A program's arguments, and what all users can read.
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "Package[nginx]": {"install_options": ["-o", "${inputs.s}"]},
    "Mount[/srv/a]": {"device": "//nas/a", "fstype": "cifs", "options": "password=${inputs.s}"},
    "User[alice]": {"comment": "${inputs.s}"},
    "Service[nginx]": {"ensure": "running", "pidfile": "/run/${inputs.s}"},
    "Mysql_user[app@localhost]": {"plugin": "${inputs.s}"},
    "Postgresql_database[app]": {"comment": "${inputs.s}"},
    "File[/srv/a]": {"content": "a", "validate_cmd": "grep ${inputs.s} %"},
    "Git_checkout[/srv/a]": {"source": "https://example.org/a", "username": "${inputs.s}"},
}


def examples(name: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a type in the examples of its documentation."""
    resources: dict[str, Any] = {}
    for block in BLOCK.findall(dedent(REGISTRY.type(name).docs) + "\n"):
        document = yaml.safe_load(dedent(block)) or {}
        resources |= document.get("resources", document)
    return {title: body for title, body in resources.items() if title.startswith(f"{name.capitalize()}[")}


def messages(manifest: dict[str, Any]) -> list[str]:
    """Return the problems, errors and warnings of a plan."""
    warnings: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Diagnosed):
            warnings.append(event.problem.message)

    try:
        plan = Runtime(REGISTRY, log=Log("off"), on_event=listen).plan({"project": "p", **manifest})
    except ManifestError as error:
        return [problem.message for problem in error.problems]
    return [*warnings, *(step.error for step in plan.steps)]


@pytest.mark.parametrize("name", types_with_resources())
def test_no_provider_takes_a_secret_for_a_text(name: str) -> None:
    """Whichever attribute of an example is one: no message is of a wrapper that the provider did not expect."""
    for title, body in examples(name).items():
        for attribute in body.keys() - METAPARAMETERS:
            inputs = {"s": {"type": "Sensitive[Any]", "default": body[attribute]}}
            declared = {**{key: body[key] for key in body.keys() - METAPARAMETERS}, attribute: "${inputs.s}"}
            wrapped = [text for text in messages({"inputs": inputs, "resources": {title: declared}}) if "Sens" in text]
            assert not wrapped, (title, attribute, wrapped)


@pytest.mark.parametrize("title", REFUSED)
def test_a_secret_that_other_users_could_see_is_refused_in_the_manifest(title: str) -> None:
    """Before anything is done."""
    inputs = {"s": {"type": "Sensitive[String]", "default": "swordfish"}}
    with pytest.raises(ManifestError, match="is a secret, which other users could see"):
        Runtime(REGISTRY).validate({"inputs": inputs, "resources": {title: REFUSED[title]}})
