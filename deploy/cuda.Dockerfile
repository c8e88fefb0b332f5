# A gesso server on NVIDIA GPUs. From the root of the repository:
#   docker build -f deploy/cuda.Dockerfile -t gesso:cuda .
# PyTorch's wheels bring CUDA's libraries; the host brings the driver (nvidia-container-toolkit).
FROM python:3.12-slim-bookworm AS build
ARG TORCH=2.13.0
# ray as well for deploy/kuberay.
ARG EXTRAS=server,otel,vision,gguf
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/gesso
ENV PATH=/opt/gesso/bin:$PATH
RUN pip install "torch==${TORCH}"
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# It is this folder that is installed, which has no version to pin.
# hadolint ignore=DL3013
RUN pip install ".[${EXTRAS}]"

FROM python:3.12-slim-bookworm
# Triton compiles a small launcher with the system's compiler when a kernel first runs.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc=4:12.2.0-3 libc6-dev=2.36-9+deb12u* \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin gesso \
    && mkdir -p /models /data && chown 10001:10001 /data
COPY --from=build /opt/gesso /opt/gesso
ENV PATH=/opt/gesso/bin:$PATH PYTHONUNBUFFERED=1 HF_HOME=/models HF_ASSETS_CACHE=/data/assets HF_HUB_OFFLINE=1 HOME=/data \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility TRITON_CACHE_DIR=/data/triton
USER 10001:10001
WORKDIR /data
VOLUME ["/models", "/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=900s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["gesso"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--allowed-hosts", "*", "--device", "cuda"]
