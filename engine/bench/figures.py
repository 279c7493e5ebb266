"""Which figures of a benchmark's result stand in the report: their words, where they are in the result, and how they are written.

A key is a path through the result, its parts with a slash between them. ``*`` stands for every name there; the label tells which (``{}``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

SECONDS, MILLISECONDS, MEGABYTES = "{:g} s", "{:g} ms", "{:g} MB"
TIMES, PERCENT, PERCENTS = "{:.2f}x", "{:.0%}", "{:.2%}"


@dataclass(frozen=True)
class Figure:
    """``least`` and ``most``: the keys of its range, or ``least`` alone that of a pair of them."""

    label: str
    key: str
    form: str = "{}"
    least: str | None = None
    most: str | None = None


@dataclass(frozen=True)
class Section:
    """What ``longtail bench NAME``, or another ``command``, says."""

    bench: str
    title: str
    about: str
    figures: tuple[Figure, ...]
    command: str = ""


def _spread(label: str, key: str) -> Figure:
    return Figure(label, f"{key}/median", TIMES, f"{key}/least", f"{key}/most")


def _scale(name: str, words: str) -> Iterator[Figure]:
    """Of one scale of ``bench e2e``."""
    share = f"{name}/rollout_share"
    yield Figure(f"{words}: rollout's share of a plain step", f"{share}/median", PERCENT, f"{share}/least", f"{share}/most")
    for arm, told in (("ngram", "n-gram drafts alone"), ("static", "drafter not trained any further"), ("tlt", "all of TLT")):
        found = f"{name}/arms/{arm}"
        yield Figure(f"{words}, {told}: whole run", f"{found}/e2e", TIMES, f"{found}/e2e_min", f"{found}/e2e_max")
        yield _spread(f"{words}, {told}: rollout", f"{found}/rollout_speedup")
    yield Figure(f"{words}: idle worker time used, by seed", f"{name}/arms/tlt/harvest", PERCENT)


E2E = Section(
    "e2e",
    "Whole runs against plain decoding",
    "RL runs of two workers, each arm in turn with the same seeds; medians over seeds, and the least and most of them. "
    "In float32 the rewards of all arms are equal, step by step and to the bit. `tiny` runs in float32 for 8 steps, `small` in "
    "bfloat16 for 4, both with 8 prompts x 4 responses a step. `uniform` is the case that speculation cannot win: 64 requests "
    "at once, cut after 16 tokens. The gain follows the rollout's share of a step.",
    (*_scale("demo", "`tiny`"), *_scale("small", "`small`"), *_scale("uniform", "`uniform`")),
)

ROLLOUT = Section(
    "rollout",
    "Decoding, by requests at once",
    "Model `small`, responses of at least 128 tokens, one thread, medians of two repetitions. Speed-ups are against plain decoding of "
    "the same requests; those of whole rollouts are of the sum of four. "
    "A strategy is named by depth/top_k/verify. The tuners' figures include their trials. In brackets: requests at once.",
    (
        Figure("plain, tokens per second", "batches/*/plain_tok_s", "{:.0f}"),
        Figure("best fixed strategy", "batches/*/best_speedup", TIMES),
        Figure("which one that is", "batches/*/best_arm"),
        Figure("goodput tuner (it also uses n-grams)", "batches/*/goodput_speedup", TIMES),
        Figure("BEG-MAB", "batches/*/beg_speedup", TIMES),
        Figure("n-gram drafter alone, depth 8", "batches/*/ngram_speedup", TIMES),
        Figure("goodput with an untrained drafter", "batches/*/untrained_speedup", TIMES),
        Figure("plain against transformers' `generate`", "batches/*/plain_vs_hf", "{:.1f}x"),
        Figure("whole rollouts in groups of 8: requests in each", "long_tail/requests"),
        Figure("whole rollouts: TLT", "long_tail/speedup", TIMES),
        Figure("whole rollouts: n-gram drafts alone", "long_tail/ngram_speedup", TIMES),
        Figure("whole rollouts: an untrained drafter", "long_tail/untrained_speedup", TIMES),
    ),
)

TUNER = Section(
    "tuner",
    "How well and how fast strategies are chosen",
    "The goodput tuner against the best strategy, by the measured rates of what it chooses. In brackets: requests at once.",
    (
        Figure("share of the best strategy's rate", "oracle_ratio/*", PERCENT),
        Figure("decisions until it is within 5 %, at most", "decisions_to_95"),
        Figure("decisions after the drafter was swapped", "readapt_decisions"),
        Figure("share of a decode step that tuner and bookkeeping take", "overhead/learned/*", PERCENTS),
        Figure("the same with n-gram drafts alone, look-ups included", "overhead/ngrams/*", "{:.1%}"),
        Figure("plain decode steps that turning speculation on takes", "switch_on_plain_steps/*"),
    ),
)

LOSSLESS = Section(
    "lossless",
    "Speculation changes nothing",
    "Responses with and without speculation, and samples of four laws that can be enumerated, with drafts by an untrained drafter.",
    (
        Figure("greedy prompts, and as many that are sampled", "greedy_prompts"),
        Figure("greedy responses that differ", "greedy_mismatches"),
        Figure("sampled responses that differ", "sampled_mismatches"),
        Figure("log-probabilities compared", "logprobs", "{:,}"),
        Figure("largest difference of one", "logprob_max_abs_diff", "{:.1e}"),
        Figure("p-value of each law", "laws/*/p_value", "{:.2f}"),
        Figure("samples of each", "laws/*/samples", "{:,}"),
    ),
)

LEARNING = Section(
    "learning",
    "What is learned is the same",
    "`tiny`, 100 steps, two workers, float32, with and without speculation. Where curves part, a near tie was rounded otherwise.",
    (
        Figure("steps with rewards equal to the bit, by seed", "same_steps"),
        Figure("reward at the end with TLT, by seed", "reward_final/tlt", "{:.3f}"),
        Figure("mean difference of rollout's and training's log-probs, TLT", "logprob_gap/tlt", "{:.1e}"),
        Figure("the same, plain", "logprob_gap/plain", "{:.1e}"),
    ),
)

ALGORITHMS = Section(
    "algorithms",
    "Every algorithm learns",
    "`tiny` on countdown, 60 steps of 8 prompts x 8 responses, learning rate 2e-5. Means of the first and of the last ten steps over "
    "three seeds, and the standard deviation over seeds of the latter.",
    (Figure("`{}`", "algorithms/*", "{start:.3f} to {end:.3f} ± {spread:.3f}"),),
)

SPOT = Section(
    "spot",
    "Training the drafter in idle time",
    "Runs of `tiny` whose policy moves (learning rate 1e-4, 24 steps). Tokens a pass are those that one pass of the target brings. The "
    "ratio of step times compares training in every step with the same drafter untrained.",
    (
        Figure("tokens a pass, first drafter on the first policy", "accept_base", "{:.2f}"),
        Figure("tokens a pass, first drafter on the last policy", "accept_static", "{:.2f}"),
        Figure("tokens a pass, drafter trained on the spot", "accept_adaptive", "{:.2f}"),
        Figure("idle worker time used", "harvest", PERCENT),
        Figure("step with training / without", "step_time_ratio", "{:.3f}", "step_time_range"),
        Figure("until a worker has stopped training", "stop_latency_s", SECONDS),
        Figure("accept length by step, from no drafter", "from_random_accept", "{:.2f}"),
        Figure("tokens a pass without the running step's long responses", "data/partial_buffered_ratio", "{:.1%}"),
        Figure("the same without those of the step before", "data/partial_ratio", "{:.1%}"),
    ),
)

PACKING = Section(
    "packing",
    "Packed rows",
    "Samples a second that spot training takes of one long-tailed mix, on one thread.",
    (
        Figure("packed rows", "packed_samples_s", "{:.0f}/s", "spread/packed"),
        Figure("padded batches of the same bound", "padded_samples_s", "{:.0f}/s", "spread/padded"),
        Figure("padded batches, sorted by length first", "bucketed_samples_s", "{:.0f}/s", "spread/bucketed"),
        Figure("packed against padded", "speedup", TIMES),
    ),
)

CHECKPOINT = Section(
    "checkpoint",
    "Checkpoints of the drafter",
    "How long training stands still for one. A vocabulary of 151,936 tokens is Qwen2.5's; `selective` leaves the frozen embedding out.",
    (
        Figure("{}: written by the training itself", "models/*/sync_ms", MILLISECONDS),
        Figure("{}: written by a thread", "models/*/async_ms", MILLISECONDS),
        Figure("{}: selective, by a thread", "models/*/selective_ms", MILLISECONDS),
    ),
)

GRAPHS = Section(
    "graphs",
    "CUDA graphs",
    "How many have to be captured for TLT's four strategies. On a CPU a stand-in for CUDA counts them.",
    (
        Figure("with TLT's pool", "captures"),
        Figure("each strategy with its own for all batch sizes", "captures_naive"),
    ),
)

MEMORY = Section(
    "memory",
    "Memory of an update",
    "A random model of 0.5 B, bfloat16 with float32 weights, an update of 2,048 tokens on a CPU: measured, and what the planner says.",
    (
        Figure("{}: measured", "arms/*/measured_gb", "{:g} GB"),
        Figure("{}: computed", "arms/*/predicted_gb", "{:g} GB"),
    ),
)

PLAN = Section(
    "plan",
    "Memory of large models",
    "Gigabytes on the fullest of GPUs of 80 GB: computed, not measured.",
    (Figure("{}: rollout / drafter training / update", "plans/*", "{rollout} / {drafter} / {update} GB"),),
    command="longtail plan-memory",
)

RECIPES = Section(
    "recipes",
    "Recipes of drafter training",
    "All start from the same random drafter of their kind and train on the same responses in the same order.",
    (
        Figure("{}: accept length of chains", "recipes/*/accept_length", "{:.2f}"),
        Figure("{}: cost as a multiple of EAGLE's", "recipes/*/cost", "{:.2f}"),
    ),
)

SCHEDULING = Section(
    "scheduling",
    "Scheduling of the tail",
    "Whole runs of plain decoding with each way to schedule a rollout's tail.",
    (
        Figure("{}: seconds a step", "arms/*/step_s", SECONDS),
        Figure("{}: speed-up of the run", "arms/*/speedup", TIMES),
    ),
)

TIMELINES = Section(
    "timelines",
    "The picture of the README",
    "One step of a plain run and of a TLT run with the same seed: the one whose speed-up is the median of all steps.",
    (
        Figure("the step", "step"),
        Figure("plain", "plain/seconds", SECONDS),
        Figure("TLT", "tlt/seconds", SECONDS),
        Figure("speed-up", "speedup", TIMES),
    ),
)


def _database(name: str, words: str) -> Iterator[Figure]:
    yield Figure(f"{words}: points a second", f"{name}_points_s", "{:,}")
    yield Figure(f"{words}: a batch, median", f"{name}_p50_ms", MILLISECONDS)
    yield Figure(f"{words}: a batch, 99th percentile", f"{name}_p99_ms", MILLISECONDS)
    yield Figure(f"{words}: acknowledged points that were lost", f"{name}_lost")


INGEST = Section(
    "ingest",
    "Ingestion",
    "Batches of 100 points by 8 writers, each request authenticated. Then the API is killed and every acknowledged point looked for.",
    (*_database("sqlite", "SQLite"), *_database("postgres", "PostgreSQL")),
)


def _requests(prefix: str, words: str) -> Iterator[Figure]:
    told = {
        "list": "50 of 10,000 runs, filtered and sorted",
        "chart": "chart of a run of a million points",
        "compare": "10 runs x 1,000 steps with 3 charts",
    }
    for name, request in told.items():
        for share in ("p50", "p99"):
            yield Figure(f"{words}: {request}, {share}", f"{prefix}{name}_{share}_ms", MILLISECONDS)
    yield Figure(f"{words}: start of the API", f"{prefix}start_s", SECONDS)
    yield Figure(f"{words}: memory of the API", f"{prefix}idle_mb", MEGABYTES)


API = Section(
    "api",
    "The API",
    "Requests for lists, charts and comparisons, and what the API costs while it has nothing to do.",
    (*_requests("", "SQLite"), *_requests("postgres_", "PostgreSQL")),
)

PAGES = Section(
    "pages",
    "Pages of the dashboard",
    "Warm, in headless Chromium, median of 7 loads: until a page is at rest and all its charts are drawn.",
    (
        Figure("1,000 runs", "runs_s", SECONDS, most="runs_max_s"),
        Figure("a run", "run_s", SECONDS, most="run_max_s"),
        Figure("a run with 200 metrics", "run_200_keys_s", SECONDS, most="run_200_keys_max_s"),
        Figure("a run of a million points", "run_long_s", SECONDS, most="run_long_max_s"),
        Figure("10 runs compared", "compare_s", SECONDS, most="compare_max_s"),
    ),
)

PLATFORM = Section(
    "platform",
    "The whole platform",
    "API, worker and dashboard together while they have nothing to do, and the cancelling of a run at work.",
    (
        Figure("memory, idle", "platform_idle_mb", MEGABYTES),
        Figure("until a run is cancelled", "cancel_s", SECONDS),
        Figure("processes that are left of it", "left"),
    ),
)

SECTIONS = (
    E2E,
    ROLLOUT,
    TUNER,
    LOSSLESS,
    LEARNING,
    ALGORITHMS,
    SPOT,
    PACKING,
    CHECKPOINT,
    GRAPHS,
    MEMORY,
    PLAN,
    RECIPES,
    SCHEDULING,
    TIMELINES,
    INGEST,
    API,
    PAGES,
    PLATFORM,
)
