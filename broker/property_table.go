package broker

// propertyTable lists every broker property of Apache Kafka 4.2.0 with its
// type, whether it can be changed while the broker runs, and its default: one
// a line, in sections. A section that starts with "= used" is acted on; the
// others are accepted without effect, for the reason that stands there.
const propertyTable = `
= used
auto.create.topics.enable boolean static true
broker.rack string static null
connections.max.idle.ms long static 600000
default.replication.factor int static 1
delete.topic.enable boolean static true
fetch.max.bytes int static 57671680
group.initial.rebalance.delay.ms int static 3000
group.max.session.timeout.ms int static 1800000
group.consumer.assignors list static uniform,range
group.consumer.heartbeat.interval.ms int static 5000
group.consumer.max.heartbeat.interval.ms int static 15000
group.consumer.max.session.timeout.ms int static 60000
group.consumer.max.size int static 2147483647
group.consumer.migration.policy string static bidirectional
group.consumer.min.heartbeat.interval.ms int static 5000
group.consumer.min.session.timeout.ms int static 45000
group.consumer.session.timeout.ms int static 45000
group.coordinator.rebalance.protocols list static classic,consumer,streams
group.max.size int static 2147483647
group.min.session.timeout.ms int static 6000
group.streams.heartbeat.interval.ms int static 5000
group.streams.initial.rebalance.delay.ms int static 3000
group.streams.max.heartbeat.interval.ms int static 15000
group.streams.max.session.timeout.ms int static 60000
group.streams.max.size int static 2147483647
group.streams.max.standby.replicas int static 2
group.streams.min.heartbeat.interval.ms int static 5000
group.streams.min.session.timeout.ms int static 45000
group.streams.num.standby.replicas int static 0
group.streams.session.timeout.ms int static 45000
log.cleaner.backoff.ms long dynamic 15000
log.cleaner.delete.retention.ms long dynamic 86400000
log.cleaner.max.compaction.lag.ms long dynamic 9223372036854775807
log.cleaner.min.cleanable.ratio double dynamic 0.5
log.cleaner.min.compaction.lag.ms long dynamic 0
log.cleanup.policy list dynamic delete
log.message.timestamp.after.max.ms long dynamic 3600000
log.message.timestamp.before.max.ms long dynamic 9223372036854775807
log.message.timestamp.type string dynamic CreateTime
log.retention.bytes long dynamic -1
log.retention.check.interval.ms long static 300000
log.retention.hours int static 168
log.retention.minutes int static null
log.retention.ms long dynamic null
log.roll.hours int static 168
log.roll.ms long dynamic null
log.segment.bytes int dynamic 1073741824
max.connections int dynamic 2147483647
max.incremental.fetch.session.cache.slots int static 1000
max.request.partition.size.limit int static 2000
message.max.bytes int dynamic 1048588
min.insync.replicas int dynamic 1
num.partitions int static 1
offset.metadata.max.bytes int static 4096
offsets.retention.check.interval.ms long static 600000
offsets.retention.minutes int static 10080
offsets.topic.num.partitions int static 50
offsets.topic.segment.bytes int static 104857600
producer.id.expiration.ms int dynamic 86400000
queued.max.request.bytes long static -1
socket.request.max.bytes int static 104857600
transaction.max.timeout.ms int static 900000

= set it in the broker's own Config (--data, --listen, --advertise, --node-id)
advertised.listeners list static null
broker.id int static -1
listeners list dynamic PLAINTEXT://:9092
log.dir list static /tmp/kafka-logs
log.dirs list static null
node.id int static null
process.roles list static null

= batches are kept as their producers compressed them
compression.gzip.level int dynamic -1
compression.lz4.level int dynamic 9
compression.type string dynamic producer
compression.zstd.level int dynamic 3

= the journal syncs, indexes and cleans in its own way (Config.Flush)
log.flush.interval.messages long dynamic 9223372036854775807
log.flush.interval.ms long dynamic null
log.index.interval.bytes int dynamic 4096
log.index.size.max.bytes int dynamic 10485760
log.local.retention.bytes long dynamic -2
log.local.retention.ms long dynamic -2
log.preallocate boolean dynamic false
log.roll.jitter.hours int static 0
log.roll.jitter.ms long dynamic null
log.segment.delete.delay.ms long dynamic 60000
log.flush.offset.checkpoint.interval.ms int static 60000
log.flush.scheduler.interval.ms long static 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int static 60000

= Java classes cannot be loaded
alter.config.policy.class.name class static null
authorizer.class.name string static
client.quota.callback.class class static null
config.providers list dynamic
create.topic.policy.class.name class static null
kafka.metrics.reporters list static
metric.reporters list dynamic org.apache.kafka.common.metrics.JmxReporter
principal.builder.class class dynamic org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
replica.selector.class string static null
security.providers string static null

= the listener is plaintext; TLS, SASL and delegation tokens are not there yet
connection.failed.authentication.delay.ms int static 100
connections.max.reauth.ms long static 0
delegation.token.expiry.check.interval.ms long static 3600000
delegation.token.expiry.time.ms long static 86400000
delegation.token.max.lifetime.ms long static 604800000
delegation.token.secret.key password static null
listener.security.protocol.map string dynamic SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.client.callback.handler.class class static null
sasl.enabled.mechanisms list dynamic GSSAPI
sasl.jaas.config password dynamic null
sasl.kerberos.kinit.cmd string dynamic /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long dynamic 60000
sasl.kerberos.principal.to.local.rules list dynamic DEFAULT
sasl.kerberos.service.name string dynamic null
sasl.kerberos.ticket.renew.jitter double dynamic 0.05
sasl.kerberos.ticket.renew.window.factor double dynamic 0.8
sasl.login.callback.handler.class class static null
sasl.login.class class static null
sasl.login.connect.timeout.ms int static null
sasl.login.read.timeout.ms int static null
sasl.login.refresh.buffer.seconds short dynamic 300
sasl.login.refresh.min.period.seconds short dynamic 60
sasl.login.refresh.window.factor double dynamic 0.8
sasl.login.refresh.window.jitter double dynamic 0.05
sasl.login.retry.backoff.max.ms long static 10000
sasl.login.retry.backoff.ms long static 100
sasl.mechanism.controller.protocol string static GSSAPI
sasl.mechanism.inter.broker.protocol string dynamic GSSAPI
sasl.oauthbearer.assertion.algorithm string static RS256
sasl.oauthbearer.assertion.claim.aud string static null
sasl.oauthbearer.assertion.claim.exp.seconds int static 300
sasl.oauthbearer.assertion.claim.iss string static null
sasl.oauthbearer.assertion.claim.jti.include boolean static false
sasl.oauthbearer.assertion.claim.nbf.seconds int static 60
sasl.oauthbearer.assertion.claim.sub string static null
sasl.oauthbearer.assertion.file string static null
sasl.oauthbearer.assertion.private.key.file string static null
sasl.oauthbearer.assertion.private.key.passphrase password static null
sasl.oauthbearer.assertion.template.file string static null
sasl.oauthbearer.client.credentials.client.id string static null
sasl.oauthbearer.client.credentials.client.secret password static null
sasl.oauthbearer.clock.skew.seconds int static 30
sasl.oauthbearer.expected.audience list static
sasl.oauthbearer.expected.issuer string static null
sasl.oauthbearer.jwks.endpoint.refresh.ms long static 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long static 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long static 100
sasl.oauthbearer.jwks.endpoint.url string static null
sasl.oauthbearer.jwt.retriever.class class static org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class static org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string static null
sasl.oauthbearer.scope.claim.name string static scope
sasl.oauthbearer.sub.claim.name string static sub
sasl.oauthbearer.token.endpoint.url string static null
sasl.server.callback.handler.class class static null
sasl.server.max.receive.size int static 524288
ssl.allow.dn.changes boolean static false
ssl.allow.san.changes boolean static false
ssl.cipher.suites list dynamic
ssl.client.auth string dynamic none
ssl.enabled.protocols list dynamic TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string dynamic https
ssl.engine.factory.class class dynamic null
ssl.key.password password dynamic null
ssl.keymanager.algorithm string dynamic SunX509
ssl.keystore.certificate.chain password dynamic null
ssl.keystore.key password dynamic null
ssl.keystore.location string dynamic null
ssl.keystore.password password dynamic null
ssl.keystore.type string dynamic JKS
ssl.principal.mapping.rules string static DEFAULT
ssl.protocol string dynamic TLSv1.3
ssl.provider string dynamic null
ssl.secure.random.implementation string dynamic null
ssl.trustmanager.algorithm string dynamic PKIX
ssl.truststore.certificates password dynamic null
ssl.truststore.location string dynamic null
ssl.truststore.password password dynamic null
ssl.truststore.type string dynamic JKS

= a single node has no other brokers and no controllers
unclean.leader.election.enable boolean dynamic false
alter.log.dirs.replication.quota.window.num int static 11
alter.log.dirs.replication.quota.window.size.seconds int static 1
auto.leader.rebalance.enable boolean static true
broker.heartbeat.interval.ms int static 2000
broker.session.timeout.ms int static 9000
controlled.shutdown.enable boolean static true
controller.listener.names list static null
controller.quorum.append.linger.ms int static 25
controller.quorum.auto.join.enable boolean static false
controller.quorum.bootstrap.servers list static
controller.quorum.election.backoff.max.ms int static 1000
controller.quorum.election.timeout.ms int static 1000
controller.quorum.fetch.timeout.ms int static 2000
controller.quorum.request.timeout.ms int static 2000
controller.quorum.retry.backoff.ms int static 20
controller.quorum.voters list static
controller.quota.window.num int static 11
controller.quota.window.size.seconds int static 1
controller.socket.timeout.ms int static 30000
early.start.listeners list static null
initial.broker.registration.timeout.ms int static 60000
inter.broker.listener.name string static null
leader.imbalance.check.interval.seconds long static 300
log.dir.failure.timeout.ms long static 30000
metadata.log.dir string static null
metadata.log.max.record.bytes.between.snapshots long static 20971520
metadata.log.max.snapshot.interval.ms long static 3600000
metadata.log.segment.bytes int static 1073741824
metadata.log.segment.ms long static 604800000
metadata.max.idle.interval.ms int static 500
metadata.max.retention.bytes long static 104857600
metadata.max.retention.ms long static 604800000
num.replica.alter.log.dirs.threads int static null
num.replica.fetchers int dynamic 1
offsets.topic.replication.factor short static 3
replica.fetch.backoff.ms int static 1000
replica.fetch.max.bytes int static 1048576
replica.fetch.min.bytes int static 1
replica.fetch.response.max.bytes int static 10485760
replica.fetch.wait.max.ms int static 500
replica.high.watermark.checkpoint.interval.ms long static 5000
replica.lag.time.max.ms long static 30000
replica.socket.receive.buffer.bytes int static 65536
replica.socket.timeout.ms int static 30000
replication.quota.window.num int static 11
replication.quota.window.size.seconds int static 1
request.timeout.ms int static 30000
security.inter.broker.protocol string static PLAINTEXT

= there is no tiered storage
remote.fetch.max.wait.ms int dynamic 500
remote.list.offsets.request.timeout.ms long dynamic 30000
remote.log.index.file.cache.total.size.bytes long dynamic 1073741824
remote.log.manager.copier.thread.pool.size int dynamic 10
remote.log.manager.copy.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.copy.quota.window.num int static 11
remote.log.manager.copy.quota.window.size.seconds int static 1
remote.log.manager.expiration.thread.pool.size int dynamic 10
remote.log.manager.fetch.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.fetch.quota.window.num int static 11
remote.log.manager.fetch.quota.window.size.seconds int static 1
remote.log.manager.follower.thread.pool.size int dynamic 2
remote.log.manager.task.interval.ms long static 30000
remote.log.manager.thread.pool.size int static 2
remote.log.metadata.custom.metadata.max.bytes int static 128
remote.log.metadata.manager.class.name string static org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string static null
remote.log.metadata.manager.impl.prefix string static rlmm.config.
remote.log.metadata.manager.listener.name string static null
remote.log.reader.max.pending.tasks int static 100
remote.log.reader.threads int dynamic 10
remote.log.storage.manager.class.name string static null
remote.log.storage.manager.class.path string static null
remote.log.storage.manager.impl.prefix string static rsm.config.
remote.log.storage.system.enable boolean static false

= share groups are not served
group.share.assignors list static simple
group.share.delivery.count.limit int static 5
group.share.heartbeat.interval.ms int static 5000
group.share.max.heartbeat.interval.ms int static 15000
group.share.max.record.lock.duration.ms int static 60000
group.share.max.session.timeout.ms int static 60000
group.share.max.share.sessions int static 2000
group.share.max.size int static 200
group.share.min.heartbeat.interval.ms int static 5000
group.share.min.record.lock.duration.ms int static 15000
group.share.min.session.timeout.ms int static 45000
group.share.partition.max.record.locks int static 2000
group.share.record.lock.duration.ms int static 30000
group.share.session.timeout.ms int static 45000
share.coordinator.append.linger.ms int static -1
share.coordinator.load.buffer.size int static 5242880
share.coordinator.snapshot.update.records.per.snapshot int static 500
share.coordinator.state.topic.compression.codec int static 0
share.coordinator.state.topic.min.isr short static 2
share.coordinator.state.topic.num.partitions int static 50
share.coordinator.state.topic.replication.factor short static 3
share.coordinator.state.topic.segment.bytes int static 104857600
share.coordinator.threads int static 1
share.coordinator.write.timeout.ms int static 5000
share.fetch.purgatory.purge.interval.requests int static 1000

= transactions are not served yet
add.partitions.to.txn.retry.backoff.max.ms int static 100
add.partitions.to.txn.retry.backoff.ms int static 20
transaction.abort.timed.out.transaction.cleanup.interval.ms int static 10000
transaction.partition.verification.enable boolean dynamic true
transaction.remove.expired.transaction.cleanup.interval.ms int static 3600000
transaction.state.log.load.buffer.size int static 5242880
transaction.state.log.min.isr int static 2
transaction.state.log.num.partitions int static 50
transaction.state.log.replication.factor short static 3
transaction.state.log.segment.bytes int static 104857600
transaction.two.phase.commit.enable boolean static false
transactional.id.expiration.ms int static 604800000

= there are no quotas
max.connection.creation.rate int dynamic 2147483647
max.connections.per.ip int dynamic 2147483647
max.connections.per.ip.overrides string dynamic
quota.window.num int static 11
quota.window.size.seconds int static 1

= it tunes the inside of Kafka's Java broker
background.threads int dynamic 10
delete.records.purgatory.purge.interval.requests int static 1
fetch.purgatory.purge.interval.requests int static 1000
group.coordinator.append.linger.ms int static -1
group.coordinator.threads int static 4
kafka.metrics.polling.interval.secs int static 10
log.cleaner.dedupe.buffer.size long dynamic 134217728
log.cleaner.enable boolean static true
log.cleaner.io.buffer.load.factor double dynamic 0.9
log.cleaner.io.buffer.size int dynamic 524288
log.cleaner.io.max.bytes.per.second double dynamic 1.7976931348623157E308
log.cleaner.threads int dynamic 1
metrics.num.samples int static 2
metrics.recording.level string static INFO
metrics.sample.window.ms long static 30000
num.io.threads int dynamic 8
num.network.threads int dynamic 3
num.recovery.threads.per.data.dir int dynamic 2
offsets.commit.timeout.ms int static 5000
offsets.load.buffer.size int static 5242880
offsets.topic.compression.codec int static 0
producer.purgatory.purge.interval.requests int static 1000
queued.max.requests int static 500
socket.connection.setup.timeout.max.ms long static 30000
socket.connection.setup.timeout.ms long static 10000
socket.listen.backlog.size int static 50
socket.receive.buffer.bytes int static 102400
socket.send.buffer.bytes int static 102400
telemetry.max.bytes int static 1048576

`
