# A static binary in an image without a shell: docker build --build-arg VERSION=$(git describe --tags --always) -t postrider .
FROM golang:1.26 AS build
WORKDIR /src
# The modules first: they change less often than the code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /postrider ./cmd/postrider

FROM busybox:1.37-musl AS busybox

# It brings CA certificates, time zones and the user `nonroot` (uid 65532), and nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /postrider /usr/local/bin/postrider
# For health checks by Docker, which runs them inside the container; static, 1 MB.
COPY --from=busybox /bin/busybox /usr/local/bin/wget
ENV POSTRIDER_HTTP_ADDR=:8080
EXPOSE 8080
USER nonroot:nonroot
ENTRYPOINT ["/usr/local/bin/postrider"]
CMD ["serve"]
