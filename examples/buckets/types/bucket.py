"""Buckets of the storage service of this example."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="bucket",
    docs="""
    Manage the buckets of a storage service, which shows changes some seconds late.

        providers:
          bucket: {config: {url: "http://127.0.0.1:8054"}}
        resources:
          Bucket[logs]: {region: eu, versioning: true}
    """,
    settle=20,
    config={
        "url": Attribute(r"Pattern[/\Ahttps?:\/\/[^\s]+\z/]", "The address of the service."),
        "settle": Attribute("Optional[Numeric]", "Seconds until a change must be visible; by default 20."),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the bucket exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[a-z0-9-]{3,63}\z/]", "The name.", kind="namevar"),
        "region": Attribute("Enum[eu, us]", "Where it is stored.", kind="init_only"),
        "versioning": Attribute("Optional[Boolean]", "Whether old versions are kept."),
        "id": Attribute("Optional[String]", "The identifier that the service has assigned.", kind="read_only"),
    },
    features={"simple_get_filter"},
)
