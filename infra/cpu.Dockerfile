# API, dashboard, and workers without a GPU. Build it from the root of the repository:
#   docker build -f infra/cpu.Dockerfile -t longtail:cpu --build-arg TORCH_INDEX=URL .
# TORCH_INDEX is PyTorch's index of CPU builds, which its install page names. From elsewhere pip may take the CUDA build, 3 GB more.
FROM python:3.11-slim-bookworm AS build
ARG TORCH_INDEX
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/longtail
ENV PATH=/opt/longtail/bin:$PATH
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
# hadolint ignore=DL3013
RUN pip install --no-deps -c constraints.txt torch --index-url "${TORCH_INDEX:?name the index of CPU builds: --build-arg TORCH_INDEX=URL}"
COPY engine engine
COPY backend backend
COPY dashboard dashboard
COPY migrations migrations
# hadolint ignore=DL3013
RUN pip install -c constraints.txt ./backend/client ".[lora,postgres,redis,s3]"

FROM python:3.11-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/longtail/user longtail \
    && install -d -o longtail -g longtail /var/lib/longtail
COPY --from=build /opt/longtail /opt/longtail
ENV PATH=/opt/longtail/bin:$PATH \
    HOME=/var/lib/longtail/user \
    LONGTAIL_HOME=/var/lib/longtail \
    PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0
USER 10001
WORKDIR /var/lib/longtail
VOLUME /var/lib/longtail
EXPOSE 8000 8501
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "backend.api"]
