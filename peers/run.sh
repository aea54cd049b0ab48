#!/usr/bin/env bash
# Other people's clients against Rondo's broker, and Rondo against Apache Kafka 4.2.0.
#
#   run.sh                 all steps
#   run.sh list            name them
#   run.sh STEP ...        those steps; a trailing * matches (rondo-cases-*)
#
# Each step ends in one line, PASS or FAIL, with its time. A step that could not run has failed. The log of a failed
# step is shown in part and kept, and the step is tried once more when nothing else runs. Exit status 0 when all passed.
#
# Environment: PEERS_JOBS   steps at a time (default 2: most of them wait for sessions to run out)
#              PEERS_LOGS   where logs and data go (default a new directory under ${TMPDIR:-/tmp})
#              PEERS_REFERENCE=1   run the clients of rondo-* on Apache Kafka instead: is it them, or is it Rondo?
#              PEERS_RECORD=FILE   with it: rondo-tools-recorded writes there what Kafka's tools said
#              RONDO        the command under test (default bin/rondo)
#              RONDO_CACHE  where downloads go (default ${XDG_CACHE_HOME:-~/.cache}/rondo)
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$peers")
rondo=${RONDO:-$root/bin/rondo}
cache=${RONDO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo}
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.3} RONDO_CACHE=$cache

# name, seconds it may take, what it needs (see prepare_*), what it shows
steps='
rondo-kcat               180  -                  kcat: codecs, offsets, groups
rondo-kcat-brokers       180  -                  the same on three broker ids in one process
rondo-cases-default      240  transcript         recorded answers of Apache Kafka, field by field
rondo-cases-limits       120  transcript         the same with small maxima
rondo-cases-delay        120  transcript         the same with initial rebalance delays
rondo-cases-narrow       60   transcript         the same with little room and without streams groups
rondo-cases-durable      120  transcript         the same across restarts and kills of the broker
rondo-cases-expiry       150  transcript         the same while offsets expire
rondo-kafkajs            240  node               kafkajs: three members, one leaves, one is killed
rondo-librdkafka         300  python             librdkafka: the same, range
rondo-librdkafka-coop    300  python             librdkafka: the same, cooperative-sticky
rondo-librdkafka-consumer 300 python             librdkafka: the same by the consumer protocol
rondo-kafka-python       300  python             kafka-python: three members, one leaves, one is killed; range
rondo-kafka-python-old   300  python             the same by a release of 2020, with the versions of that time
rondo-aiokafka           300  python             aiokafka: the same
rondo-java               300  java               the Java client: one paused, one static, one killed; range
rondo-java-coop          300  java               the same, cooperative-sticky
rondo-java-consumer      300  java               the same by the consumer protocol
rondo-verifiable         180  java               Kafka'\''s VerifiableConsumer: range, a static member restarted
rondo-verifiable-coop    180  java               the same: cooperative, a member killed
rondo-verifiable-consumer 180 java               the same: the consumer protocol, and upgraded to it
rondo-tools              180  java               Kafka'\''s command-line tools and its formatters of __consumer_offsets
rondo-tools-recorded     180  java               the same tools: all that they say is what they say on Apache Kafka
rondo-kafka-streams      300  java               a Kafka Streams 4.2.0 application: joins, is killed, closes
rondo-streams-group      300  java               the same with group.protocol=streams (KIP-1071)
rondo-streams-state      300  java               the same with state, a repartition topic and a standby replica
rondo-smoke              240  java               Kafka Streams'\'' own smoke test: three clients, one killed; at least once
rondo-smoke-streams      240  java               the same with group.protocol=streams
rondo-connect            240  java               Kafka Connect, distributed: two workers, one killed; files through topics into files
rondo-franz-go           420  kgo                franz-go'\''s own tests of its client and its groups
kafka-cases-default      300  transcript,java    the recorded answers, on Apache Kafka itself
kafka-cases-limits       240  transcript,java    the same
kafka-cases-delay        240  transcript,java    the same
kafka-runtime            600  java               the runtime'\''s end-to-end tests on Apache Kafka
kafka-secure             240  java               TLS and SASL: the command and the runtime with files that Kafka'\''s tools take
kafka-demo               480  java               the demo on Apache Kafka
kafka-streams-lab        180  java               two scenarios of the lab on a Kafka Streams 4.2.0 application
'

die() { echo "run.sh: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "could not run: $1 is not installed (Debian: apt-get install $2)"; }

# retry runs a download up to three times.
retry() {
  local n
  for n in 1 2 3; do
    "$@" && return
    echo "failed ($n of 3): $*" >&2
    sleep $((n * 5))
  done
  return 1
}

# ---- what steps need ----

prepare_rondo() {
  need go golang
  [ -x "$rondo" ] || [ -n "${PEERS_REFERENCE:-}" ] || die "could not run: $rondo is not there: make build"
}

prepare_transcript() {
  (cd "$peers/transcript" && go vet . && go build -o "$cache/bin/transcript" .)
  if [ ! -s "$cache/schemas.json" ]; then
    local libs
    libs=$(dirname "$("$peers/kafka.sh" jars)")
    "$cache/bin/transcript" schemas "$libs"/kafka-{clients,group-coordinator,transaction-coordinator}-4.2.0.jar >"$cache/schemas.part"
    mv "$cache/schemas.part" "$cache/schemas.json"
  fi
}

prepare_node() {
  need node nodejs
  need npm npm
  mkdir -p "$cache/node"
  cmp -s "$peers/node/package.json" "$cache/node/package.json" && [ -d "$cache/node/node_modules/kafkajs" ] && return
  cp "$peers/node/package.json" "$cache/node/package.json"
  (cd "$cache/node" && retry npm install --no-package-lock --no-audit --no-fund)
}

prepare_python() {
  need python3 python3-venv
  cat "$peers"/python/requirements*.txt | cmp -s - "$cache/python/installed.txt" && return
  rm -rf "$cache/python" "$cache/python-old"
  python3 -m venv "$cache/python" || die "could not run: python3 has no venv (Debian: apt-get install python3-venv)"
  retry "$cache/python/bin/pip" install --disable-pip-version-check --quiet -r "$peers/python/requirements.txt"
  retry "$cache/python/bin/pip" install --disable-pip-version-check --quiet --target "$cache/python-old" -r "$peers/python/requirements-old.txt"
  cat "$peers"/python/requirements*.txt >"$cache/python/installed.txt"
}

prepare_java() {
  need javac default-jdk
  "$peers/kafka.sh" classes >/dev/null
}

prepare_kgo() {
  # The version of franz-go that Rondo itself builds with, from its own go.mod.
  (cd "$root" && retry go test -c -o "$cache/bin/kgo.test" github.com/twmb/franz-go/pkg/kgo)
}

# ---- brokers ----

# rondo_start starts Rondo's broker in the background on DIR, on port $2 (0: any); address in $dir/address.
rondo_start() {
  local dir=$1 port=$2 n
  shift 2
  mkdir -p "$dir"
  : >"$dir/stdout.log"
  "$rondo" serve --data "$dir/data" --listen "127.0.0.1:$port" "$@" >"$dir/stdout.log" 2>>"$dir/broker.log" &
  echo $! >"$dir/pid"
  for ((n = 0; n < 300; n++)); do
    sed -n 's/^listening on //p' "$dir/stdout.log" >"$dir/address"
    [ -s "$dir/address" ] && return
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { tail -n 20 "$dir/broker.log"; die "rondo serve ended while starting"; }
    sleep 0.05
  done
  die "rondo serve did not start within 15 s"
}

gone() {
  local n
  for ((n = 0; n < 300; n++)); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.05
  done
  return 1
}

# rondo_check ends a step: the broker must still be there, must stop when asked, and must not have panicked.
rondo_check() {
  local dir=$1 pid
  pid=$(cat "$dir/pid")
  kill -0 "$pid" 2>/dev/null || { tail -n 40 "$dir/broker.log"; die "the broker did not live to the end of the step"; }
  kill -TERM "$pid"
  gone "$pid" || { kill -ABRT "$pid"; die "the broker did not stop within 15 s of SIGTERM; its stacks are in $dir/broker.log"; }
  if grep -nE '^panic:|^fatal error:|^goroutine [0-9]+ \[|level=ERROR' "$dir/broker.log"; then
    die "the broker's log has errors: $dir/broker.log"
  fi
}

end_brokers() {
  local f
  for f in "$work"/*/pid; do
    [ -f "$f" ] || continue
    kill -9 "$(cat "$f")" 2>/dev/null || true
  done
}

free_port() {
  local p n
  for ((n = 0; n < 200; n++)); do
    p=$((20000 + RANDOM % 6000 * 2)) # below the ports that the system gives out by itself
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null && ! (exec 3<>"/dev/tcp/127.0.0.1/$((p + 1))") 2>/dev/null; then
      echo "$p"
      return
    fi
  done
  die "no free port"
}

# Members of consumer and streams groups have their clocks from the broker.
group_clocks='group.consumer.min.session.timeout.ms=1000 group.consumer.session.timeout.ms=12000
  group.consumer.min.heartbeat.interval.ms=100 group.consumer.heartbeat.interval.ms=500
  group.streams.min.session.timeout.ms=1000 group.streams.session.timeout.ms=6000
  group.streams.min.heartbeat.interval.ms=100 group.streams.heartbeat.interval.ms=500 group.streams.num.standby.replicas=1'

# on_rondo runs a command with the broker's address as its last argument. KEY=VALUE ... before it are further settings
# of the broker.
on_rondo() {
  local settings=$group_clocks
  while [[ $1 == *.*=* ]]; do
    settings+=" $1"
    shift
  done
  if [ -n "${PEERS_REFERENCE:-}" ]; then
    # shellcheck disable=SC2086
    on_kafka $settings "$@"
    return
  fi
  # shellcheck disable=SC2046,SC2086 # words are wanted
  rondo_start "$work/rondo" 0 $(printf -- '--property %s ' group.initial.rebalance.delay.ms=0 $settings)
  "$@" "$(cat "$work/rondo/address")"
  rondo_check "$work/rondo"
}

# kafka_start starts Apache Kafka with the given properties, on another port when somebody was quicker.
kafka_start() {
  local n
  for n in 1 2 3; do
    rm -rf "$work/kafka"
    "$peers/kafka.sh" start "$work/kafka" "$(free_port)" "$@" >"$work/kafka.address" && return
    echo "attempt $n of 3: Kafka did not start"
  done
  die "could not run: Kafka did not start"
}

on_kafka() { # [KEY=VALUE ...] COMMAND ...
  local settings=()
  while [[ $1 == *.*=* ]]; do
    settings+=("$1")
    shift
  done
  [ ${#settings[@]} -gt 0 ] || read -r -d '' -a settings <<<"$group_clocks" || true
  kafka_start "${settings[@]}"
  "$@" "$(cat "$work/kafka.address")"
  "$peers/kafka.sh" stop "$work/kafka"
}

# ---- steps ----

cases() { # FOLDER CASES-AT-A-TIME ADDRESS [FLAG ...]
  local folder=$1 parallel=$2 address=$3
  shift 3
  (cd "$peers/cases" && "$cache/bin/transcript" run -bootstrap "$address" -schemas "$cache/schemas.json" -p "$parallel" "$@" "$folder")
}

rondo_cases() {
  local folder=$1 parallel=8
  rondo_start "$work/rondo" 0 --properties "$peers/cases/$folder/broker.properties"
  if [ "$folder" = durable ]; then
    parallel=1
    export BROKER_RESTART="'$peers/run.sh' restart '$work/rondo' '$peers/cases/$folder/broker.properties'"
  fi
  cases "$folder" "$parallel" "$(cat "$work/rondo/address")" -skip "$peers/cases/skips.txt"
  rondo_check "$work/rondo"
}

# restart is what the cases of durable/ call: the same data and port, RESTART=clean or kill.
restart() {
  local dir=$1 pid port
  pid=$(cat "$dir/pid")
  port=$(sed 's/.*://' "$dir/address")
  if [ "${RESTART:-clean}" = kill ]; then kill -9 "$pid"; else kill -TERM "$pid"; fi
  gone "$pid" || die "the broker did not stop"
  rondo_start "$dir" "$port" --properties "$2"
}

kafka_cases() {
  local folder=$1
  # shellcheck disable=SC2046 # one argument a property
  kafka_start $(cat "$peers/cases/$folder/broker.properties")
  : >"$work/skips.txt"
  if [ -f "$peers/cases/$folder/admin/describe-topics.txt" ] && ! mount_point "$work/kafka"; then
    ln -s "$peers/cases/$folder/admin" "$work/admin" # names of cases are relative to the list
    echo "admin/describe-topics.txt the JVM finds no mount point for $work/kafka, without which Apache Kafka cannot answer DescribeLogDirs" |
      tee "$work/skips.txt"
  fi
  cases "$folder" 8 "$(cat "$work/kafka.address")" -skip "$work/skips.txt"
  "$peers/kafka.sh" stop "$work/kafka"
}

# mount_point tells whether the JVM finds the mount point of a directory: in a chroot it may not.
mount_point() {
  local cp code=0
  cp=$("$peers/kafka.sh" classes)
  java -cp "$cp" peers.MountPoint "$1" || code=$?
  case $code in
    0) ;;
    3) return 1 ;;
    *) die "could not run: peers.MountPoint $1 ended with status $code" ;;
  esac
}

java_program() { # CLASS ARGS of which the first is the address, which comes last here
  local class=$1 address=${*: -1} cp
  cp=$("$peers/kafka.sh" classes)
  shift
  java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$cp" "$class" "$address" "${@:1:$#-1}"
}

tools() { # SCRIPT ADDRESS
  local broker=rondo
  [ -z "${PEERS_REFERENCE:-}" ] || broker=kafka
  # shellcheck disable=SC2086 # PEERS_RECORD is one argument or none
  java_program peers.Tools "$peers/$1" "$work" $broker ${PEERS_RECORD:-} "$2"
}

connect() {
  local shown=causes
  [ -z "${PEERS_REFERENCE:-}" ] || shown=plain
  java_program peers.Connect "$rondo" $shown "$work/connect" "$1"
}

franz_go() {
  # The tests that need a broker, without transactions, share groups, and other listeners.
  (cd "$work" && KGO_SEEDS=$1 KGO_TEST_RF=1 KGO_TEST_RECORDS=20000 KGO_LOG_LEVEL=none "$cache/bin/kgo.test" -test.v -test.timeout 400s \
    -test.run 'TestPing|TestIssue|TestConsume|TestHookPollStart|TestGroup|TestPause|TestPooling|TestAddRemove|TestDirectPartition|TestClient_Produce|TestUnknownGroup|848' \
    -test.skip 'Txn|Share') | tee "$work/kgo.out"
  grep -q -- '--- PASS: TestGroupETL/range ' "$work/kgo.out" || die "TestGroupETL/range did not run"
  grep -q -- '--- PASS: TestGroupETL/cooperative-sticky ' "$work/kgo.out" || die "TestGroupETL/cooperative-sticky did not run"
  grep -q -- '--- PASS: TestGroupETL/sticky/848 ' "$work/kgo.out" || die "TestGroupETL/sticky/848 did not run"
}

runtime() {
  (cd "$root" && RONDO_BOOTSTRAP=$1 go test -tags synctests -count=1 -timeout 500s -v -run 'InRealTime$' .) | tee "$work/e2e.out"
  grep -q -- '^--- PASS: .*InRealTime' "$work/e2e.out" || die "could not run: no end-to-end test ran"
}

demo() { "$rondo" demo --bootstrap-server "$1"; }

streams_lab() { "$rondo" lab run three-tasks band-12s --on kafka-streams -b "$1" --peers "$peers" --dir "$work/lab"; }

step() {
  case $1 in
    rondo-kcat-brokers)
      need kcat kcat
      rondo_start "$work/rondo" 0 --property group.initial.rebalance.delay.ms=0 --brokers 3
      "$peers/kcat.sh" "$(cat "$work/rondo/address")"
      rondo_check "$work/rondo"
      ;;
    rondo-kcat) need kcat kcat; on_rondo "$peers/kcat.sh" ;;
    rondo-cases-*) rondo_cases "${1#rondo-cases-}" ;;
    rondo-kafkajs) on_rondo env "NODE_PATH=$cache/node/node_modules" node "$peers/node/groups.js" ;;
    rondo-librdkafka) on_rondo python_groups range ;;
    rondo-librdkafka-coop) on_rondo python_groups cooperative-sticky ;;
    rondo-librdkafka-consumer) on_rondo python_groups consumer ;;
    rondo-kafka-python) on_rondo python_groups kafka-python ;;
    rondo-kafka-python-old) PYTHONPATH=$cache/python-old on_rondo python_groups kafka-python ;;
    rondo-aiokafka) on_rondo python_groups aiokafka ;;
    rondo-java) on_rondo java_program peers.Groups range ;;
    rondo-java-coop) on_rondo java_program peers.Groups cooperative-sticky ;;
    rondo-java-consumer) on_rondo java_program peers.Groups consumer ;;
    rondo-tools) on_rondo tools tools.txt ;;
    rondo-tools-recorded) on_rondo tools tools-recorded.txt ;;
    rondo-verifiable) on_rondo java_program peers.Verifiable range static ;;
    rondo-verifiable-coop) on_rondo java_program peers.Verifiable cooperative killed ;;
    rondo-verifiable-consumer) on_rondo java_program peers.Verifiable consumer upgrade ;;
    rondo-kafka-streams) on_rondo java_program peers.Streams ;;
    rondo-streams-group) on_rondo java_program peers.Streams streams stateless ;;
    rondo-streams-state) on_rondo java_program peers.Streams streams stateful ;;
    rondo-smoke) on_rondo java_program peers.Smoke classic "$work/smoke" ;;
    rondo-smoke-streams) on_rondo java_program peers.Smoke streams "$work/smoke" ;;
    rondo-connect) on_rondo log.cleaner.backoff.ms=500 connect ;;
    rondo-franz-go) on_rondo franz_go ;;
    kafka-cases-*) kafka_cases "${1#kafka-cases-}" ;;
    kafka-runtime) on_kafka runtime ;;
    kafka-secure) "$peers/secure.sh" "$rondo" "$work" "$(free_port)" "$(free_port)" ;;
    kafka-demo) on_kafka demo ;;
    kafka-streams-lab) on_kafka streams_lab ;;
    *) die "no step $1; run.sh list names them" ;;
  esac
}

python_groups() { "$cache/python/bin/python" "$peers/python/groups.py" "$2" "$1"; }

# ---- running them ----

# one runs a step in a process of its own, so that it can be given a limit, and leaves its verdict in a file.
one() {
  local name=$1 limit=$2 log=$logs/$1.log began=$SECONDS why code=0
  rm -rf "${logs:?}/$name"
  mkdir -p "$logs/$name"
  PEERS_WORK=$logs/$name timeout -k 15 "$limit" "$peers/run.sh" step "$name" >"$log" 2>&1 </dev/null || code=$?
  if [ $code -eq 0 ]; then
    echo "PASS $name ($((SECONDS - began)) s)"
    rm -rf "${logs:?}/$name"
    : >"$logs/$name.passed"
    return
  fi
  why="exit status $code"
  [ $code -eq 124 ] && why="not done within $limit s"
  {
    echo "FAIL $name ($((SECONDS - began)) s): $why; the end of $log:"
    tail -n 60 "$log" | sed 's/^/    /'
  } >"$logs/$name.verdict"
  cat "$logs/$name.verdict"
}

select_steps() {
  local name limit needs text want
  while read -r name limit needs text; do
    [ -n "$name" ] || continue
    for want in "$@"; do
      # shellcheck disable=SC2254 # a pattern is wanted
      case $name in $want) echo "$name $limit $needs"; break ;; esac
    done
  done <<<"$steps"
}

prepare() {
  local what=$1 began=$SECONDS
  if timeout -k 15 900 "$peers/run.sh" prepare "$what" >"$logs/prepare-$what.log" 2>&1 </dev/null; then
    echo "ready $what ($((SECONDS - began)) s)"
    : >"$logs/prepare-$what.passed"
  else
    echo "FAIL prepare $what; the end of $logs/prepare-$what.log:"
    tail -n 20 "$logs/prepare-$what.log" | sed 's/^/    /'
  fi
}

main() {
  local chosen name limit needs what failed=0 passed=0 again=0
  chosen=$(select_steps "$@")
  [ -n "$chosen" ] || die "no step matches: $*; run.sh list names them"
  logs=${PEERS_LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/rondo-peers.XXXXXX")}
  mkdir -p "$logs" "$cache/bin"
  rm -f "$logs"/*.passed
  prepare rondo
  [ -z "${PEERS_REFERENCE:-}" ] || prepare java
  for what in $(cut -d' ' -f3 <<<"$chosen" | tr , '\n' | sort -u | grep -v '^-$'); do prepare "$what"; done
  while read -r name limit needs; do
    for what in rondo ${needs//,/ }; do
      if [ "$what" != - ] && [ ! -f "$logs/prepare-$what.passed" ]; then
        echo "FAIL $name: could not run, for want of $what"
        continue 2
      fi
    done
    while [ "$(jobs -rp | wc -l)" -ge "${PEERS_JOBS:-2}" ]; do wait -n || true; done
    one "$name" "$limit" &
  done <<<"$chosen"
  wait
  # Sessions of a few seconds and two busy cores do not always agree. A step that failed among others is tried once
  # more by itself; that it needed it is said.
  while read -r name limit needs; do
    if [ ! -f "$logs/$name.passed" ] && [ -f "$logs/$name.verdict" ]; then
      echo "AGAIN $name, alone"
      one "$name" "$limit"
      [ ! -f "$logs/$name.passed" ] || again=$((again + 1))
    fi
  done <<<"$chosen"
  while read -r name _; do
    if [ -f "$logs/$name.passed" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  done <<<"$chosen"
  echo "peers: $passed passed ($again of them when alone), $failed failed"
  if [ $failed -gt 0 ]; then
    echo "logs and data: $logs"
    exit 1
  fi
  [ -n "${PEERS_LOGS:-}" ] || rm -rf "$logs"
}

case ${1:-} in
  list) while read -r name _ _ text; do [ -z "$name" ] || printf '%-24s %s\n' "$name" "$text"; done <<<"$steps" ;;
  prepare) "prepare_$2" ;;
  step)
    work=${PEERS_WORK:?}
    trap end_brokers EXIT
    trap 'exit 143' TERM INT
    step "$2"
    ;;
  restart) shift; restart "$@" ;;
  -h | --help) sed -n '2,16p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' ;;
  '') main '*' ;;
  *) main "$@" ;;
esac
