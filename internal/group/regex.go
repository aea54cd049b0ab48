package group

import (
	"regexp"
	"slices"
	"time"
)

// regexPause is the shortest time between two looks at all topics for the
// expressions of one group. The first look of a new expression does not wait.
const regexPause = time.Second

// compile makes the expression of a subscription, which must match the whole
// name of a topic. Go's syntax is RE2's, as Kafka's is.
func compile(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + expr + `)$`)
}

// maybeEraseRegex forgets an expression that nobody uses any more.
func (c *consumer) maybeEraseRegex(regex string) {
	if c.regexes[regex] == nil {
		return
	}
	for _, m := range c.members {
		if m.meta.regex == regex {
			return
		}
	}
	c.eraseRegex(regex)
}

// expressions lists those that members use, sorted.
func (c *consumer) expressions() []string {
	var all []string
	for _, m := range c.members {
		if m.meta.regex != "" {
			all = append(all, m.meta.regex)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// resolveSoon looks a new expression up after the request at hand has been
// answered: the answer to a join does not wait for a walk over all topics.
func (c *consumer) resolveSoon() { c.s.alarms.set(&c.regexAlarm, c.s.now) }

// topicsChanged looks expressions up again.
func (c *consumer) topicsChanged() {
	for id := range c.owners {
		if c.s.topics.byID[id] == nil && !slices.ContainsFunc(c.owners[id], func(m *consumerMember) bool { return m != nil }) {
			delete(c.owners, id)
		}
	}
	if c.regexAlarm.place > 0 || c.regexSeen == c.s.topics.version || len(c.expressions()) == 0 {
		return
	}
	at := c.regexAt.Add(regexPause)
	if at.Before(c.s.now) {
		at = c.s.now
	}
	c.s.alarms.set(&c.regexAlarm, at)
}

// resolve matches expressions with topics, and begins a new epoch when that
// has another outcome than before.
func (c *consumer) resolve() {
	if c.s.groups[c.g.id] != c.g || c.g.members != membership(c) {
		return // deleted, or of another kind meanwhile
	}
	all := c.regexSeen != c.s.topics.version
	c.regexSeen, c.regexAt = c.s.topics.version, c.s.now
	var first *consumerMember
	changed := false
	for _, expr := range c.expressions() {
		had := c.regexes[expr]
		if had != nil && !all {
			continue
		}
		topics := c.s.topics.matching(expr)
		if had != nil && slices.Equal(had.topics, topics) {
			continue
		}
		changed = true
		if had == nil && first == nil {
			first = c.userOf(expr)
		}
		c.writeRegex(expr, &resolved{topics, c.s.topics.version, c.s.now.UnixMilli()})
	}
	if !changed {
		return
	}
	if first != nil {
		c.bump(c.whyResolved(first))
	} else {
		c.bump(c.whyTopics())
	}
}

// userOf is the first member, by id, that uses an expression.
func (c *consumer) userOf(expr string) *consumerMember {
	for _, m := range c.sorted() {
		if m.meta.regex == expr {
			return m
		}
	}
	return nil
}

// matching lists the topics whose whole name an expression matches, sorted.
func (im *Image) matching(expr string) []string {
	topics := []string{}
	re, err := compile(expr)
	if err != nil {
		return topics // of a log that somebody else has written
	}
	for name := range im.byName {
		if re.MatchString(name) {
			topics = append(topics, name)
		}
	}
	slices.Sort(topics)
	return topics
}
