"""How pages reach a browser: what is sent ahead of Streamlit's own server."""
