// kafkajs against a broker: produce, consume, commit and rebalance.
//
//     node groups.js HOST:PORT
//
// Three members, each a process of its own, share six partitions; one leaves, one joins, one is killed. Every record
// must be seen, and at the end the committed offsets must be the ends of the log.
const { fork } = require('node:child_process')
const { randomBytes } = require('node:crypto')
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const PARTITIONS = 6
const PATIENCE = 60000
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

const client = (bootstrap, clientId) =>
  new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 12 } })

async function member(bootstrap, topic, group) {
  const consumer = client(bootstrap, `member-${process.pid}`).consumer({
    groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000, maxWaitTimeInMs: 200,
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    process.send({ assigned: payload.memberAssignment[topic] || [] }))
  consumer.on(consumer.events.REBALANCING, () => process.send({ assigned: [] }))
  consumer.on(consumer.events.CRASH, ({ payload }) => process.send({ crash: String(payload.error) }))
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: true, autoCommitThreshold: 100, autoCommitInterval: 500,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) => {
      for (const m of batch.messages) {
        if (!isRunning() || isStale()) return
        process.send({ record: m.value.toString(), partition: batch.partition })
        resolveOffset(m.offset)
      }
      await commitOffsetsIfNecessary()
      await heartbeat()
    },
  })
  process.on('message', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
}

class Member {
  constructor(run, name) {
    this.name = name
    this.owned = []
    this.process = fork(__filename, ['member', run.bootstrap, run.topic, run.group])
    this.exited = new Promise((done) => this.process.on('exit', (code, signal) => done(signal || code)))
    this.process.on('message', (m) => {
      if (m.assigned) this.owned = m.assigned
      if (m.record) run.seen.set(m.record, (run.seen.get(m.record) || 0) + 1)
      if (m.crash) console.log(`  ${name}: ${m.crash}`)
    })
  }

  async leave() {
    this.process.send('leave')
    const how = await this.exited
    if (how !== 0) throw new Error(`member ${this.name} ended with ${how}`)
    this.owned = []
  }

  async kill() {
    this.process.kill('SIGKILL')
    await this.exited
    this.owned = []
  }
}

class Run {
  constructor(bootstrap) {
    const id = randomBytes(4).toString('hex')
    this.bootstrap = bootstrap
    this.topic = `js-${id}`
    this.group = `js-group-${id}`
    this.seen = new Map()
    this.next = 0
    this.members = []
  }

  join(name) {
    const m = new Member(this, name)
    this.members.push(m)
    return m
  }

  async produce(n, compression) {
    for (let i = 0; i < n; i += 100) {
      const messages = []
      for (let k = 0; k < 100; k++, this.next++) {
        messages.push({ key: String(this.next), value: `v${this.next}`, partition: this.next % PARTITIONS, headers: { n: String(k) } })
      }
      await this.producer.send({ topic: this.topic, acks: -1, compression, messages })
    }
  }

  async until(what, condition) {
    for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(50)) {
      if (condition()) return console.log(`  ${what}`)
    }
    const state = this.members.map((m) => `${m.name}=[${m.owned}]`).join(' ')
    throw new Error(`not within ${PATIENCE / 1000} s: ${what}; owned ${state}, ${this.seen.size} of ${this.next} records seen`)
  }

  shared(...members) {
    const owned = members.flatMap((m) => m.owned).sort((a, b) => a - b)
    return members.every((m) => m.owned.length > 0) && owned.join() === [...Array(PARTITIONS).keys()].join()
  }

  async go() {
    const kafka = client(this.bootstrap, 'groups')
    const admin = kafka.admin()
    this.producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
    await admin.connect()
    await this.producer.connect()
    await admin.createTopics({ topics: [{ topic: this.topic, numPartitions: PARTITIONS }], waitForLeaders: true })
    await this.produce(1500, CompressionTypes.None)
    await this.produce(1500, CompressionTypes.GZIP)
    const [a, b, c] = ['a', 'b', 'c'].map((n) => this.join(n))
    await this.until('three members share six partitions', () => this.shared(a, b, c))
    await this.until('3,000 records seen', () => this.seen.size === 3000)
    await c.leave()
    await this.until('one leaves, two share', () => this.shared(a, b))
    await this.produce(1200)
    await this.until('4,200 records seen', () => this.seen.size === 4200)
    const d = this.join('d')
    await this.until('one joins, three share', () => this.shared(a, b, d))
    await a.kill()
    await this.produce(1200, CompressionTypes.GZIP)
    await this.until('one is killed, two share after its session', () => this.shared(b, d))
    await this.until('5,400 records seen', () => this.seen.size === 5400)
    const { groups } = await admin.describeGroups([this.group])
    if (groups[0].state !== 'Stable' || groups[0].members.length !== 2) {
      throw new Error(`the group is ${groups[0].state} with ${groups[0].members.length} members`)
    }
    await b.leave()
    await d.leave()
    const ends = await admin.fetchTopicOffsets(this.topic)
    const [{ partitions }] = await admin.fetchOffsets({ groupId: this.group, topics: [this.topic] })
    const text = (list) => list.map((p) => `${p.partition}:${p.offset}`).sort().join(' ')
    if (text(ends) !== text(partitions)) throw new Error(`committed ${text(partitions)}, the log ends at ${text(ends)}`)
    console.log('  committed offsets are the ends of the log')
    await admin.deleteGroups([this.group])
    await admin.deleteTopics({ topics: [this.topic] })
    console.log('  group and topic deleted')
    await this.producer.disconnect()
    await admin.disconnect()
  }
}

async function main() {
  if (process.argv[2] === 'member') return member(...process.argv.slice(3))
  if (!process.argv[2]) throw new Error('usage: node groups.js HOST:PORT')
  const run = new Run(process.argv[2])
  try {
    await run.go()
  } finally {
    run.members.forEach((m) => m.process.kill('SIGKILL'))
  }
}

main().catch((e) => {
  console.error(`groups.js: ${e.stack}`)
  process.exit(1)
})
