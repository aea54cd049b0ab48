package predict

// Rule is one rule: a sentence, the formula that is computed, and where it
// comes from.
type Rule struct {
	ID       string `json:"id"`
	Sentence string `json:"sentence"`
	Formula  string `json:"formula"`
	Source   string `json:"source"`
}

// The rules' names, as Bound.Rule has them.
const (
	RulePollClock   = "poll-clock"
	RuleHandOver    = "hand-over"
	RuleBacklog     = "backlog"
	RuleTimeouts    = "time-outs"
	RuleNoTimeout   = "no-time-out"
	RuleSessionJoin = "session-join"
	RuleFrozen      = "frozen-commits"
	RuleTransaction = "transaction"
	RuleBetween     = "heartbeat-between"
	RuleRebalance   = "rebalance-timeout"
	RuleHeartbeat   = "heartbeat"
	RuleNewcomer    = "newcomer"
	RuleStatic      = "static"
)

// Rules lists every rule.
func Rules() []Rule {
	return []Rule{
		{RulePollClock,
			"From one poll to the next less than max.poll.interval.ms may pass, and nothing looks at that clock inside a pass.",
			"Kafka Streams: passes of sum(min(N, queued)) calls, N+1 after each, N/2 after a commit, until one ends later than max.poll.interval.ms/2; a consumer: max.poll.records x call; Rondo: one call",
			"StreamThread.runOnce, Kafka Streams 4.2; ConsumerCoordinator.poll and Heartbeat, Kafka 4.2 (KIP-62); recorded runs a, b, c, d, f, g, h, n, p"},
		{RuleHandOver,
			"After a rebalance the tasks may come back one by one; N grows on the first, cheap pass by pass, and the round jumps when the others are there.",
			"poll-clock, with 1, 2, half or all but one of the tasks in the first poll",
			"DefaultStateUpdater and TaskManager, Kafka Streams 4.2; 41 of 166 recorded windows"},
		{RuleBacklog,
			"A poll empties one fetched partition before the next, so with a deep backlog it brings one task, and what is left over of others is in the queues when the next comes.",
			"poll-clock, with max.poll.records waiting of each task",
			"FetchCollector.collectFetch, Kafka 4.2"},
		{RuleTimeouts,
			"A service that is down makes every call as long as its time-outs allow.",
			"poll-clock, with call = attempts x time-out + (attempts-1) x back-off",
			"arithmetic"},
		{RuleNoTimeout,
			"A call without a time-out can hang for ever, and no clock of Kafka ends it.",
			"call = unbounded",
			"recorded runs v1, v2; consumer runs 02b"},
		{RuleSessionJoin,
			"A member that has sent JoinGroup from a poll sends no heartbeats until a poll has read the answer; when the join had to wait for another busy member, the next poll must come within session.timeout.ms.",
			"passes of N, N+1, ... rounds until one ends later than max.poll.interval.ms/2 < session.timeout.ms + poll.ms; lost for certain when max.poll.interval.ms/2, or one call, is longer, and so much is in hand",
			"AbstractCoordinator, Kafka 4.2 (KAFKA-14382, KAFKA-14419); GroupMetadataManager.completeClassicGroupJoin; recorded runs j1, j4, j5"},
		{RuleFrozen,
			"While a rebalance is in progress commits are held up, so N grows with each pass and nothing halves it.",
			"passes of N, N+1, ... rounds until one ends later than max.poll.interval.ms/2 < max.poll.interval.ms",
			"TaskExecutor.commit and StreamThread.runOnce, Kafka Streams 4.2; recorded runs j2, r2"},
		{RuleTransaction,
			"A transaction is open from the first output of a pass to the commit after it.",
			"(records of the pass - 1) x call + commit < transaction.timeout.ms; it is aborted up to 10 s later",
			"KIP-447, KIP-890; TransactionStateManager's clean-up every 10 s; recorded runs l1 to l5"},
		{RuleBetween,
			"A client that sends heartbeats between messages sends none during one.",
			"call + heartbeat interval < session timeout",
			"kafkajs src/consumer/runner.js; kafkajs issues 387, 1052"},
		{RuleRebalance,
			"When the group rebalances, the handler has to come to its end before the member can join again, and the coordinator waits no longer than the rebalance timeout.",
			"records in hand x call < rebalance timeout",
			"GroupMetadataManager.completeClassicGroupJoin; sarama Consumer.Group.Rebalance.Timeout; kgo.RebalanceTimeout; kafkajs rebalanceTimeout"},
		{RuleHeartbeat,
			"Of three heartbeats two may be lost.",
			"heartbeat.interval.ms <= session.timeout.ms / 3",
			"Kafka's documentation of heartbeat.interval.ms; consumer runs 11"},
		{RuleNewcomer,
			"A newcomer waits for the next poll of everybody who has tasks, but no longer than their max.poll.interval.ms.",
			"the longest time from one poll to the next",
			"GroupMetadataManager, rebalance timeout; recorded runs j, k1b; consumer runs 06"},
		{RuleStatic,
			"A static member that is gone is noticed after its session; one that hangs says nothing when its poll clock runs out, so its session follows.",
			"max.poll.interval.ms + session.timeout.ms",
			"KIP-345; recorded runs t1, t2; consumer runs 02b, 15"},
	}
}
