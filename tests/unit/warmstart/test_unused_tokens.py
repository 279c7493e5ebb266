from itertools import islice

import torch
from transformers import Qwen2ForCausalLM

from engine.models.tiny import character_tokenizer, tiny_config
from engine.warmstart.search_traces import examples
from engine.warmstart.unused_tokens import suppress_unused_tokens


def test_only_tokens_of_traces_keep_their_probability() -> None:
    torch.manual_seed(0)
    tokenizer = character_tokenizer()
    model = Qwen2ForCausalLM(tiny_config(len(tokenizer)))  # type: ignore[no-untyped-call]
    used = torch.tensor([*tokenizer("0123456789 +-*=:,x!?~\n").input_ids, tokenizer.eos_token_id])
    before = model.model.embed_tokens.weight[used].clone()
    suppress_unused_tokens(model, tokenizer, examples(0, 0.3, 300))
    assert torch.equal(model.model.embed_tokens.weight[used], before)
    for prompt, response in islice(examples(1, 0.3, 300), 5):
        with torch.no_grad():
            law = model(torch.tensor([tokenizer(prompt + response).input_ids])).logits[0, len(prompt) - 1 :].softmax(-1)
        assert law[:, used].sum(-1).min() > 0.999  # before: 26 of 99
