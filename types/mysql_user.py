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

A password is a secret, `password: ${inputs.password}`, for the plugin `mysql_native_password`. The server gets its
hash, which is computed here, and so has the password in no log. A text that is such a hash already, `*` and 40
hexadecimal digits, is stored as it is. That hash is compared with the one of the account: a
password that was changed elsewhere is seen, and set again.

`password_hash` is the value that a plugin compares with, as `SHOW CREATE USER` shows it: for `ed25519` a hash, for
`pam` the name of a service, for `caching_sha2_password` the bytes of the hash as `0x2441...`. Undeclared attributes
stay as they are. A new account without a password, a hash and a plugin gets a random, unknown password: the server
would give it an empty one, and let everybody in.

The user that makes the changes is neither removed nor locked.

PyMySQL connects as `root` through the socket, which a server of Debian accepts from root without a password; it is
installed with `pip install 'resource-api[mysql]'`. Each other server or user is a configured provider:

    providers:
      mysql_user:
        config: {host: db.example.org, user: admin, sslmode: verify-full, ca_file: /etc/ssl/db.pem}
    resources:
      Mysql_user[app@localhost]: {locked: true}

These types are tested with MariaDB 10.11. Servers from MariaDB 10.6 and MySQL 8.0 are accepted. What MySQL does
differently is taken from its manual and was not run: Debian has no package of its server. MySQL 8.4 has
`mysql_native_password` switched off, and 9 has it no more; declare `plugin: caching_sha2_password` and its
`password_hash` there.
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the account exists.", default="present"),
        "name": Attribute(ACCOUNT, "The account, `USER@HOST`.", kind="namevar", must_be="an account as app@localhost"),
        "password": Attribute("Optional[Sensitive[String[1]]]", "The password, for `mysql_native_password`."),
        "password_hash": Attribute(
            r"Optional[Sensitive[Pattern[/\A[^[:cntrl:]]+\z/]]]",
            "What `plugin` compares with; without `plugin` the hash of `mysql_native_password`.",
            must_be="one line",
        ),
        "plugin": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]",
            "How the account logs in: `mysql_native_password`, `ed25519`, `unix_socket`, `pam` and so on.",
            must_be="a plugin's name",
        ),
        "max_connections_per_hour": Attribute(LIMIT, "The most connections in an hour; 0: no limit."),
        "max_queries_per_hour": Attribute(LIMIT, "The most statements in an hour; 0: no limit."),
        "max_updates_per_hour": Attribute(LIMIT, "The most statements in an hour that change something; 0: no limit."),
        "max_user_connections": Attribute(LIMIT, "The most connections at a time; 0: the limit of the server."),
        "tls_options": Attribute(
            r"Optional[Array[Pattern[/\A(NONE|SSL|X509|(CIPHER|ISSUER|SUBJECT) [^[:cntrl:]]*[^[:cntrl:]\s])\z/], 1]]",
            "What a connection must have: `[NONE]`, `[SSL]`, `[X509]`, or some of `CIPHER …`, `ISSUER …`, `SUBJECT …`.",
            must_be="NONE, SSL, X509, or CIPHER, ISSUER or SUBJECT with a text, as 'ISSUER /CN=ca'",
        ),
        "password_lifetime": Attribute(
            "Optional[Variant[Enum[default, never], Integer[1, 65535]]]",
            "After how many days the password must be changed; `default`: as the server says.",
        ),
        "locked": Attribute("Optional[Boolean]", "Whether the account may not log in."),
        "plugins": Attribute(
            "Optional[Array[String]]",
            "All plugins, where the account may log in by any of several, as MariaDB allows; a declared `plugin` or"
            " password takes their place.",
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
