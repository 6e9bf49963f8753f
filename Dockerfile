# One image for every command: python -m workers.lifecycle, .dispatcher, .watcher, .scheduler, and crawlctl.
#
# The base's tag names an exact version; a registry may put another image under it all the same. What may not change between two
# builds is named by its digest: --build-arg BASE=python:3.11.15-slim-bookworm@sha256:..., where
# `docker buildx imagetools inspect python:3.11.15-slim-bookworm` tells it.
ARG BASE=python:3.11.15-slim-bookworm

FROM ${BASE} AS build
WORKDIR /source
COPY deploy/image deploy/image
COPY pyproject.toml README.md ./
COPY crawler_lifecycle crawler_lifecycle
COPY workers workers
RUN deploy/image/install.sh /app

FROM ${BASE}
COPY --from=build /app /app
RUN install -d -o 1000 -g 1000 /state
# nothing is written at run time but below /tmp and the folder of CRAWLER_STATE
ENV PATH=/app/bin:$PATH \
    HOME=/tmp \
    CRAWLER_STATE=/state \
    CRAWLER_LOG__FORMAT=json \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 1000:1000
CMD ["crawlctl", "--help"]
