"""What people and programs write: names, notes, prompts and log lines, also such as a page has to show as plain text."""

OWNERS: tuple[str | None, ...] = ("anna", "bert", "carl", "dora", "Ευγενία", None)
NAMES = (
    "<script>alert('name')</script>",
    "<b>bold</b> & <img src=x onerror=alert(1)>",
    "\N{ROCKET} from \N{TURTLE} to \N{RABBIT FACE}, third try",
    "تجربة العد التنازلي ٤٢",
    "ניסוי ספירה לאחור",
    "ends in \u202ezip.exe\u202c after an override",
    "長い尾 — 実験 42",
    "'; DROP TABLE runs; --",
    "**bold** `code` [link](javascript:alert(1)) :smile: $x^2$",
    '=HYPERLINK("http://evil.example")',
    "a name of two hundred characters " + "and so on " * 16 + "to end.",
)
NOTES = (
    "The same as last week's, but with the longer limit. See the length histogram: the tail has doubled.",
    "Diverged after step 20; the learning rate was too high.",
    "<h1>Heading</h1><script>document.title = 'notes'</script>",
    "\x1b[31mred\x1b[0m and \x1b[2J a cleared screen",
    "# Markdown\n- [ ] compare with **seed 3**\n- ![pixel](http://evil.example/pixel.png)",
    "من اليمين إلى اليسار, then left to right, \u202eand reversed\u202c again",
    "\N{CHART WITH UPWARDS TREND} best so far \N{PARTY POPPER}",
)
LINES = (
    "\x1b[1;32m[engine]\x1b[0m compiled 12 graphs in 3.2 s \x1b[38;5;208m(cache miss)\x1b[0m",
    "<img src=x onerror=alert('log')> came as text from a data set",
    "\N{WARNING SIGN} prompt 12 ends in \N{FAMILY}\N{ZERO WIDTH JOINER}\N{RABBIT FACE}: 3 tokens for one sign",
    "سطر من السجل \u202ereversed\u202c",
    "progress  10%\rprogress  20%\rprogress 100%\x07",
    "a line of many columns: " + " ".join(f"{number:04d}" for number in range(200)),
)
FAILURES: tuple[tuple[str | None, str], ...] = (
    ("data", "prompts.jsonl: line 7 is not JSON\nmend it, or leave the line out"),
    ("memory", "worker 3 ran out of GPU memory: 79.1 GiB of 80.0 GiB were in use; lower rollout.max_batch"),
    ("lost", "given up after 3 lost attempts; the last: worker process 4711 is gone"),
    ("diverged", "loss is not finite at step {step}; lower algorithm.learning_rate"),
    (None, "the engine broke off with exit code -9"),
    ("task", "<b>my_task:reward</b> raised ValueError: \x1b[31minvalid literal\x1b[0m"),
)
"""Code and text."""

SAMPLES = {
    "countdown": (
        "3 7 25 -> 46 =",
        "3 * 7 = 21\n25 + 21 = 46 <b>ok</b>",
        "3 + 7 = 10\n25 + 10 = 35\nback\ngive up",
    ),
    "word_problems": (
        "Ida buys {n} packs with 12 nuts in each and uses 5 of the nuts. How many nuts are left?",
        "{n} packs with 12 nuts in each, less 5 nuts. {n} * 12 - 5 = {right}. The answer is {right}.",
        "Ida has {n} packs of nuts and uses 5 of them. The answer is {n}.",
    ),
    "math": (
        "A train of {n} wagons takes 12 people in each. How many are in it if 5 seats are free?\nReason step by step.\n",
        "Each wagon takes 12, so {n} wagons take $12 \\cdot {n}$ people. Five seats are free.\n\\boxed{{{right}}}",
        "We need 12 + {n}, which is the number of seats.\n\\boxed{{{n}}}",
    ),
    "choice": (
        "Which of these is a prime?\nA. {n}0\nB. 91\nC. 97\nD. 51\n",
        "{n}0 is even, 91 is 7 times 13, and 51 is 3 times 17. So \\boxed{{C}}",
        "91 is odd and ends in 1. \\boxed{{B}}",
    ),
    "code": (
        "Write f(x) that gives the {n}th multiple of x.\n",
        "```python\ndef f(x):\n    return {n} * x\n```",
        "```python\ndef f(x):\n    return x ** {n}  # <- \N{THINKING FACE}\n```",
    ),
}
"""By task: the prompt, a right answer and a wrong one."""


def sample(task: str, step: int, is_right: bool) -> tuple[str, str]:
    """A prompt of this task and a response to it."""
    prompt, right, wrong = SAMPLES.get(task, SAMPLES["countdown"])
    number = 3 + step % 7
    values = {"n": number, "right": 12 * number - 5}
    return prompt.format(**values), (right if is_right else wrong).format(**values)
