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
the file stay as they are. A file with more than one record is neither read nor changed. apt reads all files as they
will be before one is written; a priority that makes it complain is a failure.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the priority counts.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w-][\w.-]*\z/]",
            "The name of the file in /etc/apt/preferences.d, without `.pref`.",
            kind="namevar",
            must_be="the name of a file, of letters, digits, '_', '-' and '.'",
        ),
        "packages": Attribute(
            r"Array[Pattern[/\A[^\s[:cntrl:]#]+\z/], 1]",
            "Names of packages, patterns such as `linux-*`, regular expressions such as `/^gnome/`, `src:` and the name"
            " of a source package; `*` for all.",
            must_be="a name or pattern without blanks",
        ),
        "pin": Attribute(
            r"Pattern[/\A(version|origin|release) [^[:cntrl:]]*[^\s[:cntrl:]]\z/]",
            'The versions that get the priority: `version 5.10*`, `origin deb.example.org`, `origin ""` for what was'
            " installed without a repository,"
            " `release n=bookworm, l=Debian` with `a` for the suite, `n` codename, `v` version,"
            " `c` component, `o` origin, `l` label.",
            must_be="a text that begins with 'version', 'origin' or 'release'",
        ),
        "priority": Attribute(
            "Variant[Integer[-32768, -1], Integer[1, 32767]]",
            "The priority: below 0 never, 100 only if no other version is installed, 500 the usual one, 990 before the"
            " target release, above 1000 also an older version. apt does not accept 0.",
        ),
        "explanation": Attribute(
            r"Optional[Pattern[/\A([^\s[:cntrl:]]([^[:cntrl:]]*[^\s[:cntrl:]])?)?\z/]]",
            "Why; an empty text removes it.",
            must_be="a text on one line",
        ),
    },
    autorequires={"package": "apt"},
    autobefore={"package": "$packages"},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter"},
)
