"""The families of causal language models that the native engine computes, and what tells each from llama. Needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """What a configuration does not say.

    ``causal_lm``: its class in transformers. ``qkv_bias``: query, key and value have one; ``qk_norm``: each head of query and key is
    normed. ``fused``: query, key and value are one matrix, and so are gate and up. ``experts``: of the feed-forward networks. ``gemma``:
    norms multiply by 1 + weight, there is one after attention and feed-forward, too, and embeddings are times the root of the width.
    """

    causal_lm: str
    qkv_bias: bool = False
    qk_norm: bool = False
    fused: bool = False
    experts: bool = False
    gemma: bool = False


FAMILIES = {
    "llama": Family("LlamaForCausalLM"),
    "mistral": Family("MistralForCausalLM"),
    "qwen2": Family("Qwen2ForCausalLM", qkv_bias=True),
    "qwen3": Family("Qwen3ForCausalLM", qk_norm=True),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", qk_norm=True, experts=True),
    "phi3": Family("Phi3ForCausalLM", fused=True),
    "gemma3_text": Family("Gemma3ForCausalLM", qk_norm=True, gemma=True),
}
LISTED = ", ".join(FAMILIES)
