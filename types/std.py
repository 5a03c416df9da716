"""Pure functions over data: lists, mappings, texts, numbers, encodings, networks, versions."""

from __future__ import annotations

from resource_api import Attribute, Function, TypeDefinition


def _pure(docs: str, output: str, **inputs: Attribute) -> Function:
    """Return a function whose result only its inputs determine.

    An input such as ``from_``, whose name is a word of Python, loses the ``_``.
    """
    return Function(
        docs, inputs={name.removesuffix("_"): value for name, value in inputs.items()}, output=output, pure=True
    )


def _moving(docs: str, output: str, **inputs: Attribute) -> Function:
    """Return a pure function that only moves elements of its inputs, so that only the secret ones are secret after it.

    The result of any other function with a secret input is secret as a whole.
    """
    function = _pure(docs, output, **inputs)
    function.keeps_secrets = True
    return function


_LIST = "Array[Any]"
_MAP = "Hash[String, Any]"

TYPE = TypeDefinition(
    name="std",
    docs="""Compute values from values, when the manifest is compiled: pure functions over data.

    values:
      hosts: {invoke: std.split, with: {text: "web,db", by: ","}}
      line: {invoke: std.join, with: {list: "${values.hosts}", by: " "}}
    resources:
      File[/etc/hosts.allow]: {content: "sshd: ${values.line}"}

Call functions in the section `values`. They are computed when the manifest is compiled, so results can be used in
`for_each`, `when`, titles and metaparameters, unless an input is a value of a resource. A result is secret if an input
is; functions that only move elements, such as `merge`, keep other elements readable. An invalid input is an error of
the manifest, before anything is read.
""",
    functions={
        "join": _pure(
            """Join the elements of a list to one text. Numbers and Booleans are written as in texts.

                line: {invoke: std.join, with: {list: [a, 1, true], by: ", "}}
                # ${values.line} is "a, 1, true"
            """,
            "String",
            list=Attribute("Array[Scalar]", "The elements."),
            by=Attribute("String", "The text between two elements."),
        ),
        "split": _pure(
            """Split a text at each occurrence of another one. The inverse of `join`.

                hosts: {invoke: std.split, with: {text: "web,db,", by: ","}}
                # ${values.hosts} is [web, db, ""]
            """,
            "Array[String]",
            text=Attribute("String", "The text."),
            by=Attribute("String[1]", "The text between two elements."),
        ),
        "replace": _pure(
            r"""Replace each occurrence in a text. With `regex`, `from` is a regular expression, `\1` its group 1.

                name: {invoke: std.replace, with: {text: web.example.org, from: ".", to: "-"}}
                # ${values.name} is web-example-org
                zone: {invoke: std.replace, with: {text: web.example.org, from: '^\w+\.', to: "", regex: true}}
                # ${values.zone} is example.org
            """,
            "String",
            text=Attribute("String", "The text."),
            from_=Attribute("String[1]", "The text to replace, or a regular expression."),
            to=Attribute("String", "The text in its place."),
            regex=Attribute("Boolean", "Whether `from` is a regular expression.", default=False),
        ),
        "lower": _pure(
            """Return a text in lower case.

                name: {invoke: std.lower, with: {text: Web-1}}
                # ${values.name} is web-1
            """,
            "String",
            text=Attribute("String", "The text."),
        ),
        "upper": _pure(
            """Return a text in upper case.

                name: {invoke: std.upper, with: {text: Web-1}}
                # ${values.name} is WEB-1
            """,
            "String",
            text=Attribute("String", "The text."),
        ),
        "trim": _pure(
            """Return a text without white space at its ends.

                key: {invoke: std.trim, with: {text: " ssh-ed25519 AAAA "}}
                # ${values.key} is ssh-ed25519 AAAA
            """,
            "String",
            text=Attribute("String", "The text."),
        ),
        "format": _pure(
            """Fill a mapping's values into a text, where their names stand in braces. `{{` is a literal brace.

                url: {invoke: std.format, with: {text: "http://{host}:{port}/", values: {host: web, port: 80}}}
                # ${values.url} is "http://web:80/"
            """,
            "String",
            text=Attribute("String", "The text."),
            values=Attribute("Hash[String, Scalar]", "The values, by name."),
        ),
        "length": _moving(
            """Return the number of elements of a list, of keys of a mapping, or of characters of a text.

                count: {invoke: std.length, with: {of: [a, b, c]}}
                # ${values.count} is 3
            """,
            "Integer[0]",
            of=Attribute(f"Variant[String, {_LIST}, {_MAP}]", "The list, mapping or text."),
        ),
        "contains": _pure(
            """Return whether a list has an element, a mapping a key, or a text a part.

                web: {invoke: std.contains, with: {in: [web, db], item: web}}
                # ${values.web} is true
            """,
            "Boolean",
            in_=Attribute(f"Variant[String, {_LIST}, {_MAP}]", "The list, mapping or text."),
            item=Attribute("Any", 'The element, key or part. `1` and `"1"` differ.'),
        ),
        "merge": _moving(
            """Merge mappings; a later one wins. With `deep`, mappings under the same key are merged too.

                settings: {invoke: std.merge, with: {maps: [{port: 80, tls: {on: false}}, {tls: {cert: a}}]}}
                # ${values.settings} is {port: 80, tls: {cert: a}}
                nested: {invoke: std.merge, with: {maps: [{port: 80, tls: {on: false}}, {tls: {cert: a}}], deep: true}}
                # ${values.nested} is {port: 80, tls: {on: false, cert: a}}
            """,
            _MAP,
            maps=Attribute(f"Array[{_MAP}]", "The mappings, in order."),
            deep=Attribute("Boolean", "Whether to merge at every depth. Lists are replaced.", default=False),
        ),
        "concat": _moving(
            """Append lists to each other.

                ports: {invoke: std.concat, with: {lists: [[80], [443, 8080]]}}
                # ${values.ports} is [80, 443, 8080]
            """,
            _LIST,
            lists=Attribute(f"Array[{_LIST}]", "The lists, in order."),
        ),
        "flatten": _moving(
            """Replace the lists in a list by their elements, one level deep.

                ports: {invoke: std.flatten, with: {list: [80, [443, [8080]]]}}
                # ${values.ports} is [80, 443, [8080]]
            """,
            _LIST,
            list=Attribute(_LIST, "The list."),
        ),
        "keys": _moving(
            """Return the keys of a mapping, in the order written.

                users: {invoke: std.keys, with: {map: {bob: {uid: 2}, ann: {uid: 1}}}}
                # ${values.users} is [bob, ann]
            """,
            "Array[String]",
            map=Attribute(_MAP, "The mapping."),
        ),
        "values": _moving(
            """Return the values of a mapping, in the order written.

                numbers: {invoke: std.values, with: {map: {bob: 2, ann: 1}}}
                # ${values.numbers} is [2, 1]
            """,
            _LIST,
            map=Attribute(_MAP, "The mapping."),
        ),
        "lookup": _moving(
            """Return the value at a path, or a default where there is none. Without `default` that is an error.

                port: {invoke: std.lookup, with: {in: {web: {ports: [80, 443]}}, path: "web.ports[-1]"}}
                # ${values.port} is 443
                other: {invoke: std.lookup, with: {in: {web: {}}, path: web.port, default: 8080}}
                # ${values.other} is 8080
            """,
            "Any",
            in_=Attribute(f"Variant[{_LIST}, {_MAP}]", "The list or mapping."),
            path=Attribute("String[1]", "Keys and indices, as in references: `a.b[0]['c.d']`."),
            default=Attribute("Any", "The value where there is none at the path."),
        ),
        "sort": _pure(
            """Sort numbers, or texts by code point.

                names: {invoke: std.sort, with: {list: [web, Db, app]}}
                # ${values.names} is [Db, app, web]
            """,
            _LIST,
            list=Attribute("Array[Scalar]", "The elements: all texts, all numbers or all Booleans."),
        ),
        "unique": _pure(
            """Return a list without repetitions; of equal elements the first stays.

                ports: {invoke: std.unique, with: {list: [80, 443, 80]}}
                # ${values.ports} is [80, 443]
            """,
            _LIST,
            list=Attribute(_LIST, "The list."),
        ),
        "range": _pure(
            """Count from a number up to, and without, another.

                numbers: {invoke: std.range, with: {start: 1, stop: 7, step: 2}}
                # ${values.numbers} is [1, 3, 5]
            """,
            "Array[Integer]",
            start=Attribute("Integer", "The first number."),
            stop=Attribute("Integer", "The end, which is excluded."),
            step=Attribute("Integer", "The difference of two numbers, not 0; negative counts down.", default=1),
        ),
        "zip": _moving(
            """Pair the elements of lists of one length: first with first, second with second.

                pairs: {invoke: std.zip, with: {lists: [[ann, bob], [1000, 1001]]}}
                # ${values.pairs} is [[ann, 1000], [bob, 1001]]
            """,
            f"Array[{_LIST}]",
            lists=Attribute(f"Array[{_LIST}]", "The lists."),
        ),
        "slice": _moving(
            """Return a part of a list or of a text. Negative positions count from the end.

                first: {invoke: std.slice, with: {of: [a, b, c, d], start: 0, stop: 2}}
                # ${values.first} is [a, b]
                last: {invoke: std.slice, with: {of: [a, b, c, d], start: -1}}
                # ${values.last} is [d]
            """,
            f"Variant[String, {_LIST}]",
            of=Attribute(f"Variant[String, {_LIST}]", "The list or text."),
            start=Attribute("Integer", "The first position, from 0.", default=0),
            stop=Attribute("Optional[Integer]", "The end, which is excluded. Without it, all the rest."),
        ),
        "to_text": _pure(
            """Return a number, a Boolean or a text as it stands in a text.

                text: {invoke: std.to_text, with: {value: 8080}}
                # ${values.text} is "8080"
            """,
            "String",
            value=Attribute("Scalar", "The value. For a list or a mapping, use `std.to_json`."),
        ),
        "to_integer": _pure(
            """Return the integer that a text of decimal digits is, with or without a sign.

                uid: {invoke: std.to_integer, with: {text: "0042"}}
                # ${values.uid} is 42
            """,
            "Integer",
            text=Attribute("String", "The text."),
        ),
        "to_json": _pure(
            """Write a value as JSON, on one line, keys in the order written.

                text: {invoke: std.to_json, with: {value: {ports: [80, 443], tls: null}}}
                # ${values.text} is '{"ports":[80,443],"tls":null}'
            """,
            "String",
            value=Attribute("Any", "The value."),
        ),
        "to_yaml": _pure(
            """Write a value as YAML 1.2, keys in the order written. A text of digits gets quotes.

                text: {invoke: std.to_yaml, with: {value: {ports: [80, 443], mode: "0644"}}}
                # ${values.text} is "ports:\\n- 80\\n- 443\\nmode: '0644'\\n"
            """,
            "String",
            value=Attribute("Any", "The value."),
        ),
        "from_json": _pure(
            """Read a value from JSON. Limits, repeated keys and numbers are treated as in manifests.

                settings: {invoke: std.from_json, with: {text: '{"ports": [80, 443]}'}}
                # ${values.settings} is {ports: [80, 443]}
            """,
            "Any",
            text=Attribute("String", "The JSON text."),
        ),
        "from_yaml": _pure(
            """Read a value from YAML 1.2, as manifests are read: `yes` is a text, `0644` the integer 644.

                settings: {invoke: std.from_yaml, with: {text: "ports: [80, 443]"}}
                # ${values.settings} is {ports: [80, 443]}
            """,
            "Any",
            text=Attribute("String", "The YAML text."),
        ),
        "base64_encode": _pure(
            """Encode a text, as UTF-8, in Base64.

                code: {invoke: std.base64_encode, with: {text: "hello"}}
                # ${values.code} is aGVsbG8=
            """,
            "String",
            text=Attribute("String", "The text."),
        ),
        "base64_decode": _pure(
            """Decode Base64 that holds UTF-8 text.

                text: {invoke: std.base64_decode, with: {text: aGVsbG8=}}
                # ${values.text} is hello
            """,
            "String",
            text=Attribute("String", "The encoded text. White space in it is ignored."),
        ),
        "sha256": _pure(
            """Return the SHA-256 of a text, as UTF-8, in hexadecimal digits.

                digest: {invoke: std.sha256, with: {text: hello}}
                # ${values.digest} is 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
            """,
            "String",
            text=Attribute("String", "The text."),
        ),
        "basename": _pure(
            """Return the last part of a path, as the command `basename` does.

                name: {invoke: std.basename, with: {path: /etc/nginx/nginx.conf}}
                # ${values.name} is nginx.conf
            """,
            "String",
            path=Attribute("String[1]", "The path."),
        ),
        "dirname": _pure(
            """Return a path without its last part, as the command `dirname` does.

                directory: {invoke: std.dirname, with: {path: /etc/nginx/nginx.conf}}
                # ${values.directory} is /etc/nginx
            """,
            "String",
            path=Attribute("String[1]", "The path."),
        ),
        "cidr_host": _pure(
            """Return an address of a network by its number. 0 is the network's own, -1 the last one.

                gateway: {invoke: std.cidr_host, with: {network: 10.0.4.0/22, number: 1}}
                # ${values.gateway} is 10.0.4.1
            """,
            "String",
            network=Attribute("String", "A network such as `10.0.0.0/24` or `fd00::/64`."),
            number=Attribute("Integer", "The address's number in the network."),
        ),
        "cidr_contains": _pure(
            """Return whether an address, or a whole network, is in a network.

                internal: {invoke: std.cidr_contains, with: {network: 10.0.0.0/8, address: 10.1.2.3}}
                # ${values.internal} is true
            """,
            "Boolean",
            network=Attribute("String", "A network such as `10.0.0.0/24` or `fd00::/64`."),
            address=Attribute("String", "An address or a network."),
        ),
        "semver_compare": _pure(
            """Compare two versions by the rules of Semantic Versioning 2.0: -1 is older, 0 equal, 1 newer.

                order: {invoke: std.semver_compare, with: {left: 1.10.0, right: 1.9.3}}
                # ${values.order} is 1
            """,
            "Integer[-1, 1]",
            left=Attribute("String", "A version such as `1.2.3` or `2.0.0-rc.1`."),
            right=Attribute("String", "The version to compare it with."),
        ),
    },
)
