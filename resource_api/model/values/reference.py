"""Names of resources: ``File[/etc/motd]`` within a catalog, a URN across stacks.

A resource within components is named from the outermost inwards: ``Web_site[blog]/File[conf]``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from resource_api.model.values.errors import suggestion
from resource_api.model.values.start_up import NamedTuple, regex

#: How many components may be around a resource; more come from a damaged document only.
MAX_COMPONENTS: Final = 100
TYPE_NAME: Final = regex(r"[a-z][a-z0-9_]*\Z")
#: The type name under which configured providers are recorded: ``Provider[vm_host@lab]``.
PROVIDER_TYPE: Final = "provider"
STACK_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_STEP: Final = regex(r"\]/(?=([A-Z][a-z0-9_]*)\[)")
#: References as Terraform and Puppet write them: ``aws_instance.web``, ``package { 'vim':``.
_ADDRESS: Final = regex(
    r"([a-z][a-z0-9]*_[a-z0-9_]*(?=\.)|[A-Za-z][a-z0-9_]*(?=\s*\{))"
    r"(?:\.([\w-]+)|\s*\{\s*['\"]?([^'\":{}]+)['\"]?\s*:?)\Z"
)
#: The value of a resource's attribute.
_VALUE: Final = regex(r"\$\{([A-Za-z]\w*\[.*\])\.[a-z_]\w*\}\Z")
_COLLECTOR: Final = regex(r".*?(<<?\|)")
_SIGNS: Final = regex(r"@{1,2}")
_QUALIFIED: Final = regex(r"[a-z][a-z0-9_]*(\$[a-z][a-z0-9_]*)*\Z")


class Reference(NamedTuple):
    """A resource's type (the name of its file) and its title.

    It is its text, cut at the first ``[`` and the last ``]``; within components, ``type`` is the outermost component's.
    """

    type: str
    title: str

    def __str__(self) -> str:
        """Return ``Type[title]``, the type with its first letter in upper case."""
        return f"{capitalize_type(self.type)}[{self.title}]"


def type_name_problem(name: object) -> str:
    """Return the reason why a type or component cannot have a name, or an empty text."""
    if not isinstance(name, str) or not TYPE_NAME.match(name):
        return f"the name {name!r} must be lower case letters, digits and underscores"
    return f"the name '{name}' is reserved for the records of configured providers" if name == PROVIDER_TYPE else ""


def instance_name(type_name: str, provider: str | None) -> str:
    """Return the identity of a configured provider, ``vm_host@lab``; of a type's default provider, the type's name."""
    return type_name if provider is None or provider == type_name else f"{type_name}@{provider}"


@lru_cache
def split_instance(instance: str) -> tuple[str, str | None]:
    """Return the names of the type and of the provider, None for the default provider."""
    type_name, _, provider = instance.partition("@")
    return type_name, provider or None


@lru_cache
def capitalize_type(type_name: str) -> str:
    """Return a type's name as in references: ``ssh_authorized_key`` → ``Ssh_authorized_key``."""
    return type_name[:1].upper() + type_name[1:]


def uncapitalize_type(written: str) -> str:
    """Return the name of a type from its form in references: ``Ssh_authorized_key`` → ``ssh_authorized_key``."""
    return written[:1].lower() + written[1:]


def parse(text: str) -> Reference:
    """Parse ``Type[title]``, from the first ``[`` to the last ``]``; the first letter may be in either case.

    A title may contain brackets itself. Raises ``ValueError`` with a sentence for the user.
    """
    head, bracket, title = text.partition("[")
    if not bracket or title[-1:] != "]":
        raise ValueError(f"'{text}' is not a reference; {_advice(text)}")
    title = title[:-1]
    name = _type_name(head)
    if not title:
        raise ValueError(f"'{text}' has an empty title")
    if len(title) > 1 and title[0] == title[-1] and title[0] in "'\"":
        raise ValueError(f"quotes are no part of a title; write {head}[{title[1:-1]}]")
    return Reference(name, title)


def _advice(text: str) -> str:
    """Return advice on a text that is no reference: for a word or form of another tool, or ``write Type[title]``."""
    if advice := suggestion(text, (), "module"):
        return advice
    if collector := _COLLECTOR.match(text):
        return suggestion(collector[1], (), "type")
    if value := _VALUE.match(text):
        return f"write the resource itself, {value[1]}"
    address = _ADDRESS.match(text)
    return f"write {capitalize_type(address[1])}[{address[2] or address[3]}]" if address else "write Type[title]"


@lru_cache
def _type_name(head: str) -> str:
    """Return the type of a reference; cached, as 10,000 references name a few types. Raise ``ValueError``."""
    name = uncapitalize_type(head)
    if not TYPE_NAME.match(name):
        signs = _SIGNS.match(head)  # Puppet's ``@user`` and ``@@user``
        word = signs[0] if signs else "::" if "::" in head else head
        advice = suggestion(head, (), "type") or suggestion(word, (), "type")
        raise ValueError(f"'{head}' is not the name of a type" + (f"; {advice}" if advice else ""))
    return name


def with_path(reason: str, title: str, name: object) -> str:
    """Return the reason of a failure with the path of its resource before it, unless the title or the text has that."""
    led = isinstance(name, str) and name[:1] == "/" and name not in title and name not in reason
    return f"{name}: {reason}" if led else reason


def child_reference(parent: str, type_name: str, title: str) -> Reference:
    """Return the full reference of a resource within the component ``parent`` (empty: none): ``Site[a]/File[b]``.

    A reference is its text, cut at the first bracket: this one has the type ``site`` and the title ``a]/File[b``, so
    that names within components need no class of their own.
    """
    own_reference = Reference(type_name, title)
    if not parent:
        return own_reference
    head, _, rest = f"{parent}/{own_reference}".partition("[")
    return Reference(uncapitalize_type(head), rest[:-1])


def component_chain(parent: str) -> list[Reference]:
    """Return each component in ``Site[a]/Web_site[b]`` by its own name, the outermost first. Raise ``ValueError``."""
    if parent.count("]/") >= MAX_COMPONENTS:
        raise ValueError(f"components are nested deeper than {MAX_COMPONENTS}")
    # The title of a component has neither ``]`` nor a line break, see ``title_problem``.
    return [parse(text) for text in parent.replace("]/", "]\n").split("\n")] if parent else []


def parse_name(text: str) -> Reference:
    """Parse a resource's name as users write it: a reference or a URN. Raises ``ValueError``."""
    return parse_urn(text).reference if text.startswith("urn:") else parse(text)


def parse_alias(text: str, parent: str, type_name: str) -> Reference:
    """Parse a resource's former name: a title, a reference or a URN. Raises ``ValueError``."""
    return parse_name(text) if "[" in text or text.startswith("urn:") else child_reference(parent, type_name, text)


def split_component(name: Reference, type_name: str) -> tuple[str, Reference]:
    """Split a full name, ``Site[a]/File[b]``, into its component and the resource's own name, of type ``type_name``.

    The type is needed to find the boundary, because a title may contain ``]/``, too. For a resource outside of all
    components the result is "" and the name itself.
    """
    text = str(name)
    boundary = next((match for match in _STEP.finditer(text) if match[1].lower() == type_name), None)
    if name.type == type_name or boundary is None:
        return "", name
    return text[: boundary.start() + 1], parse(text[boundary.end() :])


def enclosing_components(parent: str) -> list[str]:
    """Return the full references of the component ``parent`` and of each around it, the innermost first.

    Of ``Site[a]/Web[b]`` they are ``Site[a]/Web[b]`` and ``Site[a]``: a resource within is a member of both.
    """
    names = [parent] if parent else []
    while "]/" in (names[-1] if names else ""):
        names.append(names[-1].rpartition("]/")[0] + "]")
    return names


def title_problem(title: str) -> str:
    """Return the reason why a component cannot have this title, or "": ``Site[TITLE]/File[b]`` must remain parsable."""
    if title[:1] in {"'", '"'}:
        return "the title of a component cannot begin with a quote"
    if title[-1:] == ":":
        return "the title of a component cannot end with a colon"
    held = next((text for text in ("]", "::", "\n") if text in title), "")
    return f"the title of a component cannot hold {held!r}" if held else ""


class URN(NamedTuple):
    """A resource's name across stacks.

    ``qualified`` holds the types of its components and its own; ``title`` their titles, joined by ``::``, of which the
    last may contain anything.
    """

    stack: str
    project: str
    qualified: tuple[str, ...]
    title: str

    def __str__(self) -> str:
        """Return ``urn:resource:<stack>::<project>::<qualified type>::<title>``."""
        return f"urn:resource:{self.stack}::{self.project}::{'$'.join(self.qualified)}::{self.title}"

    @property
    def reference(self) -> Reference:
        """The reference within its stack: ``Site[a]/File[b]`` for the types ``site$file`` and the title ``a::b``."""
        *parents, title = self.title.split("::", len(self.qualified) - 1)
        outer = "/".join(map(str, map(Reference, self.qualified, parents)))
        return child_reference(outer, self.qualified[-1], title)


def check_stack(text: str, project: str, stack: str) -> None:
    """Raise ``ValueError`` for a URN of another project or stack, which no resource of this stack can have.

    A name that is no URN belongs to any stack.
    """
    if text.startswith("urn:") and ((urn := parse_urn(text)).project, urn.stack) != (project, stack):
        msg = f"{text} is of project {urn.project}, stack {urn.stack}; this is about project {project}, stack {stack}"
        raise ValueError(msg)


def hashable_name(name: Any) -> Any:
    """Return a resource's name that was read from JSON, where one of several namevars is a list."""
    return tuple(name) if isinstance(name, list) else name


def make_urn(stack: str, project: str, parent: str, reference: Reference) -> URN:
    """Return the URN of the resource ``reference`` within the component ``parent``; empty: within none.

    Within ``Site[a]``, ``File[b]`` has the types ``site`` and ``file``, and the title ``a::b``.
    """
    if not parent:
        return URN(stack, project, (reference.type,), reference.title)
    names = [*component_chain(parent), reference]
    return URN(stack, project, tuple(name.type for name in names), "::".join(name.title for name in names))


def parse_urn(text: str) -> URN:
    """Parse a URN, ``urn:resource:STACK::PROJECT::site$file::a::b``, which has a title for each type.

    Raises ``ValueError`` for any other text.
    """
    scheme, _, rest = text.partition("urn:resource:")
    # Missing parts are empty, and refused below.
    stack, project, qualified, title = [*rest.split("::", 3), "", "", ""][:4]
    types = tuple(qualified.split("$"))
    titles = title.split("::", len(types) - 1)
    complete = len(titles) == len(types) and all(titles)
    # The titles of components must fit into a full reference, see ``title_problem``.
    parsable = not scheme and not any("]" in parent or "\n" in parent for parent in titles[:-1])
    names = STACK_NAME.match(stack) and STACK_NAME.match(project) and _QUALIFIED.match(qualified)
    if not (names and complete and parsable):
        raise ValueError(f"'{text}' is not a URN")
    return URN(stack, project, types, title)
