"""Conditions of ``when``: every test holds or fails, with the reason; mistakes have a place and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from resource_api.manifest import conditions
from resource_api.manifest.conditions import ConditionError
from resource_api.model.values.expression import EvaluationError, ExpressionPath, follow_keys
from resource_api.model.values.values import UNKNOWN, Sensitive

SCOPES: dict[str, Any] = {
    "inputs": {
        "web": True,
        "off": False,
        "role": "web",
        "count": 3,
        "ratio": 0.5,
        "none": None,
        "conf": {"tls": {"port": 443}, "list": ["a", "b"]},
        "password": Sensitive("secret"),
        "account": {"name": "a", "token": Sensitive("secret")},
        "later": UNKNOWN,
    },
    "values": {"name": "x"},
    "facts": {"os": {"family": "Debian", "release": {"full": "12.4", "major": "12"}}, "processors": {"count": 4}},
    "host": {"name": "web1"},
    "stacks": {"base": {"size": 2}},
    "each": {"key": "alice", "value": {"admin": True}, "index": 0},
}


def resolve(path: ExpressionPath) -> Any:
    """Return the value of a path in ``SCOPES``, as a manifest's scope does."""
    values, keys = SCOPES[str(path.root)], path.keys
    if keys[0] not in values:
        raise (EvaluationError if path.root == "stacks" else ValueError)(f"{path}: unknown '{keys[0]}'")
    return follow_keys(values[keys[0]], path, keys[1:])


def reason(when: Any) -> str:
    """Return the reason that a condition does not hold."""
    return conditions.parse(when).judge(resolve)


@pytest.mark.parametrize(
    "when",
    [
        True,
        "${inputs.web}",
        {"inputs.web": True},
        {"facts.os.family": "Debian", "inputs.role": "web"},
        {"facts.os.family": ["Debian", "Ubuntu"]},
        {"facts.os.family": {"not": "RedHat"}},
        {"facts.os.family": {"not": ["RedHat", "Suse"]}},
        {"host.name": {"matches": "/^web[0-9]$/"}},
        {"facts.os.release.full": {"ge": "12"}},
        {"facts.os.release.full": {"ge": "12.4", "lt": "12.10"}},
        {"facts.os.release.major": {"le": "12.0"}},
        {"facts.os.release.full": {"lt": "9" * 5000, "ge": "012.04.0"}},
        {"facts.processors.count": {"gt": 3.5}},
        {"facts.nope.deep": {"exists": False}},
        {"inputs.conf.tls": {"exists": True}},
        {"inputs.conf.nope.deep": {"exists": False}},
        {"inputs.conf.tls.port": {"exists": True, "ge": 400}},
        {"inputs.conf.list[-1]": "b"},
        {"inputs.conf['tls'].port": 443},
        {"inputs.none": {"exists": False}},
        {"inputs.none": None},
        {"stacks.base.outputs.size": 2},
        {"stacks.nope.outputs.size": {"exists": False}},
        {"each.key": "alice", "each.index": 0, "each.value.admin": True},
        {"any": [{"inputs.role": "db"}, {"inputs.role": "web"}]},
        {"not": {"facts.os.family": "RedHat"}},
        {"not": {"facts.nope": "x"}},
        {"inputs.role": {"not": {"matches": "/db/"}}},
        {"inputs.account.name": "a"},
    ],
    ids=str,
)
def test_a_condition_holds(when: Any) -> None:
    """The reason is empty."""
    assert reason(when) == ""


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (False, "when is false"),
        ("${inputs.off}", "${inputs.off} is false"),
        ({"inputs.web": False}, "inputs.web is true, not false"),
        ({"facts.os.family": "RedHat"}, "facts.os.family is Debian, not RedHat"),
        ({"facts.os.family": ["RedHat", "Suse"]}, "facts.os.family is Debian, none of RedHat, Suse"),
        ({"facts.os.family": {"not": "Debian"}}, "facts.os.family is Debian"),
        ({"host.name": {"matches": "/db/"}}, "host.name is web1, without a match of /db/"),
        ({"facts.os.release.full": {"ge": "12.10"}}, "facts.os.release.full is 12.4, not at least 12.10"),
        ({"facts.processors.count": {"lt": 4}}, "facts.processors.count is 4, not less than 4"),
        ({"facts.nope": "x"}, "facts.nope does not exist"),
        ({"facts.nope": {"not": "x"}}, "facts.nope does not exist"),
        ({"facts.os.nope": {"ge": 3}}, "facts.os.nope does not exist"),
        ({"stacks.base.outputs.nope": 1}, "stacks.base.outputs.nope does not exist"),
        ({"inputs.web": {"exists": False}}, "inputs.web exists"),
        ({"inputs.none": {"exists": True}}, "inputs.none does not exist"),
        ({"inputs.conf.nope": {"exists": True, "ge": 3}}, "inputs.conf.nope does not exist"),
        ({"inputs.conf.list": "a"}, "inputs.conf.list is [a, b], not a"),
        ({"inputs.count": True}, "inputs.count is 3, not true"),
        ({"any": [{"inputs.role": "db"}, False]}, "inputs.role is web, not db; when is false"),
        ({"not": {"inputs.role": "web"}}, "the condition under not holds"),
        ({"inputs.web": True, "inputs.role": "db"}, "inputs.role is web, not db"),
    ],
    ids=str,
)
def test_a_condition_fails_for_this_reason(when: Any, expected: str) -> None:
    """The reason names the path and the value."""
    assert reason(when) == expected


@pytest.mark.parametrize(
    ("when", "message", "path"),
    [
        ("Debian", "a condition must be true, false, a reference or a mapping; this is a text", ()),
        ([], "a condition must be true, false, a reference or a mapping; this is a list", ()),
        ({}, "a condition must be true, false, a reference or a mapping; it is empty", ()),
        ("a ${inputs.web}", "a condition in text must be one reference alone", ()),
        ("${File[/x].mode}", "a condition cannot depend on a resource, such as File[/x]: it is judged", ()),
        ("${inputs.role}", "${inputs.role} must be true or false, and it is web", ()),
        ({"os.family": "x"}, "os.family is no path of a condition", ("os.family",)),
        ({"File[/x].mode": "0644"}, "a condition cannot depend on a resource", ("File[/x].mode",)),
        ({"${inputs.web}": True}, "a path in a condition is written without ${ and }", ("${inputs.web}",)),
        ({"inputs.nope": {"exists": True}}, "${inputs.nope}: unknown 'nope'", ("inputs.nope",)),
        ({"inputs.conf.nope": 1}, "${inputs.conf.nope}: there is no 'nope'", ("inputs.conf.nope",)),
        ({"host.nope": 1}, "${host.nope}: unknown 'nope'", ("host.nope",)),
        ({"each.value.nope": 1}, "${each.value.nope}: there is no 'nope'", ("each.value.nope",)),
        ({"each.nope": 1}, "each has key, value, index", ("each.nope",)),
        ({"inputs.password": "x"}, "inputs.password is a secret", ("inputs.password",)),
        ({"inputs.account": {"exists": True}}, "inputs.account is a secret", ("inputs.account",)),
        ({"inputs.later": 1}, "inputs.later is not known before anything is read", ("inputs.later",)),
        ({"facts.os.release.major": 12}, "the value is the text 12, and 12 is a number", ("facts.os.release.major",)),
        ({"facts.os.release.full": {"ge": 12.1}}, "the value is the text 12.4, and 12.1", ("facts.os.release.full",)),
        ({"inputs.count": "3"}, "the value is the number 3, and 3 is a text", ("inputs.count",)),
        ({"inputs.role": {"ge": "1"}}, "inputs.role is web, and only numbers", ("inputs.role",)),
        ({"inputs.count": {"matches": "/x/"}}, "inputs.count is no text", ("inputs.count",)),
        ({"inputs.role": {"matches": "web"}}, "matches must be a regular expression", ("inputs.role", "matches")),
        ({"inputs.role": {"matches": "/(/"}}, "this is no regular expression", ("inputs.role", "matches")),
        ({"inputs.role": {"is": "web"}}, "unknown key 'is'", ("inputs.role", "is")),
        ({"inputs.role": {"ge": "web"}}, "ge must be a number", ("inputs.role", "ge")),
        ({"inputs.role": {"exists": "yes"}}, "exists must be true or false", ("inputs.role", "exists")),
        ({"inputs.role": []}, "a list of values is empty", ("inputs.role",)),
        ({"inputs.role": {}}, "a test is empty", ("inputs.role",)),
        ({"inputs.role": [["a"]]}, "a value in a test must be a text, a number", ("inputs.role", 0)),
        ({"inputs.role": "${inputs.web}"}, "a value in a test cannot hold ${...}", ("inputs.role",)),
        ({"any": {"inputs.web": True}}, "any must be a list of conditions", ("any",)),
        ({"any": [{"inputs.nope": True}]}, "${inputs.nope}: unknown 'nope'", ("any", 0, "inputs.nope")),
        ({"not": {"not": "x"}}, "a condition must be true, false", ("not", "not")),
    ],
    ids=str,
)
def test_a_wrong_condition_is_refused_at_its_place(when: Any, message: str, path: tuple[str | int, ...]) -> None:
    """The error leads to the cause within the condition."""
    with pytest.raises(ConditionError) as refused:
        reason(when)
    assert str(refused.value).startswith(message)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("stacks.base.size", "write stacks.NAME.outputs.x"),
        ("imputs.web", "did you mean 'inputs'?"),
        ("inputs", "a path begins with inputs, values, facts, host, each, stacks, as in facts.os.family"),
    ],
)
def test_a_wrong_path_is_explained(path: str, hint: str) -> None:
    """By the form of a stack's output, the nearest scope, or all scopes."""
    with pytest.raises(ConditionError) as refused:
        reason({path: 1})
    assert refused.value.hint == hint
