# SPDX-License-Identifier: Apache-2.0
#
#   docker build -t registry.example/stunnel:5.68 - <deploy/kubernetes/tls/stunnel.Dockerfile
FROM debian:12-slim
RUN apt-get update && \
    apt-get install --yes --no-install-recommends stunnel4 && \
    rm -rf /var/lib/apt/lists/*
USER 7609
ENTRYPOINT ["stunnel4"]
