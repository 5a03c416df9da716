"""Values without the wrapper that hides secrets, to be written or compared, and the readers of a file of secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lib import symbolic_mode
from resource_api import Problem, Sensitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Everybody may read a file of this mode.
READABLE = 0o004
#: The beginning of a URL with a password.
WITH_PASSWORD = re.compile(r"[^:/]+://[^/?#@]*:[^/?#]*@")


def parts(value: Any) -> Iterable[Any]:
    """Return the values of a mapping or list; none of a scalar."""
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def has_secret(value: Any) -> bool:
    """Return whether a value is a secret, or has one in it."""
    return isinstance(value, Sensitive) or any(map(has_secret, parts(value)))


def reveal(value: Any) -> Any:
    """Return a value with all secrets in it unwrapped, for a clear-text destination such as a file."""
    if isinstance(value, Sensitive):
        return reveal(value.reveal())
    if isinstance(value, Mapping):
        return {key: reveal(part) for key, part in value.items()}
    return [reveal(part) for part in value] if isinstance(value, list) else value


def new_mode(*values: Any) -> int:
    """Return the mode of a new file that is made of values, and whose mode is not declared: private for a secret."""
    return 0o600 if any(map(has_secret, values)) else 0o644


def shown_by_mode(mode: Any, secrets: Iterable[str]) -> Iterator[Problem]:
    """Yield a warning if the declared mode of a file with secret attributes lets everybody read it."""
    names = sorted(secrets)
    if not names or not isinstance(mode, str):
        return
    # A symbolic mode, such as ``o+r``, changes that of a new private file.
    number = int(mode, 8) if mode[0].isdigit() else symbolic_mode.apply(mode, 0o600, directory=False)
    if number & READABLE:
        words = f"{names[0]} is secret" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are secret"
        yield Problem("mode", f"mode {mode} lets everybody read the file, and {words}", "warning")


def refused_secrets(should: Mapping[str, Any], *allowed: str, advice: str = "") -> Iterator[Problem]:
    """Yield a problem for each secret attribute but the ``allowed`` ones: other users could see it, as an argument."""
    for name, value in should.items():
        # Nearly all values are texts; every plan checks them.
        if not isinstance(value, str) and name not in allowed and has_secret(value):
            yield Problem(name, f"'{name}' is a secret, which other users could see{advice}")


def exposed_password(attribute: str, url: Any, advice: str) -> Iterator[Problem]:
    """Yield a problem for a password in a URL that is an argument of a program."""
    if isinstance(url, str) and WITH_PASSWORD.match(url):
        yield Problem(attribute, f"a password in a URL can be seen by others; {advice}")


def secret_attributes(should: Mapping[str, Any], *names: str) -> list[str]:
    """Return which of some attributes have a secret in them."""
    return [name for name in names if has_secret(should.get(name))]
