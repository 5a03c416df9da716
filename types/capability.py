"""Capabilities of programs."""

from lib.path_attribute import file_and_directories, path_attribute
from resource_api import Attribute, TypeDefinition

CLAUSE = r"[A-Za-z0-9_,]+[=+][eip]{1,3}"

TYPE = TypeDefinition(
    name="capability",
    docs="""Manage the capabilities of a program: single rights of root for its processes.

    Capability[/srv/app/bin/web]: {capability: cap_net_bind_service=ep}

    Capability[/usr/local/bin/capture]:
      capability: cap_net_raw,cap_net_admin=ep
      require: Package[capture]
    Package[capture]: {ensure: present}

    Capability[/usr/bin/ping]: {ensure: absent}

Declare all capabilities as for setcap(8): names, `=`, and the letters `e` (effective), `i` (inheritable) and `p`
(permitted), see capabilities(7). `+` is read as `=`.

The program must exist. A change of its content or owner, also by a package, removes its capabilities; the next run
restores them.

The program must belong to root and have no other hard link, and no other user may be able to write to it or to a
directory above it. Otherwise the resource fails, because that user would get the capabilities.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether it has capabilities.", default="present"),
        "path": path_attribute("The program."),
        "capability": Attribute(
            rf"Pattern[/\A{CLAUSE}( {CLAUSE})*\z/]",
            "The capabilities in any order; clauses separated by blanks.",
            must_be="capabilities such as 'cap_net_raw,cap_net_admin=ep'",
        ),
        "root": Attribute(
            "Optional[Integer]",
            "For capabilities that apply only in user namespaces: the user who is root there.",
            kind="read_only",
        ),
    },
    autorequires={"file": file_and_directories, "file_tree": "$path", "archive": "$path"},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
