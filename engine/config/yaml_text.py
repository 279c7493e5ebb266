"""YAML in which no key of a mapping is given twice."""

from typing import Any

import yaml

MERGE = "tag:yaml.org,2002:merge"


class UniqueKeys(yaml.SafeLoader):
    """PyYAML takes the last one of two equal keys and says nothing of the first: what stood there would be lost."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = key.tag, str(key.value)
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE and name in seen:
                raise yaml.MarkedYAMLError("in a section", node.start_mark, f"{key.value} is given twice", key.start_mark)
            seen.add(name)
        return node


def read_yaml(text: str) -> Any:
    """What ``text`` says; yaml.YAMLError if it is not YAML or gives a key twice, ValueError or RecursionError if a value cannot be."""
    return yaml.load(text, UniqueKeys)
