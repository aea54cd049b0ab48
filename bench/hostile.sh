#!/usr/bin/env bash
# Hostile clients against Rondo's broker: memory stays bounded, and an honest client is served meanwhile.
# Fails when it is not so. Arguments go to the program: hostile.sh -idle 1000 -crowd 50 -hold 5s -limit 1000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3}

make -s build
# Each connection is a file of both processes.
ulimit -n "$(ulimit -Hn)"
echo "$(nproc) cores, load average $(cut -d' ' -f1 /proc/loadavg), $(date -u +%F)"
go run ./bench/hostile -rondo bin/rondo "$@"
