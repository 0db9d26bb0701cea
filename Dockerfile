# syntax=docker/dockerfile:1
# The image as `make image` builds it, for those who build with an engine: `docker build --build-arg GO_IMAGE=golang:1.26@sha256:… .`
# `make image` needs neither an engine nor a base image. Name the Go image by a digest that you have looked up: a tag moves, and a
# digest that nobody here could check would be worth no more.
ARG GO_IMAGE=golang:1.26
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY agent agent
COPY cmd cmd
COPY cri cri
ARG TARGETOS TARGETARCH VERSION=devel
# The flags of the Makefile: static, and the same bytes wherever it is built.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} GOFLAGS='-trimpath -buildvcs=false' \
    go build -ldflags "-s -X main.version=${VERSION}" -o /prewarm ./cmd/prewarm

FROM scratch
COPY --from=build /prewarm /prewarm
# The runtime's socket belongs to root; the DaemonSet takes every capability away.
USER 0:0
ENTRYPOINT ["/prewarm"]
CMD ["agent"]
