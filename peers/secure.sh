#!/usr/bin/env bash
# Rondo's settings of TLS and SASL on Apache Kafka 4.2.0: every properties file here is one that Kafka's own
# kafka-topics takes, and with each the command does its work.
#
#   secure.sh RONDO DIR PORT PORT     the command, where files go, and two free ports with the ones after them
set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rondo=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
plain=$3 sasl=$4 mtls=$(($4 + 1))
module=org.apache.kafka.common.security

die() { echo "secure.sh: $*" >&2; exit 1; }
command -v openssl >/dev/null || die "could not run: openssl is not installed (Debian: apt-get install openssl)"
command -v keytool >/dev/null || die "could not run: keytool is not installed (Debian: apt-get install default-jdk-headless)"

# ---- certificates and stores ----

quietly() { "$@" >"$dir/last.log" 2>&1 || { cat "$dir/last.log"; die "failed: $*"; }; }

authority() { # NAME
  quietly openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1-key.pem" -out "$1.pem" -days 2 -subj "/CN=$1"
}

signed() { # NAME AUTHORITY
  quietly openssl req -newkey rsa:2048 -nodes -keyout "$1-key.pem" -out "$1.csr" -subj "/CN=$1"
  quietly openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2-key.pem" -CAcreateserial -days 2 -out "$1-chain.pem" \
    -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")
  cat "$1-key.pem" "$1-chain.pem" >"$1.pem"
}

one_line() { tr '\n' ' ' <"$1"; }

stores() {
  cd "$dir"
  authority ca
  authority other-ca
  signed broker ca
  signed client ca
  signed stranger other-ca
  # What Java 17 can decrypt, and what OpenSSL writes by itself, which Java reads from 19 on.
  quietly openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in client-key.pem -out client-v1.pem -passout 'pass:key "secret"'
  quietly openssl pkcs8 -topk8 -in client-key.pem -out client-v2.pem -passout 'pass:key "secret"'
  cat client-chain.pem >>client-v1.pem
  cat client-chain.pem >>client-v2.pem
  quietly keytool -importcert -noprompt -alias ca -file ca.pem -keystore trust.p12 -storetype PKCS12 -storepass trust-secret
  quietly keytool -importcert -noprompt -alias ca -file ca.pem -keystore trust.jks -storetype JKS -storepass trust-secret
  quietly openssl pkcs12 -export -inkey client-key.pem -in client-chain.pem -certfile ca.pem -name client -out openssl.p12 -passout pass:store-secret
  quietly keytool -importkeystore -noprompt -srckeystore openssl.p12 -srcstoretype PKCS12 -srcstorepass store-secret \
    -destkeystore keytool.p12 -deststoretype PKCS12 -deststorepass store-secret
}

# ---- properties files ----

# file NAME LISTENER writes NAME.properties from standard input, with what all have.
file() {
  echo "bootstrap.servers=localhost:$2" >"$dir/$1.properties"
  cat >>"$dir/$1.properties"
}

files() {
  # Quotes of both kinds, with what has to be escaped in them, in JAAS and then once more as a property.
  file scram-256 "$sasl" <<P
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=$module.scram.ScramLoginModule required username='alice' password='it\\\\'s "quoted"; \\\\\\\\';
ssl.truststore.type=PEM
ssl.truststore.location=$dir/ca.pem
P
  file scram-512 "$sasl" <<P
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=$module.scram.ScramLoginModule required \\
  username="alice" \\
  password="it's \\\\"quoted\\\\"; \\\\\\\\";
ssl.truststore.type=PKCS12
ssl.truststore.location=$dir/trust.p12
ssl.truststore.password=trust-secret
P
  file plain "$sasl" <<P
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=$module.plain.PlainLoginModule required username=carol password='plain secret';
ssl.truststore.type=PEM
ssl.truststore.certificates=$(one_line "$dir/ca.pem")
P
  file mtls-pem "$mtls" <<P
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=$dir/client.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/ca.pem
P
  file mtls-encrypted "$mtls" <<P
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=$dir/client-v1.pem
ssl.key.password=key "secret"
ssl.truststore.type=PEM
ssl.truststore.location=$dir/ca.pem
P
  file mtls-text "$mtls" <<P
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.key=$(openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in "$dir/client-key.pem" -passout pass:text-secret | tr '\n' ' ')
ssl.keystore.certificate.chain=$(one_line "$dir/client-chain.pem")
ssl.key.password=text-secret
ssl.truststore.type=PEM
ssl.truststore.certificates=$(one_line "$dir/ca.pem")
P
  file mtls-pkcs12 "$mtls" <<P
security.protocol=SSL
ssl.keystore.type=PKCS12
ssl.keystore.location=$dir/openssl.p12
ssl.keystore.password=store-secret
ssl.protocol=TLSv1.2
ssl.enabled.protocols=TLSv1.2
ssl.truststore.location=$dir/trust.p12
ssl.truststore.password=trust-secret
P
  file mtls-keytool "$mtls" <<P
security.protocol=SSL
ssl.keystore.location=$dir/keytool.p12
ssl.keystore.password=store-secret
ssl.key.password=store-secret
ssl.truststore.type=JKS
ssl.truststore.location=$dir/trust.p12
ssl.truststore.password=trust-secret
P
}

start() {
  "$peers/kafka.sh" start "$dir/kafka" "$plain" \
    "listeners=PLAINTEXT://127.0.0.1:$plain,CONTROLLER://127.0.0.1:$((plain + 1)),SASL://localhost:$sasl,MTLS://localhost:$mtls" \
    "advertised.listeners=PLAINTEXT://127.0.0.1:$plain,SASL://localhost:$sasl,MTLS://localhost:$mtls" \
    listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL \
    ssl.keystore.type=PEM "ssl.keystore.location=$dir/broker.pem" ssl.truststore.type=PEM "ssl.truststore.location=$dir/ca.pem" \
    listener.name.mtls.ssl.client.auth=required sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN \
    "listener.name.sasl.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_carol='plain secret';" \
    "listener.name.sasl.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;" \
    "listener.name.sasl.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;"
  local mechanism waiting=()
  for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do # Kafka takes one of a user at a time
    "$peers/kafka.sh" run kafka.admin.ConfigCommand --bootstrap-server "127.0.0.1:$plain" --alter --entity-type users \
      --entity-name alice --add-config "$mechanism=[password=it's \"quoted\"; \\]" &
    waiting+=($!)
  done
  for mechanism in "${waiting[@]}"; do wait "$mechanism"; done
}

# ---- work ----

run() { # ARG ... of the command; its words on one line when it fails
  "$rondo" "$@" >"$dir/out" 2>"$dir/err" || { cat "$dir/out" "$dir/err"; die "failed: rondo $*"; }
}

says() { # TEXT what the last command must have said
  grep -qF -- "$1" "$dir/out" || { cat "$dir/out" "$dir/err"; die "it does not say $1"; }
}

within() { # SECONDS COMMAND ...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || { cat "$dir/out" "$dir/err"; die "not in time: $*"; }
    sleep 0.1
  done
}

caught_up() { # GROUP CONFIG: all 100 records are consumed and committed
  "$rondo" groups --describe --group "$1" --offsets "$2" >"$dir/out" 2>"$dir/err" || return # perhaps it is not there yet
  awk '$2 ~ /^t-/ { n += $4 } END { exit n != 100 }' "$dir/out"
}

kafka_takes() { # NAME
  "$peers/kafka.sh" run org.apache.kafka.tools.TopicCommand --bootstrap-server "$(servers "$1")" \
    --command-config "$dir/$1.properties" --list >"$dir/kafka-topics-$1" 2>&1 || { cat "$dir/kafka-topics-$1"; die "kafka-topics does not take $1.properties"; }
}

servers() { sed -n 's/^bootstrap.servers=//p' "$dir/$1.properties"; }

# work does with one file what a user does. The records go from one topic through a member of a group to another.
work() { # NAME
  local config=--command-config=$dir/$1.properties topic=t-$1 group=g-$1 consumer
  run topics --create --topic "$topic" --topic "$topic-out" --partitions 2 "$config"
  run topics --list "$config"
  says "$topic-out"
  run topics --describe --topic "$topic" "$config"
  says "PartitionCount: 2"
  seq 1 100 >"$dir/in"
  run produce -t "$topic" "$config" "$dir/in"
  "$rondo" consume -u -X auto.commit.interval.ms=200 -G "$group" "$topic" "$config" > >("$rondo" produce -t "$topic-out" "$config" 2>"$dir/produce.err") 2>"$dir/consume.err" &
  consumer=$!
  mkdir -p "$dir/consumer"
  echo $consumer >"$dir/consumer/pid"
  within 20 caught_up "$group" "$config"
  run groups --list "$config"
  says "$group"
  run predict --group "$group" --sample 500ms --call 10ms "$config"
  says "$group"
  kill -INT $consumer
  wait $consumer || [ $? -eq 130 ] || { cat "$dir/consume.err"; die "rondo consume -G ended with an error"; }
  run groups --reset-offsets --group "$group" --topic "$topic" --to-earliest --dry-run "$config"
  says "$topic"
  within 20 arrived "$topic-out" "$config"
}

arrived() { # TOPIC CONFIG
  run consume -q -e -t "$1" "$2"
  [ "$(sort -n "$dir/out")" = "$(cat "$dir/in")" ]
}

# refused wants a clear and quick end: NAME and what a sed script makes wrong in its file, the exit status, a text of
# the cause, one of the hint.
refused() {
  local code=0 began=$SECONDS verb
  sed "$2" "$dir/$1.properties" >"$dir/wrong.properties"
  cmp -s "$dir/$1.properties" "$dir/wrong.properties" && die "$2 changes nothing in $1.properties"
  for verb in topics groups; do
    code=0
    timeout 20 "$rondo" $verb --list --command-config "$dir/wrong.properties" >"$dir/out" 2>"$dir/err" || code=$?
    sed "s/^/    /" "$dir/err"
    [ $code -eq "$3" ] || die "$1, $2: exit status $code, want $3"
    grep "^rondo $verb: " "$dir/err" | grep -qF -- "$4" || die "$1, $2: the error does not say $4"
    grep '^hint: ' "$dir/err" | grep -qF -- "$5" || die "$1, $2: the hint does not say $5"
    ! grep -qE 'guess|quoted|secret' "$dir/err" || die "$1, $2: the error says a secret"
  done
  [ $((SECONDS - began)) -lt 5 ] || die "$1, $2: it took $((SECONDS - began)) s to say so"
}

refusals() {
  local password="connect to $(servers plain): SASL_AUTHENTICATION_FAILED" user='look at sasl.jaas.config'
  refused scram-256 's/password=.*/password="guess";/' 5 "$password" "$user"
  refused scram-512 's/^  password=.*/  password="guess";/' 5 "$password" "$user"
  refused plain "s/plain secret/guess/" 5 "$password" "$user"
  refused plain "s/carol/nobody/" 5 "$password" "$user"
  refused scram-256 's/ca\.pem/other-ca.pem/' 5 "connect to $(servers plain): " ssl.truststore.location
  refused mtls-pem 's/ca\.pem/other-ca.pem/' 5 'certificate signed by unknown authority' ssl.truststore.location
  refused mtls-pem '/keystore/d' 5 "connect to $(servers mtls-pem): remote error: tls:" ssl.keystore.location
  refused mtls-pkcs12 '/keystore/d' 5 "$(servers mtls-pem): remote error: tls:" ssl.keystore.location
  refused mtls-pem 's/client\.pem/stranger.pem/' 5 "connect to $(servers mtls-pem): remote error: tls:" ssl.keystore.location
  refused scram-256 's/SASL_SSL/SASL_PLAINTEXT/' 5 'tls endpoint' security.protocol
  refused mtls-pem 's/=SSL/=PLAINTEXT/' 5 'tls endpoint' security.protocol
  refused scram-256 's/SASL_SSL/SSL/' 5 'closed the connection' security.protocol
  refused scram-256 "s/localhost:$sasl/127.0.0.1:$plain/" 5 'closed the connection' security.protocol
  refused mtls-pem "s/localhost:$mtls/127.0.0.1:$sasl/" 5 'closed the connection' security.protocol
  refused scram-256 's/SCRAM-SHA-256$/GSSAPI/' 2 'sasl.mechanism=GSSAPI: want PLAIN or SCRAM' 'names and values'
  refused mtls-encrypted '/key.password/d' 2 "$dir/client-v1.pem: its key is encrypted, and ssl.key.password is not set" PKCS12
  refused mtls-encrypted 's/key "secret"/guess/' 2 'ssl.key.password is wrong' PKCS12
  refused mtls-pkcs12 's/store-secret/guess/' 2 'ssl.keystore.password is wrong' PKCS12
  refused mtls-pkcs12 's/trust-secret/guess/' 2 'ssl.truststore.password is wrong' PKCS12
  refused mtls-pkcs12 's/trust\.p12/trust.jks/' 2 'keytool -importkeystore' PKCS12
}

# stories tells two of the runtime's end-to-end stories through a listener; the settings are on standard input.
stories() { # PORT
  RONDO_BOOTSTRAP=localhost:$1 RONDO_SETTINGS=$(cat) "$dir/stories.test" -test.v -test.timeout 100s \
    -test.run 'TestStoriesInRealTime/(ThroughMakesTopic|RebalancesUnderLoad)$' >"$dir/stories-$1" 2>&1 || { cat "$dir/stories-$1"; die "a story failed through port $1"; }
  [ "$(grep -c -- '--- PASS: TestStoriesInRealTime/' "$dir/stories-$1")" -eq 2 ] || { cat "$dir/stories-$1"; die "could not run: two stories are wanted"; }
}

runtime() {
  stories "$sasl" <<S
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=$module.scram.ScramLoginModule required username='alice' password="it's \"quoted\"; \\\\";
ssl.truststore.location=$dir/trust.p12
ssl.truststore.password=trust-secret
S
  stories "$mtls" <<S
security.protocol=SSL
ssl.keystore.location=$dir/client-v2.pem
ssl.key.password=key "secret"
ssl.truststore.location=$dir/ca.pem
S
}

# ---- the step ----

ended() {
  [ ! -f "$dir/consumer/pid" ] || kill "$(cat "$dir/consumer/pid")" 2>/dev/null || true
  [ ! -f "$dir/kafka/pid" ] || "$peers/kafka.sh" stop "$dir/kafka"
}
trap ended EXIT
trap 'exit 143' TERM INT
stores
files
(cd "$peers/.." && go test -tags synctests -c -o "$dir/stories.test" .) &
built=$!
start
wait $built || die "could not run: the end-to-end stories do not build"
names=$(cd "$dir" && ls -- *.properties | sed 's/\.properties$//')
for name in $names; do
  kafka_takes "$name"
  work "$name"
  echo "$name: Kafka's kafka-topics takes the file, and rondo works with it"
done
refusals
runtime
echo "the runtime's stories pass through SASL_SSL and through mutual TLS"
