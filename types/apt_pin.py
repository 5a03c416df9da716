"""Priorities by which apt chooses among versions."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="apt_pin",
    docs="""Manage the priorities by which apt chooses among the versions of packages, each in a file of its own.

    Apt_pin[backports]:
      packages: [git, "src:linux"]
      pin: release n=bookworm-backports
      priority: 700

The title is the name of the file in /etc/apt/preferences.d, without `.pref`. Comments, explanations and other fields of
the file stay. A file with more than one record is neither read nor changed. Before a file is written, apt checks all
files; a priority that it complains about is an error.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w-][\w.-]*\z/]",
            "The name of the file.",
            kind="namevar",
            must_be="the name of a file, of letters, digits, '_', '-' and '.'",
        ),
        "packages": Attribute(
            r"Array[Pattern[/\A[^\s[:cntrl:]#]+\z/], 1]",
            "Names of packages, patterns such as `linux-*`, regular expressions such as `/^gnome/`, source"
            " packages such as `src:linux`; `*` for all.",
            must_be="a name or pattern without blanks",
        ),
        "pin": Attribute(
            r"Pattern[/\A(version|origin|release) [^[:cntrl:]]*[^\s[:cntrl:]]\z/]",
            'The versions: `version 5.10*`, `origin deb.example.org`, `origin ""` for packages installed without a'
            " repository, `release n=bookworm, l=Debian` (`a` suite, `n` codename, `v` version, `c` component, `o`"
            " origin, `l` label).",
            must_be="a text that begins with 'version', 'origin' or 'release'",
        ),
        "priority": Attribute(
            "Variant[Integer[-32768, -1], Integer[1, 32767]]",
            "Below 0: never; 100: only if no other version is installed; 500: the default; 990: before the target"
            " release; above 1000: also a downgrade. apt does not accept 0.",
        ),
        "explanation": Attribute(
            r"Optional[Pattern[/\A([^\s[:cntrl:]]([^[:cntrl:]]*[^\s[:cntrl:]])?)?\z/]]",
            "A comment; an empty text removes it.",
            must_be="a text on one line",
        ),
    },
    autorequires={"package": "apt"},
    autobefore={"package": "$packages"},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter"},
)
