"""A model folder that passes the checks at submit time and that nobody can run: for tests that never reach the engine."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def make_bare_model(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shape = {"num_hidden_layers": 1, "hidden_size": 8, "vocab_size": 8, "max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]} | shape))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {}}))
    save_file({"weight": np.zeros(8, dtype=np.float32)}, folder / "model.safetensors")
    return folder
