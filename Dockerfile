# syntax=docker/dockerfile:1

# The operator as one static program in an empty image:
#
#   docker build -t registry.example/orchestr:0.1.0 .
#
# Alpine's Rust builds for musl, statically, on whatever architecture it runs on.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
# Cargo wants to see all that the manifest names, though it builds only the program: tests too.
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY src src
COPY tests tests
# What was downloaded and compiled outlives the layer: a change of the sources compiles the sources.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package orchestr --bin orchestr \
    && cp target/release/orchestr /orchestr

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="orchestr" \
      org.opencontainers.image.description="A Kubernetes operator that reports which pods are broken and why, in the status of one object" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The public CAs. The cluster's own comes with the service account.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /orchestr /orchestr
# Nobody: no such user exists in the image. As in deploy/base/deployment.yaml.
USER 65532:65532
ENTRYPOINT ["/orchestr"]
CMD ["run"]
