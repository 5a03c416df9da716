"""Locales that are built on this machine."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="locale",
    docs="""Build the locales that programs of this machine can use, and list them in /etc/locale.gen.

    Locale[de_DE.UTF-8]: {}
    Locale[de_DE@euro]: {charset: ISO-8859-15}
    Locale[fr_FR.UTF-8]: {ensure: absent}
    File_line[/etc/default/locale:^LANG=]:
      line: LANG=de_DE.UTF-8
      require: Locale[de_DE.UTF-8]

For Debian and its derivatives, with the package `locales`. Only missing locales are built, each with localedef(1).
`ensure: absent` also removes a locale from the archive; `C`, `C.UTF-8` and `POSIX` always exist.

The last resource of the example sets the default of the system, for new sessions.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the locale is listed and built.", default="present"),
        "name": Attribute(
            r"Pattern[/\A(?!(C|POSIX)(\.|\z))[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)?(@[A-Za-z0-9]+)?\z/]",
            "The locale as in /etc/locale.gen.",
            kind="namevar",
            must_be="a locale such as 'de_DE.UTF-8'",
        ),
        "charset": Attribute(
            r"Optional[Pattern[/\A[A-Za-z0-9][A-Za-z0-9_.+-]*\z/]]",
            "The character set; by default the one in the name.",
            must_be="a character set such as 'UTF-8'",
        ),
        "built": Attribute("Optional[Boolean]", "Whether programs can use it.", kind="read_only"),
    },
    autorequires={"package": "locales", "file": "/etc/locale.gen"},
    verbs={"create": "building"},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
