# Workers with an NVIDIA GPU and SGLang. Build it from the root of the repository:
#   docker build -f infra/gpu.Dockerfile -t longtail:gpu .
# The base has nvcc, a compiler and ninja, with which SGLang builds kernels on first use. Run it with --gpus all --shm-size 2g.
FROM nvidia/cuda:12.9.1-devel-ubuntu24.04
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap g++ libnuma1 ninja-build python3-dev python3-venv tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/longtail/user longtail \
    && install -d -o longtail -g longtail /var/lib/longtail
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/longtail
ENV PATH=/opt/longtail/bin:$PATH \
    HOME=/var/lib/longtail/user \
    LONGTAIL_HOME=/var/lib/longtail \
    PYTHONUNBUFFERED=1 \
    RAY_USAGE_STATS_ENABLED=0
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY engine engine
COPY backend backend
COPY dashboard dashboard
COPY migrations migrations
# hadolint ignore=DL3013
RUN pip install -c constraints.txt ./backend/client ".[lora,postgres,redis,s3,sglang]"
USER 10001
WORKDIR /var/lib/longtail
VOLUME /var/lib/longtail
# A worker has no port. That it looks for runs shows in this file; whether one was seen at all, GET /readyz of the API says.
ENV LONGTAIL_ALIVE_FILE=/tmp/longtail-worker
HEALTHCHECK --interval=30s --timeout=15s --start-period=120s --retries=4 \
    CMD ["sh", "-c", "find /tmp/longtail-worker -mmin -1 | grep -q . && nvidia-smi --list-gpus"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "backend.jobs.worker"]
