"""Capabilities of programs."""

from lib.path_attribute import file_and_directories, path_attribute
from resource_api import Attribute, TypeDefinition

CLAUSE = r"[A-Za-z0-9_,]+[=+][eip]{1,3}"

TYPE = TypeDefinition(
    name="capability",
    docs="""Manage the capabilities of a program: single rights of root that its processes have.

    Capability[/srv/app/bin/web]: {capability: cap_net_bind_service=ep}

    Capability[/usr/local/bin/capture]:
      capability: cap_net_raw,cap_net_admin=ep
      require: Package[capture]
    Package[capture]: {ensure: present}

    Capability[/usr/bin/ping]: {ensure: absent}

What is declared is all that the program has, as for setcap(8): names, `=`, and the letters `e` (effective), `i`
(inheritable) and `p` (permitted); capabilities(7) explains them. `+` is read as `=`.

The program must exist. A change of its content or owner takes its capabilities away, also by a package that installs
a new version: the next run gives them again.

A user who can write to a program or put another one in its place would get the capabilities. So it must belong to root,
no other user may be able to write to it, to its directory or to one above, and it must have no other hard link;
otherwise the resource fails.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it has capabilities.", default="present"),
        "path": path_attribute("The program, as an absolute path without `..`."),
        "capability": Attribute(
            rf"Pattern[/\A{CLAUSE}( {CLAUSE})*\z/]",
            "The capabilities in any order; clauses with a blank between them.",
            must_be="capabilities such as 'cap_net_raw,cap_net_admin=ep'",
        ),
        "root": Attribute(
            "Optional[Integer]",
            "The user who is root in the user namespaces that alone give the capabilities; nothing for all.",
            kind="read_only",
        ),
    },
    autorequires={"file": file_and_directories, "file_tree": "$path", "archive": "$path"},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
