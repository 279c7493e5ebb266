"""The dashboard as one web application: Streamlit's pages behind the door."""

from pathlib import Path

import pandas as pd  # noqa: F401 - before the first page, or two of them import half of it at the same time
import streamlit as st
from starlette.middleware import Middleware

from dashboard.auth import login
from dashboard.auth.session_middleware import SessionMiddleware
from dashboard.serving import typed_addresses
from dashboard.serving.compressed_files import CompressedFiles
from dashboard.serving.preloaded_files import PreloadedFiles

MIDDLEWARE = [Middleware(each) for each in (SessionMiddleware, CompressedFiles, PreloadedFiles)]

app = st.App(Path(__file__).with_name("app.py"), routes=[*login.ROUTES, *typed_addresses.ROUTES], middleware=MIDDLEWARE)
