"""SGLang by itself, without our engine and plugin: ``python sglang_bare.py MODEL DRAFTER PROMPTS MORE`` drafts chains of 4 for each
prompt; ``MORE`` are arguments of its engine, as JSON.

Its last line of output is JSON: the greedy responses' tokens, and the accept length of all together.
"""

import json
import sys


def main(model: str, drafter: str, prompts: str, more: str) -> None:
    import sglang

    engine = sglang.Engine(
        model_path=model,
        speculative_draft_model_path=drafter,
        speculative_num_steps=4,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=5,
        skip_tokenizer_init=True,
        dtype="float32",
        device="cpu",
        attention_backend="intel_amx",
        sampling_backend="pytorch",
        grammar_backend="none",
        disable_cuda_graph=True,
        mem_fraction_static=0.1,
        max_total_tokens=2048,
        max_running_requests=4,
        log_level="error",
        **json.loads(more),
    )
    responses = engine.generate(input_ids=json.loads(prompts), sampling_params={"temperature": 0, "max_new_tokens": 64})
    generated, passes = (sum(each["meta_info"][name] for each in responses) for name in ("completion_tokens", "spec_verify_ct"))
    print(json.dumps({"tokens": [each["output_ids"] for each in responses], "accept_length": generated / passes}), flush=True)
    engine.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
