"""Accounts of a MariaDB or MySQL server."""

from lib.mysql import ACCOUNT, SERVER, config_attributes
from resource_api import Attribute, TypeDefinition

LIMIT = "Optional[Integer[0]]"

TYPE = TypeDefinition(
    name="mysql_user",
    docs="""Manage the accounts of a MariaDB or MySQL server.

    Mysql_user[app@localhost]:
      password_hash: '*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4'
      max_user_connections: 20

    Mysql_user[report@10.0.%]: {tls_options: [SSL]}

    Mysql_user[backup@localhost]: {plugin: unix_socket}

    Mysql_user[@localhost]: {ensure: absent}

An account is a user and the host that it comes from, `USER@HOST`; `%` is any host.

`password: ${inputs.password}` is for the plugin `mysql_native_password`. Its hash is computed here, so no log of the
server has the password. A text that is such a hash, `*` and 40 hexadecimal digits, is stored as it is. The hash is
compared: a password that was changed elsewhere is set again.

`password_hash` is the value that `SHOW CREATE USER` shows for a plugin: a hash for `ed25519`, the name of a service for
`pam`, `0x2441...` for `caching_sha2_password`. Undeclared attributes stay. A new account without password, hash and
plugin gets a random password; with an empty one the server would let everybody in.

The account that makes the changes is neither removed nor locked.

By default PyMySQL (`pip install 'resource-api[mysql]'`) connects as `root` through the socket, which Debian's servers
accept without a password. For other servers and users, configure a provider:

    providers:
      mysql_user:
        config: {host: db.example.org, user: admin, sslmode: verify-full, ca_file: /etc/ssl/db.pem}
    resources:
      Mysql_user[app@localhost]: {locked: true}

Tested with MariaDB 10.11; MariaDB 10.6, MySQL 8.0 and later ones are accepted. The differences of MySQL are implemented
from its manual, without tests. In MySQL 8.4 and later, declare `plugin: caching_sha2_password` with its
`password_hash`.
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the account exists.", default="present"),
        "name": Attribute(ACCOUNT, "The account, `USER@HOST`.", kind="namevar", must_be="an account as app@localhost"),
        "password": Attribute("Optional[Sensitive[String[1]]]", "The password, for `mysql_native_password`."),
        "password_hash": Attribute(
            r"Optional[Sensitive[Pattern[/\A[^[:cntrl:]]+\z/]]]",
            "The value that `plugin` compares with; by default the hash for `mysql_native_password`.",
            must_be="one line",
        ),
        "plugin": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]",
            "The login method: `mysql_native_password`, `ed25519`, `unix_socket`, `pam` and so on.",
            must_be="a plugin's name",
        ),
        "max_connections_per_hour": Attribute(LIMIT, "The most connections in an hour; 0: no limit."),
        "max_queries_per_hour": Attribute(LIMIT, "The most statements in an hour; 0: no limit."),
        "max_updates_per_hour": Attribute(LIMIT, "The most statements in an hour that change something; 0: no limit."),
        "max_user_connections": Attribute(LIMIT, "The most connections at a time; 0: the limit of the server."),
        "tls_options": Attribute(
            r"Optional[Array[Pattern[/\A(NONE|SSL|X509|(CIPHER|ISSUER|SUBJECT) [^[:cntrl:]]*[^[:cntrl:]\s])\z/], 1]]",
            "Requirements of a connection: `[NONE]`, `[SSL]`, `[X509]`, or some of `CIPHER …`, `ISSUER …`,"
            " `SUBJECT …`.",
            must_be="NONE, SSL, X509, or CIPHER, ISSUER or SUBJECT with a text, as 'ISSUER /CN=ca'",
        ),
        "password_lifetime": Attribute(
            "Optional[Variant[Enum[default, never], Integer[1, 65535]]]",
            "Days until the password must be changed; `default`: the server's setting.",
        ),
        "locked": Attribute("Optional[Boolean]", "Whether the account cannot log in."),
        "plugins": Attribute(
            "Optional[Array[String]]",
            "All plugins, if MariaDB accepts several; a declared `plugin` or password replaces them.",
            kind="read_only",
        ),
    },
    autorequires=SERVER,
    features={
        "canonicalize",
        "custom_insync",
        "parallel",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
)
