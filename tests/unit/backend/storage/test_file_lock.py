import subprocess
import sys
from pathlib import Path

from backend.storage.file_lock import file_lock

HOLDER = """if True:
    import sys, time
    from pathlib import Path
    from backend.storage.file_lock import file_lock
    with file_lock(Path(sys.argv[1])) as ours:
        print(ours, flush=True)
        time.sleep(600)
"""


def test_one_has_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.lock"
    with file_lock(path) as first, file_lock(path) as second, file_lock(tmp_path / "b.lock") as other:
        assert (first, second, other) == (True, False, True)
    with file_lock(path) as again:
        assert again


def test_it_ends_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path / "a.lock"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with file_lock(tmp_path / "a.lock") as ours:
            assert not ours
        holder.kill()
    with file_lock(tmp_path / "a.lock") as ours:
        assert ours
