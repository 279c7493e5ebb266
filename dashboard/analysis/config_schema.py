"""The JSON schema of a configuration: what stands behind its references, and what a configuration that names less than it means."""

from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]


def target(schema: Node, reference: str) -> Node:
    found: Node = schema["$defs"][reference.rpartition("/")[2]]
    return found


def member(schema: Node, node: Node, section: Any) -> Node:
    """``node`` behind its reference, or the member of its union that ``section`` names, else the default."""
    if "discriminator" in node:
        mapping = node["discriminator"]["mapping"]
        name = section.get(node["discriminator"]["propertyName"]) if isinstance(section, dict) else None
        node = {"$ref": mapping[name if name in tuple(mapping) else default_member(node)]}
    return target(schema, node["$ref"]) if "$ref" in node else node


def default_member(union: Node) -> str:
    """The name of the member that is the default, or else of the first."""
    first = next(iter(union["discriminator"]["mapping"]))
    return str(union.get("default", {}).get(union["discriminator"]["propertyName"], first))


def alternatives(node: Node) -> list[Node]:
    """What a value may be, but for null."""
    return [each for each in node.get("anyOf", [node]) if each.get("type") != "null"]


def whole_config(schema: Node, config: Mapping[str, Any]) -> dict[str, Any]:
    """``config`` with the default of each setting that it does not name: a run lacks those that came after it.

    Not filled in are settings that have no default in the schema, what is below a name that this version does not know, and what depends on
    another setting, as an algorithm's clipping does on its name, unless that is at its default, too.
    """
    return _whole(schema, schema, config)


def _whole(schema: Node, node: Node, section: Mapping[str, Any]) -> dict[str, Any]:
    properties = member(schema, node, section)["properties"]
    defaults = {name: each.get("default", {}) for name, each in properties.items() if "default" in each or "$ref" in each}
    moved = [each for name, each in properties.items() if section.get(name, each.get("default")) != each.get("default")]
    dependent = {name for each in moved for name in each.get("sets", ())}
    whole = {name: value for name, value in defaults.items() if name not in dependent} | dict(section)
    return {name: _filled(schema, properties[name], value) if name in properties else value for name, value in whole.items()}


def _filled(schema: Node, node: Node, value: Any) -> Any:
    """What a setting is, with the settings below it."""
    shape = alternatives(node)[0]
    if isinstance(value, list) and "$ref" in shape.get("items", ()):
        return [_filled(schema, shape["items"], each) for each in value]
    has_settings = isinstance(value, dict) and ("$ref" in shape or _names_member(shape, value))
    return _whole(schema, shape, value) if has_settings else value


def _names_member(node: Node, section: Mapping[str, Any]) -> bool:
    """Whether it is a union that has what ``section`` names."""
    union = node.get("discriminator")
    return union is not None and section.get(union["propertyName"]) in tuple(union["mapping"])
