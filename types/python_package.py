"""Packages of Python in virtual environments."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="python_package",
    docs="""Manage packages of Python in virtual environments, with the pip of the environment.

    Python_package[flask /srv/app/venv]:
      ensure: 3.1.0
      extras: [async]
    Python_package[app /srv/app/venv]:
      source: git+https://git.example.org/app.git@v2
    Python_package[tool /srv/app/venv]:
      source: /srv/tool
      editable: true

The title is the package and the directory of the environment. Adjacent packages of a manifest are installed by one call
of pip for each environment, as the owner of the environment. Installed packages are read from the files of the
environment, without executing them. An interrupted installation is repeated.

The plan shows other packages that pip installs or changes, and packages that a change breaks (`also breaks app`): if
one of them is declared present, the change fails. To keep a set of versions together, give all packages the same
`constraints`.
""",
    attributes={
        "ensure": Attribute(
            r"Variant[Enum[present, absent, latest], Pattern[/\A\d[\w.!+-]*\z/]]",
            "`present`: any version. `latest`: the newest version that pip finds. A version: exactly this one."
            " `absent`: removed.",
            default="present",
            must_be="a version",
        ),
        "name": Attribute(
            r"Pattern[/\A[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?\z/]",
            "The package, in any of its spellings.",
            kind="namevar",
            must_be="a package's name",
        ),
        "virtualenv": Attribute(
            r"Pattern[/\A(?!.*\/\.\.?(\/|\z))(\/[\w.+@,=~-]+)+\z/]",
            "The directory of the environment.",
            kind="namevar",
            must_be="an absolute path of letters, digits, and '.', '_', '-', '+', '@', ',', '=', '~', without '..'",
        ),
        "source": Attribute(
            r"Optional[Pattern[/\A(\/[^[:cntrl:]]+|(https?:\/\/|(git|hg|svn|bzr)\+)[^\s[:cntrl:]]+)\z/]]",
            "The source instead of an index: a directory, an archive, a URL, or an address such as"
            " `git+https://git.example.org/app.git@v2`.",
            must_be="an absolute path, a URL, or an address of version control",
        ),
        "editable": Attribute(
            "Optional[Boolean]", "Whether to use the package from the directory `source`, so that edits take effect."
        ),
        "extras": Attribute(
            r"Optional[Array[Pattern[/\A[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?\z/]]]",
            "Optional parts to install with the package; alone they are no reason for an installation.",
            kind="parameter",
            must_be="the name of an extra",
        ),
        "constraints": Attribute(
            r"Optional[Pattern[/\A(\/[^\/\x00-\x1f\x7f]+)+\z/]]",
            "A file with the versions that pip may choose, also for requirements.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "install_options": Attribute(
            "Optional[Array[String[1]]]",
            "Options for `pip install`, such as `--index-url=https://pypi.example.org/simple` or `--no-deps`.",
            kind="parameter",
        ),
        "version": Attribute("Optional[String]", "The installed version.", kind="read_only"),
        "candidate": Attribute(
            "Optional[String]", "The newest version that pip finds; read only for `latest`.", kind="read_only"
        ),
        "status": Attribute(
            "Optional[String]", "`installed`, or `incomplete` after an interrupted installation.", kind="read_only"
        ),
    },
    title_patterns=[{"pattern": r"(?P<name>\S+) (?P<virtualenv>/[\s\S]+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"python_venv": "$virtualenv", "file": ["$source", "$constraints"]},
    verbs={"create": "installing", "delete": "removing"},
    features={"canonicalize", "custom_insync", "preflight", "side_effects", "simple_get_filter", "validate"},
)
