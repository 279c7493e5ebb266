import json
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from models_for_tests import make_random_model

from engine.config import RunConfig, parse
from engine.errors import ConfigError, DataError, ModelError
from engine.models.folder import DRAFTER
from engine.preflight import _check_memory, check, check_light, check_overlap

SAMPLE = Path(__file__).parents[1] / "data" / "gsm8k_sample.jsonl"


def config(model: Path | str, **changes: object) -> RunConfig:
    return parse({"model": {"path": str(model)}, "drafter": {"path": None}, **changes})


def math(path: Path) -> dict[str, str]:
    return {"name": "math", "path": str(path)}


def pretraining(path: Path) -> dict[str, object]:
    return {"drafter": {"path": "auto", "pretrain_minutes": 1, "pretrain_responses": str(path)}, "algorithm": {"steps": 0}}


def test_responses_to_pretrain_on_are_looked_at(random_model: Path, tmp_path: Path) -> None:
    check_light(config(random_model, **pretraining(SAMPLE)))
    file = tmp_path / "responses.jsonl"
    file.write_text('{"prompt": "1", "response": "2"}\n{"prompt": "3"}\n')
    for path, fault in ((file, r"line 2: no column 'response'"), (tmp_path / "none.jsonl", "no such file")):
        with pytest.raises(ConfigError, match=rf"^drafter\.pretrain_responses: .*{fault}"):
            check_light(config(random_model, **pretraining(path)))


@pytest.mark.parametrize(("tokens", "minutes", "fits"), [(3, 1, False), (4, 1, True), (0, 1, True), (3, 0, True)])
@pytest.mark.parametrize("path", [None, "builtin", "auto"])
def test_a_drafter_that_is_made_has_tokens_for_all_branches(
    random_model: Path, path: str | None, tokens: int, minutes: int, fits: bool
) -> None:
    """Else its first version would be refused, when all has been trained. For a model of one's own none is built in."""
    asked = config(random_model, drafter={"path": path, "draft_vocabulary": tokens, "pretrain_minutes": minutes})
    with nullcontext() if fits else pytest.raises(ConfigError, match=r"^drafter\.draft_vocabulary: 3 tokens .* 4 branches"):
        check_light(asked)


def test_a_good_run_passes(random_model: Path) -> None:
    good = config(random_model, task=math(SAMPLE), rollout={"max_prompt_tokens": 900})
    check_light(good)
    check(good)
    check(config(random_model))


def test_a_cache_has_room_for_one_request_and_its_drafts(random_model: Path) -> None:
    def limited(tokens: int, speculation: dict[str, object], engine: str = "native") -> RunConfig:
        rollout = {"engine": engine, "cache_tokens": tokens, "max_prompt_tokens": 100, "max_new_tokens": 200}
        return config(random_model, rollout=rollout, speculation=speculation)

    plain: dict[str, object] = {"enabled": False}
    check_light(limited(257, plain))
    with pytest.raises(ConfigError, match=r"^rollout\.cache_tokens: one request may need 512 tokens .*, got 256; set it to 512 or more"):
        check_light(limited(256, plain))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_submission_knows_no_machine_and_the_job_knows_its_own(random_model: Path) -> None:
    """The default trees take 281 positions of a CPU's cache, and 28 of a GPU's."""

    def asked(device: str) -> RunConfig:
        return config(random_model, rollout={"engine": "native", "cache_tokens": 1320}, cluster={"device": device})

    told = r"one request may need 1600 tokens \(max_prompt_tokens=256, max_new_tokens=1024, drafts\), got 1320; set it to 1600 or more"
    for device in ("auto", "cuda"):
        check_light(asked(device))
    with pytest.raises(ConfigError, match=told):
        check_light(asked("cpu"))
    with pytest.raises(ConfigError, match=told):
        check(asked("auto"))


def test_faults_that_submit_can_see(random_model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    cases: list[tuple[RunConfig, type[Exception], str]] = [
        (config(tmp_path / "nothing"), ModelError, "nothing: no such folder; use a built-in model"),
        (config(tmp_path), ModelError, r"no config\.json, so not a Hugging Face model folder"),
        (config(random_model, task=math(tmp_path / "empty.jsonl")), DataError, r"empty\.jsonl: the dataset is empty"),
        (
            config(random_model, rollout={"max_prompt_tokens": 1025, "max_new_tokens": 1024}),
            ConfigError,
            r"rollout\.max_new_tokens: max_prompt_tokens=1025 and max_new_tokens=1024 together exceed the 2048 tokens",
        ),
        (
            config(random_model, drafter={"path": str(tmp_path)}),
            ModelError,
            r"drafter\.path: .* is not a drafter folder: no config\.json; use a folder, builtin, or null for none",
        ),
        (
            config(random_model, drafter={"path": str(DRAFTER), "recipe": "eagle3"}),
            ModelError,
            r"drafter\.path: .* is an eagle drafter, but drafter\.recipe=eagle3 trains eagle3 drafters",
        ),
        (
            config(random_model, drafter={"path": str(DRAFTER)}),
            ModelError,
            r"drafter\.path: .* has hidden_size 160, and that of .* is 64; use a drafter of this model",
        ),
    ]
    for bad, error, message in cases:
        for function in (check_light, check):
            with pytest.raises(error, match=message):
                function(bad)


def test_drafter_folder_does_not_matter_without_speculation(random_model: Path, tmp_path: Path) -> None:
    check_light(config(random_model, drafter={"path": str(tmp_path)}, speculation={"enabled": False}))


def test_too_long_prompt_needs_the_tokenizer(random_model: Path) -> None:
    bad = config(random_model, task=math(SAMPLE), rollout={"max_prompt_tokens": 200})
    check_light(bad)
    with pytest.raises(
        DataError, match=r"gsm8k_sample\.jsonl: line 1: the prompt has \d+ tokens, more than rollout\.max_prompt_tokens=200"
    ):
        check(bad)
    with pytest.raises(DataError, match="a countdown prompt has up to 15 tokens"):
        check(config(random_model, rollout={"max_prompt_tokens": 3}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_that_is_not_there(random_model: Path) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.device: cuda was asked for, but this machine has no usable CUDA device"):
        check(config(random_model, cluster={"device": "cuda"}))
    check(config(random_model, cluster={"device": "cuda", "ray_address": "head:6379"}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_sglang_that_cannot_run_here(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    wanted = config(random_model, rollout={"engine": "sglang"})
    check_light(wanted)
    with pytest.raises(ConfigError, match=r"rollout\.engine: sglang (is not installed; pip install|needs a CUDA device)"):
        check(wanted)
    with pytest.raises(ConfigError, match=r"rollout\.min_p=0\.5"):
        check_light(config(random_model, rollout={"engine": "sglang", "min_p": 0.5}))


def test_a_drafter_that_may_still_be_found_is_not_refused_as_one_that_is_made(random_model: Path) -> None:
    """Nor is it pretrained before the job has refused it, if there is none."""
    rollout = {"engine": "sglang", "sglang": {"tensor_parallel": 2}}
    drafter = {"path": "auto", "recipe": "hass", "pretrain_minutes": 8, "draft_vocabulary": 100}
    refused = pytest.raises(ConfigError, match=r"^drafter\.draft_vocabulary=100: on several GPUs .*; set it to 0 for all tokens")
    check_light(config(random_model, rollout=rollout, drafter=drafter))
    with refused:
        check(config(random_model, rollout=rollout, drafter=drafter))
    with refused:
        check_light(config(random_model, rollout=rollout, drafter=drafter | {"path": None}))


def test_sglang_without_a_compiler_for_its_ngrams(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    speculation = {"strategies": [{"drafter": "ngram", "depth": 2, "verify": 2}]}
    wanted = config(random_model, rollout={"engine": "sglang"}, speculation=speculation, drafter={"spot": {"enabled": False}})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"sglang is not installed|needs c\+\+ and ninja"):
        check(wanted)


def test_tokenizer_that_does_not_fit_the_model(random_model: Path, tmp_path: Path) -> None:
    folder = make_random_model(tmp_path / "model")
    vocabulary = json.loads((folder / "config.json").read_text()) | {"vocab_size": 100}
    (folder / "config.json").write_text(json.dumps(vocabulary))
    shutil.copy(random_model / "model.safetensors", folder)
    with pytest.raises(ModelError, match="the tokenizer has token 258, but the model's vocabulary has 100 tokens"):
        check(config(folder))


def test_light_check_imports_no_torch(random_model: Path) -> None:
    code = (
        "import sys; from engine.config import parse; from engine.preflight import check_light;"
        f"check_light(parse({{'model': {{'path': {str(random_model)!r}}}, 'task': {{'name': 'math', 'path': {str(SAMPLE)!r}}}}}));"
        "print(sorted({'torch', 'transformers', 'ray', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("device", "gpu", "changes", "refused"),
    [
        ("auto", False, {}, False),
        ("cpu", True, {}, False),
        ("auto", True, {}, True),
        ("cuda", False, {}, True),
        ("cuda", True, {"cache_tokens": 50_000}, False),
        ("cuda", True, {"scheduling": {}}, False),
    ],
)
def test_a_policy_learns_beside_a_cache_that_leaves_it_room(device: str, gpu: bool, changes: dict[str, object], refused: bool) -> None:
    rollout = {"scheduling": {"asynchronous": True}} | changes
    asked = parse({"rollout": rollout, "cluster": {"device": device}})
    if refused:
        with pytest.raises(ConfigError, match=r"^rollout\.cache_tokens: .* null, .*; set it to the tokens of prompts and responses"):
            check_overlap(asked, gpu)
    else:
        check_overlap(asked, gpu)


def test_sglang_generates_nothing_beside_an_update(random_model: Path) -> None:
    asked = config(random_model, rollout={"engine": "sglang", "scheduling": {"asynchronous": True}}, speculation={"enabled": False})
    with pytest.raises(ConfigError, match=r"^rollout\.scheduling\.asynchronous=True: .*; set it to false, or rollout\.engine to native$"):
        check_light(asked)


def test_more_workers_than_the_machine_has_memory_for(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would be started one after the other, until nothing else moves."""
    monkeypatch.setattr("engine.cluster.host_memory.total", lambda: 24 * 2**30)
    check(config(random_model, cluster={"workers": 96}, algorithm={"prompts_per_step": 100}))
    many = {"workers": 97}
    with pytest.raises(ConfigError, match=r"^cluster\.workers: 97 workers .* 24 GiB of memory have room for 96 at most"):
        check(config(random_model, cluster=many, algorithm={"prompts_per_step": 100}))
    check(config(random_model, cluster=many | {"ray_address": "10.0.0.1:6379"}, algorithm={"prompts_per_step": 100}))
    sharing = parse(
        {
            "algorithm": {"prompts_per_step": 49},
            "cluster": {"workers": 49},
            "rollout": {"engine": "sglang", "sglang": {"tensor_parallel": 2}},
        }
    )
    with pytest.raises(ConfigError, match=r"49 workers of 2 processes each .* have room for 48 at most"):
        _check_memory(sharing)
