#!/usr/bin/env bash
# Measures Rondo's broker, and Apache Kafka 4.2.0 beside it when a JDK and Maven are there, and prints the table.
#
#   run.sh                  everything, 3 repetitions of 3 seconds a cell
#   SECS=10 REPS=5 run.sh   longer; WARM=300 is what Kafka's JVM gets before it is measured (default 120 s, shared by the cells)
#   RUN='durable' run.sh    only the cells whose name matches
#   KAFKA=no run.sh         Rondo alone
#
# A ratio is worth something only on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3}

make -s build
kafka=()
if [ "${KAFKA:-yes}" != no ] && command -v javac mvn >/dev/null; then
  ./peers/kafka.sh jars >/dev/null
  kafka=(-kafka ./peers/kafka.sh)
fi
echo "$(nproc) cores, load average $(cut -d' ' -f1 /proc/loadavg), $(go version | cut -d' ' -f3), $(date -u +%F)"
go run ./bench/cost -rondo bin/rondo "${kafka[@]}" -secs "${SECS:-3}" -reps "${REPS:-3}" -warm "${WARM:-120}" -run "${RUN:-}"

if [[ "assignor" =~ ${RUN:-} ]]; then
  echo
  echo "assignors, milliseconds an assignment"
  RUN=uniform/members=1000/topics=10/partitions=10000 SECS=0.3 ./bench/assignor/run.sh | sed 's/^/  /'
fi

echo
echo "10,000 HTTP calls in flight in one process"
go test -tags synctests -run '^$' -bench '^BenchmarkTenThousandCalls$' -benchtime 1x . | awk '/^BenchmarkTenThousandCalls/ { for (i = 3; i < NF; i += 2) if ($(i + 1) == "MB" || $(i + 1) == "B/call") print "  " $i, $(i + 1) } /FAIL|panic/ { print; bad = 1 } END { exit bad }'
