"""The places of some texts, found by the tokens before them."""

from array import array
from collections.abc import Mapping

LONGEST = 24  # tokens of context that are told apart
NEWEST = 32  # places that a look-up returns at most
OFFSET_BITS = 32  # a place is text << OFFSET_BITS | offset
OFFSET_MASK = (1 << OFFSET_BITS) - 1
_LEAF = 12
_NODE_BYTES, _BRANCH_BYTES, _PLACE_BYTES = 220, 230, 10  # averages, measured


class _Node:
    """The places after one context: all of them in a leaf, at least the ``NEWEST`` last ones in a branch."""

    __slots__ = ("children", "places")

    def __init__(self) -> None:
        self.places = array("q")
        self.children: dict[int, _Node] | None = None


class ContextTrie:
    """A trie over contexts read backwards, no deeper than it takes to leave ``_LEAF`` places in a leaf.

    It reads the caller's ``texts``, where a place must stay readable until it is discarded. ``bytes`` is its size without them.
    """

    def __init__(self, texts: Mapping[int, "array[int]"]) -> None:
        self._texts = texts
        self._root = _Node()
        self.bytes = _NODE_BYTES

    def add(self, place: int) -> None:
        """The newest place; its text reaches there at least."""
        text, offset = self._texts[place >> OFFSET_BITS], place & OFFSET_MASK
        node, depth = self._root, 0
        while True:
            places, children = node.places, node.children
            places.append(place)
            depth += 1
            if children is None and depth <= LONGEST:
                if len(places) > _LEAF:
                    self._split(node, depth)
                break
            if len(places) >= 2 * NEWEST:
                del places[:NEWEST]
                self.bytes -= NEWEST * _PLACE_BYTES
            if children is None or depth > offset:
                break
            token = text[offset - depth]
            node = children.get(token) or self._grow(children, token)
        self.bytes += depth * _PLACE_BYTES

    def discard(self, place: int) -> None:
        text, offset = self._texts[place >> OFFSET_BITS], place & OFFSET_MASK
        self._discard(self._root, place, text[max(0, offset - LONGEST) : offset])

    def longest(self, context: "array[int]") -> tuple[int, "array[int]"]:
        """How many of the last tokens of ``context`` (``LONGEST`` at most) occurred before some place, and the last ``NEWEST`` such
        places, oldest first."""
        backwards = context[::-1]
        node, depth = self._root, 0
        for token in backwards:
            child = node.children and node.children.get(token)
            if not child:
                break
            node, depth = child, depth + 1
        places = node.places[-NEWEST:]
        if node.children is not None or depth == len(context):
            return depth, places
        lengths = [self._match(backwards, place) for place in places]
        best = max(lengths, default=0)
        return best, array("q", [place for place, length in zip(places, lengths, strict=True) if length == best])

    def _match(self, backwards: "array[int]", place: int) -> int:
        offset = place & OFFSET_MASK
        before = self._texts[place >> OFFSET_BITS][max(0, offset - LONGEST) : offset][::-1]
        if before == backwards:
            return len(before)
        length = 0
        for mine, other in zip(backwards, before, strict=False):
            if mine != other:
                break
            length += 1
        return length

    def _split(self, node: _Node, depth: int) -> None:
        """Each of the places goes one token deeper, to ``depth``, unless its text starts there."""
        children = node.children = {}
        self.bytes += _BRANCH_BYTES
        for place in node.places:
            offset = place & OFFSET_MASK
            if offset >= depth:
                token = self._texts[place >> OFFSET_BITS][offset - depth]
                (children.get(token) or self._grow(children, token)).places.append(place)
                self.bytes += _PLACE_BYTES

    def _grow(self, children: dict[int, _Node], token: int) -> _Node:
        child = children[token] = _Node()
        self.bytes += _NODE_BYTES
        return child

    def _discard(self, node: _Node, place: int, context: "array[int]") -> None:
        if place in node.places:
            node.places.remove(place)
            self.bytes -= _PLACE_BYTES
        child = node.children.get(context[-1]) if node.children and context else None
        if node.children and child:
            self._discard(child, place, context[:-1])
            if not child.places and not child.children:
                del node.children[context[-1]]
                self.bytes -= _NODE_BYTES + (0 if child.children is None else _BRANCH_BYTES)
