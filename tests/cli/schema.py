"""The part of JSON Schema that docs/results-schema.json uses, so that tests need no package.

check(value, schema) returns the breaches as sentences; none means valid. A keyword that is not known
here is itself a breach: a schema must not promise what is not checked.
"""

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
SILENT = {"$schema", "$id", "$defs", "title", "description"}


def is_type(value, name):
    if isinstance(value, bool):  # Python's bool is an int
        return name == "boolean"
    return isinstance(value, TYPES[name])


def check(value, schema, root=None, where="$"):
    root = root or schema
    breaches = []
    for keyword, rule in schema.items():
        if keyword in SILENT:
            continue
        if keyword == "$ref":
            target = root
            for part in rule.removeprefix("#/").split("/"):
                target = target[part]
            breaches += check(value, target, root, where)
        elif keyword == "type":
            if not is_type(value, rule):
                breaches.append(f"{where}: {value!r} is not of type {rule}")
                return breaches
        elif keyword == "const":
            if value != rule:
                breaches.append(f"{where}: {value!r} is not {rule!r}")
        elif keyword == "enum":
            if value not in rule:
                breaches.append(f"{where}: {value!r} is none of {rule}")
        elif keyword == "minItems":
            if len(value) < rule:
                breaches.append(f"{where}: has fewer than {rule} items")
        elif keyword == "maxItems":
            if len(value) > rule:
                breaches.append(f"{where}: has more than {rule} items")
        elif keyword == "minimum":
            if value < rule:
                breaches.append(f"{where}: {value} is below {rule}")
        elif keyword == "minLength":
            if len(value) < rule:
                breaches.append(f"{where}: is shorter than {rule}")
        elif keyword == "required":
            breaches += [f"{where}: has no {name}" for name in rule if name not in value]
        elif keyword == "items":
            for i, item in enumerate(value):
                breaches += check(item, rule, root, f"{where}[{i}]")
        elif keyword == "properties":
            for name, inner in rule.items():
                if name in value:
                    breaches += check(value[name], inner, root, f"{where}.{name}")
        elif keyword == "additionalProperties":
            for name in set(value) - set(schema.get("properties", {})):
                if rule is False:
                    breaches.append(f"{where}: has an unknown {name}")
                elif isinstance(rule, dict):
                    breaches += check(value[name], rule, root, f"{where}.{name}")
        elif keyword == "if":
            branch = "then" if not check(value, rule, root, where) else "else"
            breaches += check(value, schema.get(branch, {}), root, where)
        elif keyword not in ("then", "else"):
            breaches.append(f"{where}: the schema uses {keyword}, which is not checked")
    return breaches
