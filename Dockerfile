# The production image: the worker, and the command line client to look around with.
# It is built from the root module alone; see .dockerignore for what it is not given.
FROM golang:1.26.8 AS build
WORKDIR /src
# No workspace: the nested modules need far more than these two programs.
ENV GOWORK=off CGO_ENABLED=0
# The modules in a layer of their own: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The version that the programs say, such as v0.1.0.
ARG VERSION
RUN go build -trimpath -ldflags="-s -w -X github.com/threadmill/threadmill/internal/buildinfo.release=$VERSION" -o /out/ ./worker ./starter

# Just the client, for those who need no more: docker build --target starter .
FROM scratch AS starter
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/starter /usr/local/bin/starter
# A release adds the licences of all that is in the program.
COPY LICENSE NOTICES-starter.tx[t] /usr/share/doc/threadmill/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/starter"]

# Not from scratch: the tool shell_cmd runs its commands here and needs a shell, and
# the health check of the API needs wget.
FROM alpine:3.22 AS worker
# Certificates for the providers of models. The user's number is fixed, so that volumes
# and policies can name it.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
RUN addgroup -g 65532 threadmill \
 && adduser -D -u 65532 -G threadmill -h /srv/threadmill threadmill \
 && install -d -o threadmill -g threadmill /srv/threadmill/workspace \
 && install -d -m 700 -o threadmill -g threadmill /srv/threadmill/recovery
COPY --from=build /out/worker /out/starter /usr/local/bin/
COPY LICENSE NOTICES-worker.tx[t] /usr/share/doc/threadmill/
# Where shell_cmd works unless configured otherwise: the folder "workspace" from here.
WORKDIR /srv/threadmill
USER 65532:65532
EXPOSE 8080
CMD ["worker"]
