"""Blocks of lines in text files, between two marker lines."""

from lib.line_attributes import line_attributes
from lib.path_attribute import file_and_directories, path_attribute, validate_attribute
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="block_in_file",
    docs="""Manage a block of lines of a text file, between two marker lines; all other lines keep every byte.

    Block_in_file[internal hosts]:
      path: /etc/hosts
      block: |
        192.0.2.10 db.internal
        192.0.2.11 cache.internal

    Block_in_file[/etc/nginx/site.html:banner]:
      marker: "<!-- {mark} {name} -->"
      block: <p>Maintenance on Sunday.</p>
      after: "<body>"

The first block is written between the lines `# BEGIN internal hosts` and `# END internal hosts`, and is found by these
lines. The lines between them are replaced. A block without its last line, or two blocks of one name, are an error, and
nothing is changed.

A new file has mode 0644, or 0600 if a block is a secret. All changes of a file are one replacement, which keeps owner,
mode, ACL, extended attributes, line ends, a missing newline at the end, and bytes that are not UTF-8.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the block.", default="present"),
        "path": path_attribute(),
        "name": Attribute(
            r"Pattern[/\A[^\x00\r\n]*[^\s]\z/]", "The name of the block.", kind="namevar", must_be="a text on one line"
        ),
        "marker": Attribute(
            r"Optional[Pattern[/\A[^\x00\r\n]*\{mark\}[^\x00\r\n]*\z/]]",
            "The marker lines: `{mark}` becomes BEGIN and END, `{name}` the name. A file has each only once.",
            kind="namevar",
            default="# {mark} {name}",
            must_be="a text on one line with {mark}",
        ),
        "block": Attribute(
            r"Pattern[/\A[^\x00]*\z/]",
            "The lines. Line breaks at the end make no difference.",
            must_be="a text without NUL",
        ),
        **line_attributes("the block"),
        "validate_cmd": validate_attribute(),
    },
    title_patterns=[{"pattern": r"(?P<path>/[^:]*):(?P<name>[^\r\n]+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
