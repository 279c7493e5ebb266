"""Figure builders: plain data in, plotly figure out. None of them knows Streamlit or the API's address."""
