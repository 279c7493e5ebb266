"""``make gpu``, rehearsed without a GPU: each part runs to its end, or says what it lacks, and leaves a file."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.torch import load_file
from sizes import only_with_all

from engine.bench.gpu import __main__ as command
from engine.bench.gpu import learner_step, process, sglang_plugin, trained_models
from engine.bench.gpu.models import folders
from engine.bench.gpu.parts import EMULATED, FULL, MINUTES, Part
from engine.bench.provenance import ROOT, save
from engine.bench.report import SECTIONS, Measured, at, page
from engine.interruption import INTERRUPTED
from engine.models.enlarge import enlarged_config
from engine.models.folder import DRAFTER, TINY, read_config
from engine.planner.memory import GB
from engine.planner.model_shape import Shape


def ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def read(folder: Path, part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"gpu_{part}.json").read_text(encoding="utf-8"))
    return found


def test_a_part_leaves_figures_that_the_report_shows(tmp_path: Path) -> None:
    assert process.measure("weight_sync", tmp_path / "gpu_weight_sync.json", tmp_path, emulated=True) == "done"
    found = read(tmp_path, "weight_sync")
    assert found["bytes"] > found["parameters"]
    assert found["provenance"]["settings"] == {"emulate": True}
    assert "weights into the engine" in page([Measured("gpu_weight_sync", found, "")])


def test_a_part_that_lacks_a_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.gpu.sglang_decoding.version", lambda _: version("no-such-package"))
    file = tmp_path / "gpu_sglang_decoding.json"
    assert process.measure("sglang_decoding", file, tmp_path, emulated=True) == "there is no package no-such-package"
    assert read(tmp_path, "sglang_decoding")["ended"] == "there is no package no-such-package"


def test_a_part_that_fails_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(part: Part) -> None:
        part.found(first=1)
        raise RuntimeError("out of luck")

    monkeypatch.setattr("engine.bench.gpu.weight_sync.run", run)
    file = tmp_path / "gpu_weight_sync.json"
    assert process.measure("weight_sync", file, tmp_path, emulated=True) == "RuntimeError: out of luck"
    assert read(tmp_path, "weight_sync")["first"] == 1


def test_a_part_that_is_killed_while_it_writes_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(file: Path, result: dict[str, Any], *rest: Any) -> None:
        if "second" in result:
            file.write_text('{"first": 1, "seco', encoding="utf-8")
            raise KeyboardInterrupt
        save(file, result, *rest)

    def run(part: Part) -> None:
        part.found(first=1)
        part.found(second=2)

    monkeypatch.setattr(process, "save", cut_off)
    monkeypatch.setattr("engine.bench.gpu.weight_sync.run", run)
    with pytest.raises(KeyboardInterrupt):
        process.measure("weight_sync", tmp_path / "gpu_weight_sync.json", tmp_path, emulated=True)
    assert read(tmp_path, "weight_sync")["first"] == 1


def test_a_folder_that_nothing_can_be_written_to_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--emulate", "--out", "/proc/self"])  # closed even to root
    assert "--out: nothing can be written to /proc/self" in capsys.readouterr().err


LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
sys.exit(3)
"""


def test_what_a_part_leaves_that_fails_is_ended(tmp_path: Path) -> None:
    written = tmp_path / "pid"
    assert command._run([sys.executable, "-c", LEAVES, str(written)], 60) == 3
    left = int(written.read_text())
    deadline = time.monotonic() + 60
    while not ended(left):
        assert time.monotonic() < deadline
        time.sleep(0.05)


ASLEEP = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from engine.bench.gpu import __main__ as command
command.measure = lambda *_: [command._run([sys.executable, "-c", "import time; time.sleep(60)"], 60)]
sys.exit(command.main(["--emulate", "--out", sys.argv[1]]))
"""


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGHUP])
def test_no_part_outlives_what_has_started_it(tmp_path: Path, ended: signal.Signals) -> None:
    """It would have the GPU still. Nor do models that were made stay. Who ends a whole group of processes sends two signals."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", ASLEEP, str(tmp_path / "out")], cwd=ROOT, env=environment) as process:
        started = psutil.Process(process.pid)
        deadline = time.monotonic() + 60
        while not (children := started.children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:  # to the very end
            process.send_signal(ended)
            time.sleep(0.001)
        assert process.wait(0) == INTERRUPTED
    assert children
    assert not any(child.is_running() for child in children)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


TOO_MUCH = {"7B": "offloaded it takes 166 GB of the host's 128"}


@pytest.mark.parametrize(
    ("gpu", "host", "trained", "left_out"),
    [
        (192, 64, ["7B, on the GPU"], {}),
        (148, 64, ["7B, in shards on the GPU"], {}),
        (80, 200, ["7B, offloaded", "1.5B, on the GPU"], {}),
        (80, 128, ["1.5B, on the GPU"], TOO_MUCH),
        (24, 200, ["1.5B, offloaded", "0.5B, on the GPU"], {"7B": "offloaded it takes 29 GB of the GPU's 24"}),
    ],
)
def test_the_largest_model_that_fits_is_trained(gpu: int, host: int, trained: list[str], left_out: dict[str, str]) -> None:
    """And after one that is offloaded to the host the largest one that need not be."""
    found = trained_models.choice(FULL, gpu * GB, host * GB)
    assert ([str(each) for each in found.trained], found.left_out) == (trained, left_out)
    assert trained_models.configuration(TINY, DRAFTER, FULL, "offloaded").cluster.learner.cpu_offload


@pytest.mark.parametrize(("seconds", "left_out"), [(150, {}), (100, {"tiny, on the GPU": "there was no time left"})])
def test_a_second_model_is_trained_if_there_is_as_much_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, left_out: dict[str, str]
) -> None:
    tried, clock = list[str](), time.monotonic

    def steps(_: Part, trained: trained_models.Trained, __: dict[str, Any]) -> None:
        tried.append(str(trained))

    monkeypatch.setattr(learner_step, "_steps", steps)
    part = Part(EMULATED, tmp_path, lambda _: None, clock() + seconds)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 60 * len(tried))
    learner_step.run(part)
    assert (tried, part.result["left_out"]) == (["tiny, offloaded", "tiny, on the GPU"][: 2 - len(left_out)], left_out)


def test_features_of_models_that_are_made_keep_their_size(tmp_path: Path) -> None:
    scale = replace(EMULATED, models={"wide": (2, 16)})
    model, drafter = folders(Part(scale, tmp_path, lambda _: None), "wide")
    assert Shape.of(read_config(model)) == Shape.of(enlarged_config(TINY, 2, 16, own_head=True))
    norm = "model.norm.weight"
    assert load_file(model / "model.safetensors")[norm].max() == load_file(TINY / "model.safetensors")[norm].max()
    assert read_config(drafter)["target_ties_embeddings"] is False


def test_sglang_finds_our_plugin_without_a_package(tmp_path: Path) -> None:
    with sglang_plugin.discoverable(tmp_path):
        assert os.environ["PYTHONPATH"].split(os.pathsep)[:2] == [str(tmp_path), str(ROOT)]
    found = [entry for one in distributions(path=[str(tmp_path)]) for entry in one.entry_points]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert {each.group: {each.name: each.value} for each in found} == {group: declared[group] for group in ("sglang.srt.plugins",)}


def test_time_that_is_spent_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.measure(["weight_sync"], tmp_path, tmp_path, seconds=1, emulated=True) == [1]
    assert capsys.readouterr().out == "weight_sync: no time is left\n"


def test_a_part_that_takes_too_long_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "SPARE_SECONDS", 0)
    assert command.measure(["weight_sync"], tmp_path, tmp_path, seconds=1, emulated=True) == [1]
    assert "weight_sync: cut off after 1 s" in capfd.readouterr().out


def test_a_part_has_a_share_of_what_those_before_it_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none before it can leave it without."""
    shares = dict[str, float]()
    monkeypatch.setattr(command, "_run", lambda arguments, seconds: shares.update({arguments[3]: seconds}) or 0)
    command.measure(list(MINUTES), tmp_path, tmp_path, 1500 + command.SPARE_SECONDS, emulated=True)
    assert shares["marked_tests"] == pytest.approx(60 * MINUTES["marked_tests"], rel=0.01)
    assert shares["decode_profile"] == pytest.approx(1500, rel=0.01)


def test_nothing_that_was_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a session of its own either, as SGLang is started. The part's time is over as soon as it has started that."""
    started = "subprocess.Popen(['sleep', '600'], start_new_session=True).pid"
    part = f"import pathlib, subprocess, time; pathlib.Path('child').write_text(str({started})); time.sleep(600)"
    file, wait = tmp_path / "child", subprocess.Popen.wait

    def until_started(process: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        if timeout is None:
            return wait(process)
        deadline = time.monotonic() + timeout
        while not (file.exists() and file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess.Popen, "wait", until_started)
    assert command._run([sys.executable, "-c", part, "part"], 60) == 1
    assert ended(int(file.read_text()))


MISTAKES = [
    ("--out: name a folder", ["--emulate"]),
    ("give more than 0", ["--minutes", "0"]),
    ("give more than 0", ["--minutes", "nan"]),
    ("no GPU that PyTorch sees", []),
]


@pytest.mark.parametrize(("says", "options"), MISTAKES)
def test_what_cannot_be_is_told(says: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "gpu", lambda: False)
    with pytest.raises(SystemExit):
        command.main(options)
    assert says in capsys.readouterr().err


def test_a_folder_for_results_that_cannot_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        command.main(["--emulate", "--out", str(tmp_path / "file")])
    assert "--out: " in capsys.readouterr().err


def test_results_are_where_the_folder_was_named_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts run in the folder of the sources."""
    named: list[Path] = []

    def measure(_: object, out: Path, *__: object) -> list[int]:
        named.append(out)
        return []

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.chdir(tmp_path)
    command.main(["--emulate", "--out", "results"])
    assert named == [tmp_path / "results"]


def test_every_part_has_a_module_and_a_section_and_all_fit_into_the_time() -> None:
    shown = {section.bench for section in SECTIONS}
    assert {f"gpu_{part}" for part in MINUTES} <= shown
    assert all((Path(command.__file__).parent / f"{part}.py").is_file() for part in MINUTES)
    assert sum(MINUTES.values()) == 25
    assert list(FULL.models) == ["0.5B", "1.5B", "7B"]
    assert list(EMULATED.models) == ["tiny"]


ONLY_A_GPU_HAS = {"steps/*/peak_bytes", "steps/*/planned_bytes", "left_out/*", "accepted_before", "accepted_after"}
"""Or a longer session."""


@only_with_all
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_whole_is_rehearsed_without_a_gpu(tmp_path: Path) -> None:
    """Every figure of a section is in the file of its part, but those that only a GPU, or a longer session, has."""
    command.main(["--emulate", "--out", str(tmp_path), "--minutes", "240"])
    for part in MINUTES:
        found = read(tmp_path, part)
        assert found["ended"] in ("done", "there is no package sglang"), found
        if found["ended"] == "done":
            section = next(section for section in SECTIONS if section.bench == f"gpu_{part}")
            missing = [figure.key for figure in section.figures if not list(at(found, figure.key.split("/")))]
            assert set(missing) <= ONLY_A_GPU_HAS
            if part == "learner_step":
                assert {name: step["offloaded"] for name, step in found["steps"].items()} == {
                    "tiny, offloaded": True,
                    "tiny, on the GPU": False,
                }
