"""Records of the DNS hosting service of this example."""

from resource_api import Attribute, Function, TypeDefinition

TYPE = TypeDefinition(
    name="dns_record",
    version="2.0.0",
    docs="""
    Manage the DNS records of an account: all values of one name and type together.

        providers:
          dns_record:
            config: {url: "http://127.0.0.1:8053", token: "${inputs.token}"}
        resources:
          Dns_record[www.example.org A]: {values: [192.0.2.1, 192.0.2.2], ttl: 300}
    """,
    config={
        "url": Attribute(
            r"Pattern[/\Ahttps?:\/\/[^\s]+\z/]", "The address of the service; by default the environment's DNS_API_URL."
        ),
        "token": Attribute(
            "Sensitive[String[1]]", "The token; by default the content of the file that DNS_API_TOKEN_FILE names."
        ),
        "timeout": Attribute("Numeric", "The time limit of one request in seconds.", default=10),
        "attempts": Attribute("Integer[1]", "How often a request is sent that the service cannot answer.", default=5),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the name has such records.", default="present"),
        "name": Attribute(
            r"Pattern[/\A([a-zA-Z0-9_*-]+\.)+[a-zA-Z0-9-]+\.?\z/]", "The full name, in any case.", kind="namevar"
        ),
        "kind": Attribute("Enum[A, AAAA, CNAME, MX, TXT]", "The type of the records.", kind="namevar"),
        "values": Attribute("Array[String[1], 1]", "The values, in any order."),
        "ttl": Attribute("Optional[Integer[60, 86400]]", "Seconds that others may keep it; the service has 3600."),
        "view": Attribute("Optional[Enum[public, internal]]", "Who may see it; a change replaces the record."),
        "update_key": Attribute("Optional[Sensitive[String[8]]]", "The key for dynamic updates of this record."),
        "id": Attribute("Optional[String]", "The number that the service has assigned.", kind="read_only"),
    },
    title_patterns=[{"pattern": r"\A(?P<name>[^\s]+) (?P<kind>[A-Z]+)\z"}],
    schema_version=2,
    features={"canonicalize", "parallel", "plan", "simple_get_filter", "upgrade", "validate"},
    functions={
        "zone_of": Function(
            "Return the zone that a name belongs to.",
            inputs={"name": Attribute("String[1]", "The full name.")},
            output="String",
        ),
    },
)
