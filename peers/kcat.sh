#!/usr/bin/env bash
# kcat (Debian's, librdkafka 2.0) against a broker: produce with every codec, consume, a group that commits and is
# shared, queries of offsets and metadata.
#
#   kcat.sh HOST:PORT
set -euo pipefail

bootstrap=${1:?usage: kcat.sh HOST:PORT}
topic=kcat-$$-$RANDOM
group=$topic-group
dir=$(mktemp -d)
pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT

die() { echo "kcat.sh: $*" >&2; exit 1; }
pass() { echo "  $*"; }
run() { timeout 60 kcat -b "$bootstrap" "$@"; }

# The first record makes the topic: creation on demand, as kcat's users are used to.
echo first | run -P -t "$topic" -k key -H "h=1" -X topic.request.required.acks=all
pass "a topic created on demand"

for codec in none gzip snappy lz4 zstd; do
  seq 1 500 | sed "s/^/$codec /" | run -P -t "$topic" -z "$codec" -X enable.idempotence=true -X linger.ms=5
done
run -C -t "$topic" -e -q -o beginning -X check.crcs=true >"$dir/all"
[ "$(wc -l <"$dir/all")" -eq 2501 ] || die "$(wc -l <"$dir/all") of 2,501 records read back"
[ "$(sort -u "$dir/all" | wc -l)" -eq 2501 ] || die "records read twice"
pass "2,501 records of five codecs there and back, CRC checked"

[ "$(run -C -t "$topic" -e -q -o 0 -c 1 -p 0 -f '%k %h %s\n')" = "key h=1 first" ] || die "key and headers of the first record"
pass "key and headers kept"

[ "$(run -C -t "$topic" -e -q -o -3 -p 0 | wc -l)" -eq 3 ] || die "the last three records"
run -Q -t "$topic:0:-1" | grep -q 'offset 2501$' || die "the latest offset is not 2501: $(run -Q -t "$topic:0:-1")"
run -Q -t "$topic:0:-2" | grep -q 'offset 0$' || die "the earliest offset is not 0"
run -Q -t "$topic:0:1" | grep -q 'offset 0$' || die "the offset of the first millisecond is not 0"
pass "offsets by position and by time"

run -L -t "$topic" | grep -q "topic \"$topic\" with 1 partitions" || die "metadata"
run -L -J | grep -q '"brokers"' || die "metadata as JSON"
pass "metadata"

# A group: it reads everything and commits; the second run finds nothing new, the third finds what came since.
group_read() { run -G "$group" -q -e -X auto.offset.reset=earliest -X session.timeout.ms=6000 "$topic" 2>>"$dir/err"; }
[ "$(group_read | wc -l)" -eq 2501 ] || die "the group's first run"
[ "$(group_read | wc -l)" -eq 0 ] || die "the group's second run read again what was committed"
seq 1 100 | run -P -t "$topic"
[ "$(group_read | wc -l)" -eq 100 ] || die "the group's third run"
pass "a group goes on where it had committed"

# Two members at a time: one partition goes to one of them; when its owner is killed the other goes on.
timeout 120 kcat -b "$bootstrap" -G "$group" -q -u -X session.timeout.ms=6000 -X heartbeat.interval.ms=500 "$topic" >"$dir/one" 2>>"$dir/err" &
pids+=($!)
sleep 2
timeout 120 kcat -b "$bootstrap" -G "$group" -q -u -X session.timeout.ms=6000 -X heartbeat.interval.ms=500 "$topic" >"$dir/two" 2>>"$dir/err" &
pids+=($!)
sleep 2
seq 1 50 | run -P -t "$topic"
lines() { cat "$dir/one" "$dir/two" | wc -l; }
for _ in $(seq 200); do [ "$(lines)" -ge 50 ] && break; sleep 0.1; done
[ "$(lines)" -eq 50 ] || die "two members read $(lines) of 50 records"
owner=0
[ -s "$dir/one" ] || owner=1
# timeout runs kcat as its child: the child is what has to be killed.
pkill -9 -P "${pids[$owner]}" || die "no member to kill"
: >"$dir/one"
: >"$dir/two"
seq 51 100 | run -P -t "$topic"
for _ in $(seq 300); do [ "$(lines)" -ge 50 ] && break; sleep 0.1; done
[ "$(sort -n "$dir/one" "$dir/two" | tail -1)" = 100 ] || die "the other member read $(lines) of 50 records"
pass "one of two members is killed, the other goes on"
