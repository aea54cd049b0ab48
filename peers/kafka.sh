#!/usr/bin/env bash
# Apache Kafka 4.2.0, taken from its Maven jars: the reference that Rondo is held against.
# Needs a JDK of 17 or later and Maven.
#
#   kafka.sh jars                      fetch the jars when they are not there, print the class path
#   kafka.sh classes                   compile the Java programs of this folder, print the class path with them
#   kafka.sh start DIR PORT [KEY=VALUE ...]
#                                      start one node (broker and controller) on 127.0.0.1:PORT with its data,
#                                      log and pid in DIR; PORT+1 is the controller's; returns when it serves
#   kafka.sh stop DIR                  stop that node
#   kafka.sh run CLASS [ARG ...]       run a Java class, e.g. org.apache.kafka.tools.TopicCommand
#
# Environment: RONDO_CACHE  where the jars go (default ${XDG_CACHE_HOME:-~/.cache}/rondo)
#              HEAP         heap of the node (default 512m)
#              JVM          options of its JVM (default: small and quick to start; for measurements give Kafka's own,
#                           -Xms1g -Xmx1g -XX:+UseG1GC)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${RONDO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo}
home=$cache/kafka-4.2.0
# One directory for each state of pom.xml: checkouts share the cache.
libs=$home/libs-$(sha256sum <"$here/java/pom.xml" | cut -c1-12)

die() { echo "kafka.sh: $*" >&2; exit 1; }

have_jars() { [ -f "$libs/.complete" ]; }

# jars copies the dependencies of java/pom.xml. A download that breaks off is tried again; what had
# arrived stays in Maven's own repository.
jars() {
  have_jars && return
  command -v mvn >/dev/null || die "mvn is not installed (Debian: apt-get install maven)"
  local try
  for try in 1 2 3; do
    mkdir -p "$libs"
    if mvn -q -B -f "$here/java/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
      -DincludeScope=runtime -DoutputDirectory="$libs" </dev/null >&2; then
      touch "$libs/.complete"
      return
    fi
    echo "kafka.sh: Maven could not fetch the jars (attempt $try of 3)" >&2
    sleep $((try * 5))
  done
  die "no jars of Apache Kafka 4.2.0; is Maven's repository reachable?"
}

# classes compiles java/ when a source is newer than what was compiled last.
classes() {
  jars
  local src=$here/java/src/main made
  # One directory for each state of the sources: checkouts share the cache.
  out=$home/classes/$(find "$src" -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-16)
  if [ ! -f "$out/.compiled" ]; then
    mkdir -p "$home/classes"
    made=$(mktemp -d "$home/classes/made.XXXXXX")
    find "$src" -name '*.java' -print0 | xargs -0 javac -Xlint:all,-processing,-serial,-classfile -cp "$libs/*" -d "$made" >&2
    cp "$src"/resources/* "$made"
    touch "$made/.compiled"
    mv -T "$made" "$out" 2>/dev/null || rm -rf "$made" # somebody else was quicker
  fi
}

# logging writes a log4j configuration that sends everything to one file.
logging() {
  cat >"$1" <<LOG
status = error
appender.file.type = File
appender.file.name = FILE
appender.file.fileName = $2
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %p [%t] %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = FILE
LOG
}

start() {
  [ $# -ge 2 ] || die "start needs DIR and PORT"
  local dir port=$2
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  shift 2
  jars
  # One node needs replication factors of 1. The long session timeout keeps Kafka's controller from fencing
  # its own broker when the machine is crowded: requests would then hang for a minute. A node that was killed
  # may come back only when that session is over.
  cat >"$dir/server.properties" <<PROPS
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:$((port + 1))
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=120000
initial.broker.registration.timeout.ms=150000
PROPS
  local kv
  for kv in "$@"; do echo "$kv" >>"$dir/server.properties"; done
  logging "$dir/log4j2.properties" "$dir/broker.log"
  local options=(${JVM:--Xmx${HEAP:-512m} -Xms${HEAP:-512m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1})
  local java=(java "${options[@]}" "-Dlog4j2.configurationFile=$dir/log4j2.properties" -cp "$libs/*")
  if [ ! -d "$dir/data" ]; then
    "${java[@]}" kafka.tools.StorageTool format -t cm9uZG8tcGVlcnMtMDAwMA -c "$dir/server.properties" \
      >"$dir/format.log" 2>&1 || { cat "$dir/format.log" >&2; die "cannot format $dir/data"; }
  fi
  : >"$dir/broker.log"
  setsid "${java[@]}" kafka.Kafka "$dir/server.properties" >"$dir/stdout.log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
  local n
  for ((n = 0; n < 340; n++)); do
    if grep -q 'Kafka Server started' "$dir/broker.log"; then
      echo "127.0.0.1:$port"
      return
    fi
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { tail -n 20 "$dir/stdout.log" "$dir/broker.log" >&2; die "Kafka ended while starting; see $dir"; }
    sleep 0.5
  done
  tail -n 20 "$dir/broker.log" >&2
  stop "$dir"
  die "Kafka did not start within 170 s; see $dir"
}

stop() {
  local pid n
  [ -f "$1/pid" ] || die "no pid in $1"
  pid=$(cat "$1/pid")
  kill "$pid" 2>/dev/null || return 0
  for ((n = 0; n < 40; n++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.25
  done
  kill -9 "$pid" 2>/dev/null || true
}

case ${1:-} in
  jars) jars; echo "$libs/*" ;;
  classes) classes; echo "$out:$libs/*" ;;
  start) shift; start "$@" ;;
  stop) [ $# -eq 2 ] || die "stop needs DIR"; stop "$2" ;;
  run)
    shift
    jars
    exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$here/java/src/main/resources:$libs/*" "$@"
    ;;
  *) sed -n '2,17p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
