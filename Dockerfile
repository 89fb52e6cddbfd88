# check=error=true
# A static binary in an image without a shell. Say what it is made of, since .git does not go into the build:
#
#   docker build -t postrider --build-arg VERSION="$(git describe --tags --always --dirty)" \
#     --build-arg COMMIT="$(git describe --always --abbrev=40 --dirty --exclude='*')" \
#     --build-arg DATE="$(git log -1 --format=%cI)" .
#
# Images are named by tag: a release may pin them by digest (docker buildx imagetools inspect IMAGE).

# `build` makes the binary; with `prebuilt` one is taken from the context, as .goreleaser.yaml does it.
ARG BINARY=build

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
# The modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev COMMIT="" DATE=""
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT -X main.date=$DATE" -o /postrider ./cmd/postrider

FROM scratch AS prebuilt
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/postrider /postrider

FROM $BINARY AS binary

# It brings CA certificates, time zones and the user 65532, and nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=dev COMMIT="" DATE=""
LABEL org.opencontainers.image.title="Postrider" \
      org.opencontainers.image.description="Reliable webhooks on PostgreSQL" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/postrider/postrider" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$DATE"
COPY LICENSE /licenses/postrider
COPY --from=binary /postrider /usr/local/bin/postrider
ENV POSTRIDER_HTTP_ADDR=:8080
EXPOSE 8080
# By number: Kubernetes cannot tell of a name that it is not root.
USER 65532:65532
# For Docker, which asks inside the container; Kubernetes asks by HTTP.
HEALTHCHECK --interval=10s --timeout=4s --start-period=60s --start-interval=1s --retries=3 CMD ["/usr/local/bin/postrider", "health"]
ENTRYPOINT ["/usr/local/bin/postrider"]
CMD ["serve"]
