"""Resources of services with a JSON API over HTTP."""

from resource_api import Attribute, TypeDefinition

#: A path of the service, after the method for a request that changes something.
PATH = r"Pattern[/\A\/[!-~]*\z/]"
REQUEST = r"Pattern[/\A(POST|PUT|PATCH|DELETE) \/[!-~]*\z/]"
FIELD = "Optional[String[1]]"
PLACE = r"Pattern[/\A([\w*-]+|\['[^']+'\])(\.[\w*-]+|\[(\d+|\*|'[^']+')\])*\z/]"

TYPE = TypeDefinition(
    name="http_resource",
    docs="""Manage the objects of a service with a JSON API over HTTP, by the paths of the API.

    providers:
      http_resource:
        config: {url: "https://inventory.example.org/api", path: /hosts}
    resources:
      Http_resource[web-1]:
        body: {address: 192.0.2.1, role: web}

A [configured provider](../providers.md) describes one kind of object. With `path` alone, objects are listed by `GET
/hosts`, created by `POST /hosts`, changed by `PATCH /hosts/ID` and deleted by `DELETE /hosts/ID`. `name` is the field
with the title of the resource, `id` the field for `{id}` in paths. [Services with a JSON API](../http-apis.md) shows
other forms.

A path may end in the object's name, `/zones/{zone}`: the object is read, changed and deleted there, and listed and
created at `/zones`. Variables before it are the first parts of the title: `acme/site` for `/orgs/{org}/repos/{repo}`.

Only the declared members of `body` are compared and sent, at any depth, also in lists of the same length. `null` is an
empty or missing field. `secrets` are sent but never read: they are sent again when they change. `output` has the `id`
and the fields that the service computes: `${Http_resource[web-1].output.created_at}`.

`PUT` sends the whole object, `PATCH` the fields that differ, or a standard patch. If the service sends an `ETag`, a
change applies only to the object that was read (`If-Match`); after a conflict it is read and changed once more. A
change of a field in `immutable` replaces the object.

404 and 410 mean that an object does not exist; other errors fail the resource. After 429, 502, 503, 504 and broken
connections, a request that may be repeated is sent again, up to `retries` times. After 202 the run waits for the job.
Redirects are not followed. A created object that is not visible yet is looked for during `settle` seconds ([eventual
consistency](../eventual-consistency.md)).
""",
    config={
        "url": Attribute(
            r"Pattern[/\Ahttps?:\/\/[^\s\/@?#]+(\/[^\s@?#]*)?\z/]",
            "The address of the API, without credentials.",
            must_be="a URL of https or http without user, password and query",
        ),
        "path": Attribute(
            PATH, "The path of the objects, or of one object by its name: `/zones/{zone}`.", must_be="an absolute path"
        ),
        "name": Attribute("String[1]", "The field with the title, such as `metadata.name`.", default="name"),
        "id": Attribute("String[1]", "The field for `{id}`; `name` if there is no other identifier.", default="id"),
        "list": Attribute(f"Optional[{PATH}]", "The path of the list; by default `path`.", must_be="an absolute path"),
        "items": Attribute(FIELD, "The field of the response with the list; by default the whole response."),
        "object": Attribute(FIELD, "The field of the response with the object; by default the whole response."),
        "wrap": Attribute(FIELD, "The field in which an object is sent; by default it is the whole request."),
        "next": Attribute(
            FIELD,
            "The field with the path or URL of the next page, or with the value of `cursor`; by default the header"
            " `Link` (RFC 8288).",
        ),
        "cursor": Attribute(
            FIELD,
            "The query parameter for the next page. Its value is in `next`, or is the identifier of the last object.",
        ),
        "page": Attribute(FIELD, "The query parameter with the number of the page."),
        "first_page": Attribute("Integer[0]", "The number of the first page.", default=1),
        "offset": Attribute(FIELD, "The query parameter with the number of earlier objects."),
        "read": Attribute(
            f"Optional[{PATH}]",
            "The path of one object. With `{name}`, no list is needed; with `{id}`, the object is read after the"
            " list, for lists without all fields.",
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
            "The body of PATCH. `fields`: those that differ, each as a whole; `merge`: a JSON Merge Patch (RFC"
            " 7396); `json`: a JSON Patch (RFC 6902).",
            default="fields",
        ),
        "immutable": Attribute(
            f"Array[{PLACE}]",
            "Fields of `body` that need a new object, such as `region` or `disks[*].type`; the old one is deleted"
            " first.",
            default=[],
            must_be="a field as 'region' or 'disks[*].type'",
        ),
        "output": Attribute(
            "Array[String[1]]",
            "Computed fields, such as `created_at`: they are in the attribute `output`, not in `body`.",
            default=[],
        ),
        "job": Attribute(
            "Struct[{Optional[url] => String[1], Optional[status] => String[1], Optional[done] => Array[String[1]],"
            " Optional[failed] => Array[String[1]], Optional[timeout] => Integer[1]}]",
            "How the service reports jobs. `url`: the field of the response with the job's URL (by default a"
            " header, after 202). `status`: the field of the job with its state. `done`, `failed`: these states."
            " `timeout`: seconds (600).",
            default={},
        ),
        "settle": Attribute(
            "Optional[Variant[Integer[0, 3600], Float[0.0, 3600.0]]]",
            "Seconds until the service shows a change; 30 by default.",
        ),
        "token": Attribute("Optional[Sensitive[String[1]]]", "The token for authentication."),
        "token_header": Attribute(
            r"Pattern[/\A[\w-]+: ?([\w-]+ )?\z/]",
            "The header for the token, and the text before the token.",
            default="Authorization: Bearer ",
            must_be="a header as 'X-Api-Key: '",
        ),
        "user": Attribute(
            r"Optional[Pattern[/\A[^:[:cntrl:]]+\z/]]",
            "The user for HTTP Basic, with `password`.",
            must_be="a user's name without a colon",
        ),
        "password": Attribute("Optional[Sensitive[String]]", "The password of `user`."),
        "headers": Attribute(
            r"Hash[Pattern[/\A[\w-]+\z/], Sensitive[Pattern[/\A[ -~]*\z/]]]",
            "More headers; their values are never shown.",
            default={},
            must_be="a header's name, and a value on one line",
        ),
        "ca_file": Attribute(
            r"Optional[Pattern[/\A\/[^\x00]+\z/]]",
            "The certificate authorities for the service's certificate.",
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
            "Optional[Hash[String, Sensitive[String]]]", "More fields, which are never read.", write_only=True
        ),
        "id": Attribute("Optional[String]", "Its identifier.", kind="read_only", stable=True),
        "output": Attribute("Optional[Hash[String, Data]]", "The fields that the service computes.", kind="read_only"),
    },
    settle=30,
    features={"canonicalize", "parallel", "plan", "simple_get_filter", "validate"},
)
