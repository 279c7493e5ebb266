"""The planner against a real model, published figures, and itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from engine.bench import memory as measuring
from engine.config.learner import LearnerConfig, LoraConfig
from engine.drafter import law_loss
from engine.drafter.recipe import RECIPES
from engine.planner import drafter_memory, memory
from engine.planner.__main__ import MOST, main
from engine.planner.answers.basis import model_shape
from engine.planner.drafter_memory import UNROLLS
from engine.planner.memory import GB, HALF, TOKEN, Hardware, Load
from engine.planner.memory_plan import decode_steps, plan
from engine.planner.model_shape import PRESETS, Shape, shape
from engine.planner.published_figures import PublishedFigure, published_figures
from engine.rollout.native.layout.page_table import PAGE
from engine.rollout.native.runner import Runner

FSDP = LearnerConfig(parallel="fsdp", precision="bfloat16", activation_checkpointing=True)
OFFLOADED = FSDP.model_copy(update={"cpu_offload": True})


def test_small_has_the_sizes_that_it_is_made_with() -> None:
    assert shape("small").parameters == pytest.approx(38_778_368, rel=1e-3)  # as ``bench rollout`` counted them, with biases
    assert model_shape("small") == shape("small")


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(tmp_path: Path, family: str, tied: bool) -> None:
    sizes = {"hidden_size": 192, "intermediate_size": 320, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2}
    config = AutoConfig.for_model(family, vocab_size=500, head_dim=32, tie_word_embeddings=tied, **sizes)
    config.save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    assert shape(str(tmp_path)).parameters == pytest.approx(sum(weight.numel() for weight in model.parameters()), rel=2e-3)


@pytest.mark.parametrize(("name", "billions"), [("0.5B", 0.494), ("7B", 7.62), ("8B", 8.03), ("32B", 32.8), ("70B", 70.6)])
def test_presets_are_the_published_models(name: str, billions: float) -> None:
    assert PRESETS[name].parameters / GB == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize("line", published_figures(), ids=lambda line: line.what)
def test_published_figures(line: PublishedFigure) -> None:
    if line.published:
        assert line.predicted == pytest.approx(line.published, rel=0.2)
    else:
        assert line.limit
        assert line.predicted < line.limit


def test_adapters_are_counted_as_peft_makes_them() -> None:
    """LoRA's paper: two matrices, [rank, inputs] and [outputs, rank], of each layer; LLaMA-7B with rank 8 everywhere is 20.0 M."""
    from engine.planner.published_figures import LLAMA

    assert memory.adapters(LLAMA, 8) == 19_988_480


@pytest.mark.parametrize(
    ("model", "hardware", "learner", "load"),
    [
        ("7B", Hardware(nodes=1), FSDP, Load()),
        ("32B", Hardware(nodes=8, tensor_parallel=4), FSDP, Load()),
        ("70B", Hardware(nodes=8, tensor_parallel=8), OFFLOADED, Load(tokens=4096)),
    ],
)
def test_what_runs_on_80_gb_gpus(model: str, hardware: Hardware, learner: LearnerConfig, load: Load) -> None:
    found = plan(PRESETS[model], hardware, learner, load)
    assert found.fits
    assert max(found.phases.values()) <= 80 * GB


@pytest.mark.parametrize(
    ("model", "hardware", "learner"),
    [
        ("7B", Hardware(nodes=1), LearnerConfig()),
        ("32B", Hardware(nodes=1, tensor_parallel=4), FSDP),
        ("70B", Hardware(nodes=8, tensor_parallel=8), FSDP),
        ("70B", Hardware(nodes=1, tensor_parallel=8), FSDP),
    ],
)
def test_what_does_not(model: str, hardware: Hardware, learner: LearnerConfig) -> None:
    assert not plan(PRESETS[model], hardware, learner, Load()).fits


def test_the_learner_has_a_rank_on_every_gpu_however_many_make_a_worker() -> None:
    one, four = (plan(PRESETS["32B"], Hardware(nodes=8, tensor_parallel=gpus), FSDP, Load()).parts for gpus in (1, 4))
    assert one["optimizer"] == four["optimizer"] == 8 * PRESETS["32B"].parameters // 64
    offloaded = [plan(PRESETS["32B"], Hardware(nodes=8, tensor_parallel=gpus), OFFLOADED, Load()).host for gpus in (1, 4)]
    assert offloaded[1] == 4 * offloaded[0]


def test_what_is_pinned_takes_powers_of_two_of_the_host() -> None:
    """Weights and gradients: with widths that are such powers no more than they are, else up to twice as much."""
    even, odd = Shape(2, 1024, 4096, 8, 2, 128, 2**15, True), Shape(2, 1024, 4100, 8, 2, 128, 2**15, True)
    found = [plan(shape, Hardware(gpus=1), OFFLOADED, Load(reference=False)).host for shape in (even, odd)]
    assert found[0] == pytest.approx(16 * even.parameters, rel=1e-3)
    more = 2 * 4 * 2 * 3 * 1024 * 2**13 - 2 * 4 * 2 * 3 * 1024 * 4100
    assert found[1] == pytest.approx(16 * odd.parameters + more, rel=1e-3)


def test_what_is_left_is_the_caches() -> None:
    """With exactly as much cache as there is room for, a GPU is full to the last token."""
    hardware = Hardware()
    most = plan(PRESETS["7B"], hardware, FSDP, Load(requests=1, drafter=False)).cache
    full = plan(PRESETS["7B"], hardware, FSDP, Load(requests=1, context=most // PAGE * PAGE, drafter=False))
    assert (full.cache, full.together) == (most, 1)
    assert 0 <= hardware.memory - full.phases["rollout"] < PAGE * memory.position(PRESETS["7B"], Load(drafter=False))
    assert plan(PRESETS["7B"], hardware, FSDP, Load(requests=1, context=most + PAGE, drafter=False)).together == 0


def test_more_than_fits_at_once_waits() -> None:
    """128 requests of 7 B to 32 k tokens, on one GPU that trains the drafter in the tail and updates with offload."""
    load = Load(requests=128, context=32_768, reference=False)
    found = plan(PRESETS["7B"], Hardware(gpus=1), OFFLOADED, load)
    assert found.fits
    assert 1 <= found.together < 128
    assert found.together == found.cache // 32_768
    assert memory.engine(PRESETS["7B"], Hardware(), load)["KV cache"] > 3 * 80 * GB, "which is what they all would take"


def test_what_a_rollout_leaves_beside_its_cache_grows_with_its_batch() -> None:
    """Of 7 B, as ``engine/README.md`` says."""
    gigabytes = [decode_steps(PRESETS["7B"], Load(requests=requests)) / GB for requests in (8, 32, 128)]
    assert gigabytes == pytest.approx([3.8, 7.2, 13.1], abs=0.05)
    assert decode_steps(PRESETS["7B"], Load(requests=MOST - 1)) > 13 * GB, "in no time, whatever is asked for"


def test_a_sequence_is_never_cut_into_micro_batches() -> None:
    """So whatever a micro-batch is to have at most, an update has room for the longest sequence."""
    learner = OFFLOADED.model_copy(update={"activation_checkpointing": False})
    short, long = (plan(PRESETS["7B"], Hardware(gpus=1), learner, Load(tokens=2_048, context=context)) for context in (4_096, 32_768))
    assert short.fits
    assert not long.fits
    assert long.parts["activations"] == 8 * short.parts["activations"] == 16 * memory.passes(PRESETS["7B"], learner, 2_048)["activations"]


def test_a_position_takes_what_the_engine_has_of_one(tmp_path: Path) -> None:
    """Of a real cache, by its tensors: with a drafter, and without."""
    sizes = {"hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2}
    config = AutoConfig.for_model("qwen2", vocab_size=50, **sizes)
    config.save_pretrained(tmp_path)
    for drafter in (False, True):
        cache = Runner(config, torch.empty(0, dtype=torch.float32), drafter, cache_tokens=640)
        cache.reserve(2, 320)
        held = [cache.cache.tokens, cache.cache.features, cache.cache._store]
        values = (memory.position(shape(str(tmp_path)), Load(drafter=drafter)) - TOKEN) // HALF
        assert sum(tensor.nbytes for tensor in held) == (640 + PAGE) * (TOKEN + 4 * values)  # a CPU computes in float32


def test_each_way_to_save_memory_saves_it() -> None:
    def update(**changes: object) -> int:
        return plan(PRESETS["7B"], Hardware(), FSDP.model_copy(update=changes), Load()).phases["update"]

    assert update(cpu_offload=True) < update(lora=LoraConfig()) < update() < update(activation_checkpointing=False)
    assert update() < update(precision="float32")
    assert plan(PRESETS["7B"], Hardware(nodes=4), FSDP, Load()).phases["update"] < update()


SMALL, WORDY = Shape(4, 128, 448, 4, 2, 32, 2048, True), Shape(1, 64, 128, 2, 1, 32, 8192, True)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    measuring.write_model(SMALL, folder)
    return folder


@pytest.mark.parametrize("arm", measuring.ARMS)
def test_an_update_takes_what_was_computed_part_by_part(small_model: Path, monkeypatch: pytest.MonkeyPatch, arm: str) -> None:
    """With logits in blocks, as at a real vocabulary; all tensors are counted. The benchmark has a model of 0.5 B."""
    monkeypatch.setattr("engine.policy.training.logprobs.LOGITS_AT_ONCE", 2**14)
    monkeypatch.setattr(memory, "LOGITS_AT_ONCE", 2**14)
    measured, computed = measuring.measured_update(small_model, SMALL, measuring.learner(arm), 2)
    assert {name: computed[name] / measured[name] for name in measured} == pytest.approx(dict.fromkeys(measured, 1.0), abs=0.1)


@pytest.mark.parametrize("recipe", ["eagle", "hass", "eagle3"])
def test_a_drafters_step_takes_what_was_computed(small_model: Path, recipe: str) -> None:
    measured, computed = measuring.measured_drafter_step(small_model, SMALL, recipe, 256)
    assert {name: computed[name] / measured[name] for name in measured} == pytest.approx(dict.fromkeys(measured, 1.0), abs=0.1)


@pytest.mark.parametrize(("sizes", "tokens"), [(SMALL, 256), (WORDY, 512)], ids=["steps take most", "judgements take most"])
def test_a_session_takes_what_was_computed(tmp_path: Path, sizes: Shape, tokens: int) -> None:
    """With the copies of the drafter that it has."""
    measuring.write_model(sizes, tmp_path)
    measured, computed = measuring.measured_drafter_session(tmp_path, sizes, "eagle", tokens)
    assert {name: computed[name] / measured[name] for name in measured} == pytest.approx(dict.fromkeys(measured, 1.0), abs=0.1)
    step = drafter_memory.step(sizes, "eagle", 2, tokens, half=False, on_gpu=False)
    copies = 4 * drafter_memory.COPIES * memory.drafter_parameters(sizes)
    assert (computed["session"] > copies + step) == (sizes is WORDY)


def test_the_largest_step_of_a_drafter_has_room() -> None:
    """EAGLE-3 at a vocabulary of 152,064: of its seven passes no more than a block of laws is there at a time."""
    parts = drafter_memory.step_parts(PRESETS["7B"], "eagle3", UNROLLS["eagle3"], 1024, half=True, on_gpu=True)
    assert parts["laws or gradients"] < 0.7 * GB
    assert {name: recipe.unroll for name, recipe in RECIPES.items()} == UNROLLS
    assert (drafter_memory.BLOCK, drafter_memory.ROWS) == (law_loss.ELEMENTS, law_loss.ROWS)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; sys.argv = ['longtail', 'plan-memory', '7B', '--json']; from backend.cli import app; app()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["fits"] is True
    assert main(["70B"]) == 1
    assert "DOES NOT FIT" in capsys.readouterr().out
    assert main(["no-such-model"]) == 2
    assert "no such folder; use 0.5B, 7B, 8B, 32B, 70B, a name" in capsys.readouterr().err
    assert main(["7B", "--parallel", "ddp", "--cpu-offload"]) == 2
    assert "needs parallel=fsdp" in capsys.readouterr().err
    assert main(["7B", "--tensor-parallel", "3"]) == 2
    assert main(["tiny"]) == 0, "as of `longtail models`"
    assert main(["--known"]) == 0
    with pytest.raises(SystemExit):
        main(["--known", "--json"])
    assert "predicted" in capsys.readouterr().out
