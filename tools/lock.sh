#!/usr/bin/env bash
# Writes requirements/*.txt anew: exact versions with hashes and no address, for every platform and Python
# from 3.11 on. Arguments go to the resolver, for example: tools/lock.sh --upgrade-package ruff
set -euo pipefail
cd "$(dirname "$0")/.."

lock() { # lock OUTPUT INPUT...
    local output=$1
    shift
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-annotate --no-emit-index-url --no-emit-find-links --output-file "$output" "$@"
}

lock requirements/bootstrap.txt requirements/bootstrap.in "$@"
lock requirements/runtime.txt pyproject.toml "$@"
lock requirements/spark.txt pyproject.toml --extra spark --constraint requirements/runtime.txt "$@"
lock requirements/etcd.txt pyproject.toml --extra etcd --constraint requirements/spark.txt "$@"
lock requirements/dev.txt pyproject.toml --extra dev --constraint requirements/spark.txt \
    --constraint requirements/etcd.txt "$@"
lock requirements/scylla.txt requirements/scylla.in "$@"
