"""Resources of services with a JSON API over HTTP."""

from resource_api import Attribute, TypeDefinition

#: A path of the service, after the method for a request that changes something.
PATH = r"Pattern[/\A\/[!-~]*\z/]"
REQUEST = r"Pattern[/\A(POST|PUT|PATCH|DELETE) \/[!-~]*\z/]"
FIELD = "Optional[String[1]]"
PLACE = r"Pattern[/\A([\w*-]+|\['[^']+'\])(\.[\w*-]+|\[(\d+|\*|'[^']+')\])*\z/]"

TYPE = TypeDefinition(
    name="http_resource",
    docs="""Manage the objects of a service behind a JSON API over HTTP, declared by the paths of the API.

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

A path may end in the object's name, `/zones/{zone}`: then it is read, changed and deleted there, and listed and created
at `/zones`. Variables before that are the first parts of the title: for `/orgs/{org}/repos/{repo}` it is `acme/site`.

Only the fields in `body` are compared and sent; within a field that is a mapping, only the keys that are declared, and
so for a list of as many elements. `null` is a field that is empty or missing. What is in `secrets` is sent too, but
never read: it is sent again when it changes. What the service makes, the `id` and the fields in `output` of the
configuration, is in the attribute `output`, for references: `${Http_resource[web-1].output.created_at}`.

`PUT` sends the whole object with the changes, `PATCH` the fields that differ, or a patch in one of two standards. Where
the service gives an object an `ETag`, a change is for exactly the object that was read (`If-Match`); if another client
has changed it meanwhile, it is read and changed once more. A change of a field in `immutable` replaces the object.

An answer 404 or 410 to the reading of one object means that it does not exist; any other error is a failure. After 429,
502, 503, 504 and broken connections a request that may be repeated is, up to `retries` times, later each time or when
the service says. After 202 the job of the service is waited for. Redirects are not followed, as the token would be sent
to another place. An object that the service has accepted and does not show yet is looked for during `settle` seconds.
""",
    config={
        "url": Attribute(
            r"Pattern[/\Ahttps?:\/\/[^\s\/@?#]+(\/[^\s@?#]*)?\z/]",
            "The address of the API, without user and password.",
            must_be="a URL of https or http without user, password and query",
        ),
        "path": Attribute(
            PATH, "The path of the objects, or of one of them by its name: `/zones/{zone}`.", must_be="an absolute path"
        ),
        "name": Attribute("String[1]", "The field that has the title, such as `metadata.name`.", default="name"),
        "id": Attribute(
            "String[1]", "The field for `{id}`; `name` if the paths have no other identifier.", default="id"
        ),
        "list": Attribute(f"Optional[{PATH}]", "The path of the list, `PATH` by default.", must_be="an absolute path"),
        "items": Attribute(FIELD, "The field of the answer that is the list; else the answer is it."),
        "object": Attribute(FIELD, "The field of an answer with one object that has it; else the answer is it."),
        "wrap": Attribute(FIELD, "The field in which an object is sent; else it is the whole request."),
        "next": Attribute(
            FIELD,
            "The field of the answer with the path or URL of the next page, or the value of `cursor`; without it, the"
            " header `Link` (RFC 8288).",
        ),
        "cursor": Attribute(
            FIELD,
            "The parameter of the query for the next page, whose value is in `next`; without `next`, it is the"
            " identifier of the last object.",
        ),
        "page": Attribute(FIELD, "The parameter of the query with the number of the page."),
        "first_page": Attribute("Integer[0]", "The number of the first page.", default=1),
        "offset": Attribute(FIELD, "The parameter of the query with the number of objects before the page."),
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
        "patch": Attribute(
            "Enum[fields, merge, json]",
            "What PATCH sends: the `fields` that differ, each as a whole; a JSON Merge Patch (RFC 7396); or a JSON"
            " Patch (RFC 6902).",
            default="fields",
        ),
        "immutable": Attribute(
            f"Array[{PLACE}]",
            "Fields of `body` whose change needs another object, `region` or `disks[*].type`: the old one is deleted"
            " first.",
            default=[],
            must_be="a field as 'region' or 'disks[*].type'",
        ),
        "output": Attribute(
            "Array[String[1]]",
            "Fields that the service makes, such as `created_at`: they are in the attribute `output`, not in `body`.",
            default=[],
        ),
        "job": Attribute(
            "Struct[{Optional[url] => String[1], Optional[status] => String[1], Optional[done] => Array[String[1]],"
            " Optional[failed] => Array[String[1]], Optional[timeout] => Integer[1]}]",
            "How the service reports on a job that it goes on with: `url`, the field of the answer with its URL (else a"
            " header, after 202); `status`, the field of the job with a word; the words `done` and `failed`; `timeout`"
            " in seconds (600).",
            default={},
        ),
        "settle": Attribute(
            "Optional[Variant[Integer[0, 3600], Float[0.0, 3600.0]]]",
            "Seconds during which the service may not show an accepted change yet, 30 by default.",
        ),
        "token": Attribute("Optional[Sensitive[String[1]]]", "What proves who asks."),
        "token_header": Attribute(
            r"Pattern[/\A[\w-]+: ?([\w-]+ )?\z/]",
            "The header with the token, and the text before the token.",
            default="Authorization: Bearer ",
            must_be="a header as 'X-Api-Key: '",
        ),
        "user": Attribute(
            r"Optional[Pattern[/\A[^:[:cntrl:]]+\z/]]",
            "The user who asks, with `password` (HTTP Basic).",
            must_be="a user's name without a colon",
        ),
        "password": Attribute("Optional[Sensitive[String]]", "The password of `user`."),
        "headers": Attribute(
            r"Hash[Pattern[/\A[\w-]+\z/], Sensitive[Pattern[/\A[ -~]*\z/]]]",
            "Further headers; their values are never shown.",
            default={},
            must_be="a header's name, and a value on one line",
        ),
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
        "body": Attribute("Hash[String, Data]", "The fields of the object, without its name.", default={}, merged=True),
        "secrets": Attribute(
            "Optional[Hash[String, Sensitive[String]]]", "Further fields, which are not read.", write_only=True
        ),
        "id": Attribute("Optional[String]", "Its identifier.", kind="read_only", stable=True),
        "output": Attribute("Optional[Hash[String, Data]]", "The fields that the service makes.", kind="read_only"),
    },
    settle=30,
    features={"canonicalize", "parallel", "plan", "simple_get_filter", "validate"},
)
