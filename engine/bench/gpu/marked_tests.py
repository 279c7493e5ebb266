"""The tests that need a GPU."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from engine.bench.gpu.parts import Part
from engine.bench.provenance import ROOT

SHOWN = 2000


def run(part: Part) -> None:
    """How many passed, were skipped for lack of something, and failed, and what pytest says of these."""
    runner = f"pytest {version('pytest')}"
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text(encoding="utf-8")]
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", f"--junitxml={report}", *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"{runner} ended with {done.returncode}: {(done.stdout + done.stderr)[-SHOWN:]}")
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = {} if done.returncode == 0 else {"output": done.stdout[-SHOWN:]}
    part.found(**counts, passed=2 * counts["tests"] - sum(counts.values()), **failed)
