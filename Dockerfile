# syntax=docker/dockerfile:1

# Builds an image that contains only the operator, as a static binary:
#
#   docker build -t registry.example/orchestr:0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#
# deploy/release/image builds the same image without Docker, for several platforms and reproducibly. It takes the sources, the labels,
# the user and the command from this file. docs/releasing.md describes both.
#
# Alpine's Rust links statically with musl on every architecture.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
# Cargo requires the files of all targets in the manifest, including tests, although it builds only the binary.
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY src src
COPY tests tests
COPY deploy/release/licenses deploy/release/licenses
ARG REVISION=
# The caches keep downloaded and compiled dependencies, so a change of the sources compiles only the sources.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    ORCHESTR_REVISION=$REVISION cargo build --profile image --locked --package orchestr --bin orchestr \
    && cp target/image/orchestr /orchestr \
    && deploy/release/licenses >/THIRD-PARTY-LICENSES

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="orchestr" \
      org.opencontainers.image.description="A Kubernetes operator that reports which pods are broken and why, in the status of one object" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The public CAs, for webhooks. The cluster's CA is mounted with the service account.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /THIRD-PARTY-LICENSES /licenses/THIRD-PARTY-LICENSES
COPY LICENSE /licenses/LICENSE
COPY --from=build /orchestr /orchestr
# An unprivileged user ID, the same as in deploy/base/deployment.yaml.
USER 65532:65532
ENTRYPOINT ["/orchestr"]
CMD ["run"]
