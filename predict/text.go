package predict

import (
	"fmt"
	"strings"
	"time"
)

// String is the report as rondo predict prints it.
func (r *Report) String() string {
	var b strings.Builder
	s := &r.Settings
	fmt.Fprintf(&b, "%s: %s, %s on %s, call %s", strings.ToUpper(r.Verdict.String()), s.Kind, count(s.Tasks, "task"), count(s.Threads, "thread"), s.Latency)
	if s.Kind == KafkaStreams {
		fmt.Fprintf(&b, ", round %s, N up to %d", short(r.Round), r.MaxN)
	}
	b.WriteString("\n\n")
	r.table(&b)
	if r.Verdict > Safe {
		r.advice(&b)
	}
	if r.Example != "" {
		fmt.Fprintf(&b, "\ncounter-example, %s: lost after %s\n%s", r.Shows, short(r.Lost), r.Example)
	}
	list(&b, "assumed", r.Assumed)
	list(&b, "notes", r.Notes)
	return b.String()
}

func (r *Report) table(b *strings.Builder) {
	fmt.Fprintf(b, "%-18s %-8s %10s %10s %10s  %s\n", "RULE", "VERDICT", "WORST", "LIMIT", "MARGIN", "NOTE")
	for _, bound := range r.Bounds {
		worst, limit, margin := short(bound.Worst), "-", "-"
		if bound.Unknown {
			worst = "unbounded"
		}
		if bound.Limit > 0 {
			limit = short(bound.Limit)
			if !bound.Unknown {
				margin = short(bound.Margin())
			}
		}
		line := fmt.Sprintf("%-18s %-8s %10s %10s %10s  %s", bound.Rule, bound.Verdict, worst, limit, margin, bound.Note)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (r *Report) advice(b *strings.Builder) {
	b.WriteString("\n")
	switch {
	case len(r.Changes) == 0:
		b.WriteString("no single setting makes it better\n")
	default:
		b.WriteString("smallest change first:\n")
		for _, c := range r.Changes {
			fmt.Fprintf(b, "  %-24s %s -> %s: %s; %s\n", c.Knob, c.From, c.To, c.Verdict, c.Cost)
		}
	}
	if len(r.Two) > 0 {
		b.WriteString("safe with two together:\n")
		for _, c := range r.Two {
			fmt.Fprintf(b, "  %-24s %s -> %s; %s\n", c.Knob, c.From, c.To, c.Cost)
		}
	}
	if r.Fastest > 0 {
		fmt.Fprintf(b, "safe as it is with calls of %s\n", short(r.Fastest))
	}
	if len(r.Idle) > 0 {
		fmt.Fprintf(b, "do nothing on their own: %s\n", strings.Join(r.Idle, ", "))
	}
}

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// short is a duration to three or four digits.
func short(d time.Duration) string {
	switch {
	case d == never:
		return "for ever"
	case d >= time.Minute || d <= -time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second || d <= -time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
