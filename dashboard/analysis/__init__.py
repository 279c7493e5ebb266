"""What a run's data says: pure functions without Streamlit, without requests."""
