"""Drafter folders of ours in an SGLang that knows nothing of us."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sglang_cases import STAND_IN, TESTS, native_engine, needs_sglang

from engine.config import RolloutConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder, write_drafter_folder
from engine.drafter.model_card import DrafterCard
from engine.models.folder import DRAFTER, TINY
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang.arguments import environment
from engine.tasks.countdown import CountdownTask

pytestmark = needs_sglang


@pytest.mark.parametrize("shipped", [True, False], ids=["built-in", "exported"])
def test_a_drafter_folder_drafts_in_a_bare_sglang(tmp_path: Path, shipped: bool) -> None:
    """With embedding and head of ``tiny``, which are tied."""
    model, tokenizer = load_model(TINY, torch.float32), load_tokenizer(TINY)
    prompts = [prompt.tokens for prompt in CountdownTask(CountdownConfig(), 0, tokenizer).prompts(0, 6)]
    folder = DRAFTER if shipped else tmp_path / "drafter"
    if not shipped:
        write_drafter_folder(folder, load_drafter_folder(DRAFTER, model.config), model.config, DrafterCard("tiny", "countdown", 1))
    command = [sys.executable, str(TESTS / "sglang_bare.py"), str(TINY), str(folder), json.dumps(prompts)]
    done = subprocess.run(
        command,
        env=os.environ | environment() | STAND_IN,
        capture_output=True,
        text=True,
        timeout=1000,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    native = native_engine(model, RolloutConfig(max_prompt_tokens=32), end_tokens=end_tokens(model, tokenizer))
    expected = native.generate([Request(index, index, prompt) for index, prompt in enumerate(prompts)], Sampling(0, max_new_tokens=64))
    assert [tuple(tokens) for tokens in found["tokens"]] == [completion.tokens for completion in expected]
    assert found["accept_length"] > 2.5
