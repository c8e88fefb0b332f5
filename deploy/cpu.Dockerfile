# A gesso server or router on CPUs. From the root of the repository:
#   docker build -f deploy/cpu.Dockerfile -t gesso:cpu .
FROM python:3.12-slim-bookworm AS build
ARG TORCH=2.13.0
# ray as well for deploy/kuberay.
ARG EXTRAS=server,otel,vision,gguf
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/gesso
ENV PATH=/opt/gesso/bin:$PATH
RUN pip install "torch==${TORCH}" --index-url https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# It is this folder that is installed, which has no version to pin.
# hadolint ignore=DL3013
RUN pip install ".[${EXTRAS}]"

FROM python:3.12-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin gesso \
    && mkdir -p /models /data && chown 10001:10001 /data
COPY --from=build /opt/gesso /opt/gesso
ENV PATH=/opt/gesso/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/models HF_ASSETS_CACHE=/data/assets HF_HUB_OFFLINE=1 HOME=/data
USER 10001:10001
WORKDIR /data
VOLUME ["/models", "/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["gesso"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--allowed-hosts", "*"]
