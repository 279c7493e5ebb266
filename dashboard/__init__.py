"""The web dashboard: Streamlit pages over the REST API. ``python -m dashboard`` serves it."""
