# The operator with bash, jq, curl, openssl, helm and kubectl. A base image: add modules and hooks to it (examples/image).
#   docker build .                                            everything from the internet
#   npm run image:context && docker build --build-arg BUNDLE=context --build-arg TOOLS=context .
#                                                             bundle and binaries of this checkout; only packages of Debian are downloaded
#   docker build --target go-compatible --build-arg RUNTIME=node:24-alpine .
#                                                             a base for Dockerfiles that were written for the images of
#                                                             the Go operator (docs/guides/migrating.md, "Dockerfiles")
# By digest: what was reviewed is what is built on. renovate raises them.
ARG BASE=node:24-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
# What the operator runs on: Debian or Alpine with Node, as node:24-bookworm-slim and node:24-alpine are.
ARG RUNTIME=${BASE}
# build | context: npm in the image build, or the dist/ of the build context.
ARG BUNDLE=build
# download | context: helm and kubectl from their release sites by checksum (built with Go where none is pinned), or
# build/bin/<arch>/ of the build context.
ARG TOOLS=download
ARG GO=golang:1.26-bookworm@sha256:551752d3ad9de9923190bf5280500617ed8fee287ffb4b0220e770ef89346258

FROM --platform=$BUILDPLATFORM ${BASE} AS bundle-build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit
COPY tsconfig.json ./
COPY scripts ./scripts
COPY crds ./crds
COPY shell ./shell
COPY page ./page
COPY src ./src
# What `addon-operator --version` says: VERSION for a release, else the commit that REVISION names.
ARG VERSION
ARG REVISION
RUN BUILD_VERSION="$VERSION" BUILD_REVISION="$REVISION" npm run build
# The bundle's native part is that of this machine; another target gets its own, also in the lists of licences and parts.
ARG TARGETARCH
RUN cpu="$(echo "$TARGETARCH" | sed s/amd64/x64/)"; modules=dist/node_modules/@koromix; \
  [ -d "$modules/koffi-linux-$cpu" ] || { \
    rm -rf node_modules "$modules" \
    && npm ci --omit=dev --ignore-scripts --no-audit --os=linux --cpu="$cpu" \
    && cp -r node_modules/@koromix "$modules" \
    && sed -i "s/koffi-linux-$(node -p process.arch)/koffi-linux-$cpu/g" dist/THIRD-PARTY-LICENSES dist/sbom.spdx.json; }

FROM scratch AS bundle-context
COPY dist /src/dist

FROM bundle-${BUNDLE} AS bundle

FROM --platform=$BUILDPLATFORM ${GO} AS go

FROM --platform=$BUILDPLATFORM ${BASE} AS tools-download
ARG TARGETARCH
WORKDIR /setup
COPY --from=go /usr/local/go /usr/local/go
COPY --from=go /etc/ssl/certs /etc/ssl/certs
COPY scripts/setup ./
# Nothing is used unchecked: by scripts/setup/checksums.json, or by go.sum.
RUN node image-tools.mjs "$TARGETARCH" /tools

FROM scratch AS tools-context
ARG TARGETARCH
COPY build/bin/${TARGETARCH} /tools

FROM tools-${TOOLS} AS tools

FROM ${RUNTIME} AS operator
# A Python for hooks that want one: --build-arg EXTRA_PACKAGES=python3
ARG EXTRA_PACKAGES=""
RUN packages="bash ca-certificates curl jq openssl sed tini ${EXTRA_PACKAGES}" \
  && if command -v apk >/dev/null; then apk add --no-cache $packages; \
    else apt-get update && apt-get install -y --no-install-recommends $packages; fi \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /opt/yarn-* /usr/local/bin/yarn*
COPY --from=tools --chmod=755 /tools /usr/local/bin
COPY shell/shell_lib.sh /shell_lib.sh
COPY shell/frameworks /frameworks
COPY --from=bundle /src/dist /opt/addon-operator
RUN ln -s /opt/addon-operator/addon-operator /usr/local/bin/addon-operator \
  && ln -s /opt/addon-operator/kubectl-addon.js /usr/local/bin/kubectl-addon \
  && ln -s /frameworks /framework \
  && mkdir /modules /global-hooks
# helm keeps caches below HOME; the root file system may be read-only, /tmp is writable.
ENV HOME=/tmp SHELL_LIB_PATH=/shell_lib.sh JQ_PATH=/usr/bin/jq NODE_COMPILE_CACHE=/tmp/node-compile-cache
# Read by the C library when a process begins; hooks do not get them.
ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072 ADDON_OPERATOR_OWN_VARIABLES=MALLOC_ARENA_MAX,MALLOC_TRIM_THRESHOLD_
ARG VERSION=0.3.0
ARG REVISION=""
LABEL org.opencontainers.image.title="addon-operator" \
  org.opencontainers.image.description="Keeps the addons of a Kubernetes cluster in the state that files and one ConfigMap describe" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
USER 1000:1000
# Hooks run here; as in the images of the Go operator, relative paths begin at the root.
WORKDIR /
EXPOSE 9115
# tini reaps what hooks leave behind.
ENTRYPOINT ["tini", "--", "addon-operator"]
CMD ["start"]

# As the images of the Go operator: root, who may install packages and write to /modules, the variables, and the programs
# by the paths that Dockerfiles and manifests name.
FROM operator AS go-compatible
USER 0:0
ENV MODULES_DIR=/modules GLOBAL_HOOKS_DIR=/global-hooks
RUN ln -s /opt/addon-operator/addon-operator /addon-operator \
  && if [ ! -e /sbin/tini ]; then ln -s "$(command -v tini)" /sbin/tini; fi

FROM operator
