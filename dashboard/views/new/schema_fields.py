"""Form fields read off the JSON schema of a run's configuration: their kind, help, limits and defaults are written down there only."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dashboard.analysis.config_schema import alternatives, default_member, member, target

Kind = Literal["integer", "number", "boolean", "string", "choice"]
Config = dict[str, Any]


@dataclass(frozen=True)
class FormField:
    """One setting. ``path`` is dotted (``algorithm.steps``); ``nullable`` fields may be left empty, of a choice that is ``open`` other
    texts may be typed. ``sets``: other settings of its section that start anew when it changes."""

    path: str
    kind: Kind
    help: str
    default: Any
    options: tuple[str | bool, ...] = ()
    nullable: bool = False
    open: bool = False
    sets: tuple[str, ...] = ()


def field(schema: Mapping[str, Any], path: str, config: Config) -> FormField:
    """The field at ``path``; of a union's members the one that ``config`` names, else the default. KeyError if the schema has none."""
    node: Mapping[str, Any] = schema
    *parents, name = path.split(".")
    section: Any = config
    for parent in parents:
        node = member(schema, node, section)["properties"][parent]
        section = section.get(parent) if isinstance(section, dict) else None
    if name == node.get("discriminator", {}).get("propertyName"):
        mapping = node["discriminator"]["mapping"]
        others = tuple(key for each in mapping.values() for key in target(schema, each)["properties"] if key != name)
        return FormField(path, "choice", node.get("description", ""), default_member(node), tuple(mapping), sets=others)
    return _leaf(path, member(schema, node, section)["properties"][name])


def paths(schema: Mapping[str, Any], config: Config) -> list[str]:
    """Every setting that can be a field, in the schema's order; of a union's members those of the one that ``config`` names. Lists and
    what is made of them can be none."""
    return list(_paths(schema, schema, config, ""))


def value(config: Config, field: FormField) -> Any:
    """What ``config`` says, or else the default."""
    node: Any = config
    for part in field.path.split("."):
        if not isinstance(node, dict) or part not in node:
            return field.default
        node = node[part]
    return node


def with_value(config: Config, field: FormField, value: Any) -> Config:
    """A copy of ``config`` with ``value`` in ``field``, and without what the old value had set: another member of a union (``task.name``)
    starts with no settings of the old one."""
    result = deepcopy(config)
    *parents, name = field.path.split(".")
    section = result
    for parent in parents:
        if not isinstance(section.get(parent), dict):
            section[parent] = {}
        section = section[parent]
    if section.get(name) != value:
        for other in field.sets:
            section.pop(other, None)
    section[name] = value
    return result


def _paths(schema: Mapping[str, Any], node: Mapping[str, Any], section: Any, prefix: str) -> Iterator[str]:
    for name, child in member(schema, node, section)["properties"].items():
        if "$ref" in child or "discriminator" in child:
            yield from _paths(schema, child, section.get(name) if isinstance(section, dict) else None, f"{prefix}{name}.")
        elif "enum" in (shape := _shape(child)) or shape.get("type") in get_args(Kind):
            yield prefix + name


def _leaf(path: str, node: Mapping[str, Any]) -> FormField:
    kinds = alternatives(node)
    shape = _shape(node)
    options = tuple(shape.get("enum", ()))
    kind: Kind = "choice" if options else shape["type"]
    nullable = len(kinds) < len(node.get("anyOf", kinds))
    return FormField(path, kind, _help(shape), node.get("default"), options, nullable, len(kinds) > 1, tuple(shape.get("sets", ())))


def _shape(node: Mapping[str, Any]) -> dict[str, Any]:
    return {**node, **alternatives(node)[0]}


def _help(shape: Mapping[str, Any]) -> str:
    bounds = [
        f"{words} {shape[key]:{',' if isinstance(shape[key], int) else 'g'}}"
        for key, words in (("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"), ("exclusiveMaximum", "below"))
        if key in shape
    ]
    text = shape.get("description", "")
    limits = ", ".join(bounds)
    return f"{text} ({limits})" if text and limits else text or limits
