# The program alone, without a shell: about 33 MB. Configuration is mounted, state is a volume.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -pgo=cmd/replicator/guide.pgo -ldflags='-s -w' -o /out/replicator ./cmd/replicator \
 && cp /usr/local/go/lib/time/zoneinfo.zip /out/zoneinfo.zip \
 && mkdir /out/state

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/zoneinfo.zip /zoneinfo.zip
COPY --from=build /out/replicator /replicator
# A new named volume takes the owner from here.
COPY --from=build --chown=65534:65534 /out/state /state
ENV ZONEINFO=/zoneinfo.zip
USER 65534:65534
WORKDIR /state
VOLUME /state
EXPOSE 9190
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/replicator", "health", "-c", "/etc/replicator/replicator.toml"]
ENTRYPOINT ["/replicator"]
CMD ["run", "-c", "/etc/replicator/replicator.toml"]
