"""The file of each page, by which links and buttons name it. Its address is set in app.py."""

RUNS = "views/runs/page.py"
NEW_RUN = "views/new/page.py"
RUN = "views/run/page.py"
COMPARE = "views/compare/page.py"
ARTIFACTS = "views/artifacts/page.py"
WORKERS = "views/workers/page.py"
SETTINGS = "views/settings/page.py"
