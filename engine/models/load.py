"""Models and tokenizers by name and from local Hugging Face folders. Nothing is downloaded here; no pickle is ever loaded.

The modules of models are imported where a model is made: who wants a tokenizer only need not wait for them, which takes seconds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.utils import logging

from engine.drafter.kind import DrafterKind
from engine.errors import ModelError
from engine.models.enlarge import enlarge, enlarge_drafter
from engine.models.folder import DRAFTER, SMALL_LAYERS, SMALL_WIDTH, TINY, home, locate, read_config, read_facts, weight_files

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
PANIC = "pyo3_runtime"
"""The module of what the Rust below tokenizers raises when it gives up, which is no Exception."""


def resolve(path: str) -> Path:
    """The folder that ``locate`` finds (``small`` is made on first use), checked by ``read_facts``."""
    if path == "small":
        return _made("small", TINY, lambda folder: enlarge(TINY, folder, SMALL_WIDTH, SMALL_LAYERS))
    folder = locate(path)
    read_facts(folder)
    return folder


def resolve_drafter(path: str | None, model: str, kind: DrafterKind = "eagle") -> Path | None:
    """The drafter folder for the model path ``model``; None, to start from nothing, if there is no path, or no built-in drafter of
    ``kind`` for it: all are EAGLE drafters."""
    if path not in ("builtin", "auto"):
        return None if path is None else Path(path)
    if kind != "eagle":
        return None
    if model == "small":
        return _made("small-drafter", DRAFTER, lambda folder: enlarge_drafter(DRAFTER, folder, SMALL_WIDTH))
    return DRAFTER if model == "tiny" else None


def load_model(folder: Path, dtype: torch.dtype | str) -> "PreTrainedModel":
    """The causal LM in evaluation mode on the CPU, with every weight from the folder; ModelError names those that are missing or do not
    fit."""
    from transformers import AutoModelForCausalLM

    facts = read_facts(folder)
    with readable(folder):
        config = load_config(folder)
        described = parameters_of(config)
    if described > 2 * facts.parameters:  # the missing ones would be made up first, in memory that there may not be
        raise ModelError(
            f"{folder}: the weights do not fit config.json: a model of its shape has {described:,}, and it has {facts.parameters:,}"
        )
    with readable(folder):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    model: PreTrainedModel = loaded[0]
    if missing := sorted(loaded[1]["missing_keys"]):
        raise ModelError(f"{folder}: {len(missing)} weights are missing, such as {missing[0]}")
    if other := sorted(loaded[1]["mismatched_keys"]):
        name, found, wanted = other[0]
        raise ModelError(f"{folder}: {len(other)} weights do not fit config.json: {name} is {list(found)}, and should be {list(wanted)}")
    if spoilt := [name for name, weight in model.state_dict().items() if not torch.stack(weight.aminmax()).isfinite().all()]:
        raise ModelError(f"{folder}: {len(spoilt)} weights have values that are not finite, such as {spoilt[0]}; copy or download it anew")
    return model


def load_config(folder: Path) -> PretrainedConfig:
    """With the attention of torch, also where config.json names another, which may not be installed. ModelError if only code in the folder
    makes a model of it: that is never run, and nobody is asked whether to."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    described = read_config(folder)
    if described.get("auto_map") and (name := described["model_type"]) not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ModelError(f"{folder}: models of the type {name} need code of the folder's own, which is never run; take another model")
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    config._attn_implementation = "sdpa"
    return config


def load_ends(folder: Path) -> tuple[Tensor, Tensor]:
    """The embedding and the head of the causal LM in ``folder``, and no more of it. ModelError if it has other names for them."""
    found: dict[str, Tensor] = {}
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as tensors:
            found |= {name: tensors.get_tensor(name) for name in (EMBEDDING, HEAD) if name in tensors.keys()}  # noqa: SIM118
    if EMBEDDING not in found:
        raise ModelError(f"{folder}: there is no {EMBEDDING} among the weights")
    return found[EMBEDDING], found.get(HEAD, found[EMBEDDING])


def parameters_of(config: PretrainedConfig) -> int:
    """Of the causal LM that ``config`` describes, which takes no memory for it."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    return model.num_parameters()


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The folder's tokenizer.json as it is (AutoTokenizer replaces parts of a qwen2 tokenizer by those of the published models).

    ModelError if it is not readable, its chat template takes no question, or its tokens go beyond the model's vocabulary.
    """
    facts = read_facts(folder)
    with readable(folder):
        tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        if tokenizer.chat_template:
            tokenizer.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False, add_generation_prompt=True)
        tokenizer(["?"])
    largest = max(tokenizer.get_vocab().values())
    if largest >= facts.vocabulary:
        raise ModelError(f"{folder}: the tokenizer has token {largest}, but the model's vocabulary has {facts.vocabulary} tokens")
    return tokenizer


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """ModelError for whatever is wrong with the files: transformers and tokenizers have no errors of their own for that."""
    try:
        with quiet():
            yield
    except (MemoryError, ImportError, ModelError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__module__ != PANIC:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(f"{folder}: a file in it is damaged, or of another version: {reason[:300]}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without what transformers prints of weights that do not fit: our errors say it in a line."""
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(said)


def end_tokens(model: "PreTrainedModel", tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every token that ends a response, by the generation config, the model config or the tokenizer."""
    generation = model.generation_config
    named = [model.config.eos_token_id, tokenizer.eos_token_id, generation.eos_token_id if generation else None]
    entries = [token for entry in named if entry is not None for token in (entry if isinstance(entry, list) else [entry])]
    if wrong := [entry for entry in entries if type(entry) is not int]:
        raise ModelError(f"{model.config.name_or_path}: eos_token_id: {wrong[0]!r} is no token; mend generation_config.json or config.json")
    tokens = frozenset(entries)
    if not tokens:
        raise ModelError(
            f"{model.config.name_or_path}: no end token (eos_token_id) in generation_config.json, config.json or the tokenizer"
        )
    return tokens


def _made(name: str, source: Path, make: Callable[[Path], None]) -> Path:
    """What ``make`` writes from ``source``, kept in a folder named after its weights. Of processes that race, one rename wins."""
    digest = sha256(b"".join(file.read_bytes() for file in weight_files(source))).hexdigest()[:12]
    folder = home() / "models" / f"{name}-{SMALL_WIDTH}x{SMALL_LAYERS}-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        make(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder
