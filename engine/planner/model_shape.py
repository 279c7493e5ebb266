"""Sizes of a dense causal language model of any supported family, from its config.json or by name."""

from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ModelError
from engine.models.folder import SMALL_LAYERS, SMALL_WIDTH, locate, read_config

NEEDED = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")


@dataclass(frozen=True)
class Shape:
    """Widths in values; ``heads`` are query heads, ``kv_heads`` those that keys and values have."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Shape":
        """From the fields of a config.json. ModelError if it is a mixture of experts, or does not say how large it is."""
        if "num_experts_per_tok" in config:
            raise ModelError("the memory of a mixture of experts cannot be planned; choose a dense model")
        for name in NEEDED:
            if not isinstance(config.get(name), int) or config[name] < 1:
                raise ModelError(f"{name} of config.json is {config.get(name)}, and should be a whole number above 0")
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        return cls(
            layers=config["num_hidden_layers"],
            hidden=hidden,
            intermediate=config["intermediate_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_size=config.get("head_dim") or hidden // heads,
            vocabulary=config["vocab_size"],
            tied=bool(config.get("tie_word_embeddings", False)),
        )

    @property
    def layer(self) -> int:
        """Parameters of a layer: attention, the gated MLP, and two norms. Biases, if there are any, are less than a thousandth."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def matrices(self) -> list[int]:
        """Parameters of each matrix: of every layer's attention and MLP, and the ends."""
        queries, keys = self.hidden * self.heads * self.head_size, self.hidden * self.kv_heads * self.head_size
        layer = [queries, keys, keys, queries, *[self.hidden * self.intermediate] * 3]
        return layer * self.layers + [self.vocabulary * self.hidden] * (1 if self.tied else 2)

    @property
    def ends(self) -> int:
        """Parameters outside of the layers: embedding, head (if it is not the embedding), last norm."""
        return (1 if self.tied else 2) * self.vocabulary * self.hidden + self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.ends

    @property
    def cached(self) -> int:
        """Values that a token has in the cache of keys and values, in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size


PRESETS = {
    "0.5B": Shape(24, 896, 4_864, 14, 2, 64, 151_936, True),  # Qwen2.5-0.5B
    "7B": Shape(28, 3_584, 18_944, 28, 4, 128, 152_064, False),  # Qwen2.5-7B
    "8B": Shape(32, 4_096, 14_336, 32, 8, 128, 128_256, False),  # Llama-3.1-8B
    "32B": Shape(64, 5_120, 27_648, 40, 8, 128, 152_064, False),  # Qwen2.5-32B
    "70B": Shape(80, 8_192, 28_672, 64, 8, 128, 128_256, False),  # Llama-3.1-70B
}


def shape(model: str) -> Shape:
    """Of a preset, a built-in or kept model, or a Hugging Face folder (its config.json is enough). ModelError if there is none of them."""
    if model in PRESETS:
        return PRESETS[model]
    if not (folder := locate(model)).is_dir():
        known = f"{', '.join(PRESETS)}, a name that `longtail models` lists"
        raise ModelError(f"{model}: no such folder; use {known}, or a Hugging Face folder")
    return enlarged(Shape.of(read_config(folder)), model)


def enlarged(found: Shape, model: str) -> Shape:
    """The shape of ``model`` where that of its folder is ``found``: ``small`` is made of ``tiny``, and may not be there yet."""
    if model != "small":
        return found
    wider = {name: SMALL_WIDTH * getattr(found, name) for name in ("hidden", "intermediate", "heads", "kv_heads")}
    return replace(found, layers=SMALL_LAYERS, **wider)
