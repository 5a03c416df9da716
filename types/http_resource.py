"""Resources of services with a JSON API over HTTP."""

from resource_api import Attribute, TypeDefinition

#: A path of the service, after the method for a request that changes something.
PATH = r"Pattern[/\A\/[!-~]*\z/]"
REQUEST = r"Pattern[/\A(POST|PUT|PATCH|DELETE) \/[!-~]*\z/]"

TYPE = TypeDefinition(
    name="http_resource",
    docs="""Manage what a service has behind a JSON API over HTTP, declared by the paths of the API.

    providers:
      http_resource:
        config: {url: "https://inventory.example.org/api", path: /hosts}
    resources:
      Http_resource[web-1]:
        body: {address: 192.0.2.1, role: web}

Its configured provider describes one kind of object of the service; `token: ${inputs.token}` proves who asks.
With no more than `path`, objects are listed by `GET /hosts`, created by `POST /hosts`, changed by `PATCH /hosts/ID` and
deleted by `DELETE /hosts/ID`; `name` is the field with the title of the resource, and `id` the field that is in the
paths. Every other form has an attribute in the configuration. In paths, `{name}` and `{id}` are replaced.

Only the fields in `body` are compared and sent; within a field that is a mapping, only the keys that are declared.
`PUT` sends the whole object with these changes. A change that needs another object, such as of a field that cannot be
changed, is an error of the service. What is in `secrets` is sent too, but never read: it is sent again when it changes.

An answer 404 or 410 to the reading of one object means that it does not exist; any other error is a failure. After 429,
502, 503, 504 and broken connections a request that may be repeated is, up to `retries` times, later each time or when
the service says. Redirects are not followed, as the token would be sent to another place.
""",
    config={
        "url": Attribute(
            r"Pattern[/\Ahttps?:\/\/[^\s\/@?#]+(\/[^\s@?#]*)?\z/]",
            "The address of the API, without user and password.",
            must_be="a URL of https or http without user, password and query",
        ),
        "path": Attribute(PATH, "The path of the objects.", must_be="an absolute path"),
        "name": Attribute("String[1]", "The field that has the title.", default="name"),
        "id": Attribute(
            "String[1]", "The field for `{id}`; `name` if the paths have no other identifier.", default="id"
        ),
        "list": Attribute(f"Optional[{PATH}]", "The path of the list, `PATH` by default.", must_be="an absolute path"),
        "items": Attribute("Optional[String[1]]", "The field of the answer that is the list; else the answer is it."),
        "next": Attribute(
            "Optional[String[1]]",
            "The field of the answer with the path or URL of the next page; without it, the header `Link` (RFC 8288).",
        ),
        "read": Attribute(
            f"Optional[{PATH}]",
            "The path of one object. By `{name}`, no list is needed; by `{id}`, it is read after the list, for lists"
            " that are not complete.",
            must_be="an absolute path",
        ),
        "create": Attribute(
            f"Optional[{REQUEST}]", "`POST PATH` by default.", must_be="a method and a path as 'POST /hosts'"
        ),
        "update": Attribute(
            f"Optional[{REQUEST}]", "`PATCH PATH/{id}` by default.", must_be="a method and a path as 'PUT /hosts/{id}'"
        ),
        "delete": Attribute(
            f"Optional[{REQUEST}]",
            "`DELETE PATH/{id}` by default.",
            must_be="a method and a path as 'DELETE /hosts/{id}'",
        ),
        "token": Attribute("Optional[Sensitive[String[1]]]", "What proves who asks."),
        "token_header": Attribute(
            r"Pattern[/\A[\w-]+: ?([\w-]+ )?\z/]",
            "The header with the token, and what is before the token.",
            default="Authorization: Bearer ",
            must_be="a header as 'X-Api-Key: '",
        ),
        "headers": Attribute(r"Hash[Pattern[/\A[\w-]+\z/], Pattern[/\A[ -~]*\z/]]", "Further headers.", default={}),
        "ca_file": Attribute(
            r"Optional[Pattern[/\A\/[^\x00]+\z/]]",
            "The authorities that may sign the service's certificate.",
            must_be="an absolute path",
        ),
        "timeout": Attribute("Variant[Integer[1], Float[0.1]]", "Seconds for one request.", default=30),
        "retries": Attribute("Integer[0, 20]", "How often a request is repeated.", default=3),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the object exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[^[:cntrl:]]+\z/]", "Its name.", kind="namevar", must_be="a name on one line"),
        "body": Attribute("Hash[String, Data]", "The fields of the object, without its name.", default={}),
        "secrets": Attribute(
            "Optional[Hash[String, Sensitive[String]]]", "Further fields, which are not read.", write_only=True
        ),
        "id": Attribute("Optional[String]", "Its identifier.", kind="read_only", stable=True),
    },
    features={"custom_insync", "parallel", "simple_get_filter", "validate"},
)
