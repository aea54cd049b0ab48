#!/usr/bin/env bash
# The assignors of the consumer protocol beside those of Apache Kafka 4.2.0, in milliseconds an assignment.
#
#   run.sh                        every scene, 0.3 s each; takes three minutes
#   SECS=1 RUN=uniform/members=1000/topics=10/partitions=10000/equal run.sh
#                                 longer, and only the scenes whose names begin so
#
# Members, topics and partitions in all; what members read (all the same, parts of it, one topic each); what has
# happened to a balanced assignment (full: there was none). Kafka's part needs a JDK and Maven, and its JVM gets
# WARM seconds (15) of the same work before it is measured.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

scenes=$(sed 's,[^/]\+,^&$,g' <<<"${RUN:-}")
go test -run '^$' -bench "^BenchmarkAssignor\$${scenes:+/$scenes}" -benchtime "${SECS:-0.3}s" ./internal/group |
  awk '/^BenchmarkAssignor/ { sub("BenchmarkAssignor/", ""); sub("-[0-9]+$", "", $1); print $1, $3 }' >"$dir/rondo"
: >"$dir/kafka"
if [ "${KAFKA:-yes}" != no ] && command -v javac mvn >/dev/null; then
  jars=$(./peers/kafka.sh jars)
  javac -cp "$jars" -d "$dir" "$here/Grid.java"
  java -Xms512m -Xmx512m -cp "$dir:$jars" Grid "${SECS:-0.3}" "${RUN:-}" "${WARM:-15}" >"$dir/kafka" 2>/dev/null
fi
awk '
  FILENAME ~ /kafka$/ { kafka[$1] = $2; next }
  { printf "%-75s rondo %8.3f ms", $1, $2 / 1e6
    if ($1 in kafka) printf "  kafka %8.3f ms  %.1fx", kafka[$1] / 1e6, kafka[$1] / $2
    print "" }' "$dir/kafka" "$dir/rondo"
