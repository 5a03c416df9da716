"""Two small sites: a manifest in Python, because YAML has no loops.

resource-api apply examples/sites.py -i directory=/tmp --noop
"""

from resource_api import ManifestApi

PROJECT = "sites"
INPUTS = {
    "directory": {"type": "String", "docs": "The full path of the directory to write to."},
    "names": {"type": "Array[String[1], 1]", "default": ["blue", "green"], "docs": "The names of the sites."},
}
DEFAULTS = {"File": {"mode": "0644"}}


def manifest(m: ManifestApi) -> None:
    """Declare a directory, a page for each site, and a list of their checksums."""
    top = m.file(f"{m.inputs.directory}/sites", ensure="directory", mode="0755")
    pages = {
        name: m.file(
            f"{m.inputs.directory}/sites/{name}.html",
            content=f"<h1>{name.capitalize()}, on {m.facts.kernel}</h1>\n",
            require=top,
            tag=name,
        )
        for name in m.inputs.names
    }
    lines = "".join(f"{{{number}}}  {name}.html\n" for number, name in enumerate(pages))
    m.file(f"{m.inputs.directory}/sites/SHA256SUMS", content=m.text(lines, *(page.checksum for page in pages.values())))
    m.output("sites", sorted(pages))
