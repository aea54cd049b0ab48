package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

type helpCmd struct {
	Topic string `arg:"" optional:"" help:"exit-codes or environment."`
}

const exitCodesPage = `Exit codes of every rondo command:

  0    ok
  1    the operation failed, or a check did not hold
  2    usage or configuration error
  3    findings at or above --fail-on
  4    not found: topic, group, file
  5    unreachable, or no answer in time
  130  interrupted
`

const environmentPage = `Where a value comes from, first match wins:

  1. the flag, or -X name=value
  2. the environment
  3. the file given with --properties
  4. the default

RONDO_BOOTSTRAP_SERVER is --bootstrap-server; KAFKA_BOOTSTRAP_SERVERS and
BOOTSTRAP_SERVERS are read when it is not set. A Kafka configuration name
becomes a variable by RONDO_, upper case and underscores for dots:
RONDO_MAX_POLL_INTERVAL_MS is max.poll.interval.ms. Where a name itself has an
underscore write two, where it has a dash write three.
`

func (c *helpCmd) Run(t *terminal) error {
	pages := map[string]string{"exit-codes": exitCodesPage, "environment": environmentPage}
	topics := slices.Sorted(maps.Keys(pages))
	page, ok := pages[c.Topic]
	switch {
	case c.Topic == "":
		page = "rondo --help lists the verbs, rondo VERB --help their flags.\nPages: rondo help " + strings.Join(topics, ", rondo help ") + "\n"
	case !ok:
		return fail(exitUsage, fmt.Errorf("no page %q", c.Topic), "pages: %s", strings.Join(topics, ", "))
	}
	_, err := fmt.Fprint(t.out, page)
	return err
}
