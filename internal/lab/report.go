package lab

import (
	"fmt"
	"html"
	"strings"
)

// reportStyle is that of the page.
const reportStyle = `:root{color-scheme:light dark;--ink:#1d2330;--soft:#6b7280;--line:#d5d9e0;--back:#fff;--good:#2d8a4e;--why:#9a6200;--bad:#c62f3b}
@media (prefers-color-scheme:dark){:root{--ink:#e4e7ec;--soft:#9aa3b2;--line:#3a4150;--back:#14171d;--good:#66c58a;--why:#e3a857;--bad:#f0707b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1000px;margin:2em auto;padding:0 1em}
h2{margin-top:2.2em;border-bottom:1px solid var(--line)}h3{margin:2em 0 .3em}table{border-collapse:collapse;font-size:13px;margin:.6em 0}
td,th{border-bottom:1px solid var(--line);padding:3px 8px;text-align:left;vertical-align:top}th{color:var(--soft);font-weight:500}
.ok::after{content:" \2713";color:var(--good)}.why{color:var(--why)}.bad{color:var(--bad);font-weight:600}.soft{color:var(--soft)}ol{font-size:13px;padding-left:1.6em}
code{font-size:13px}pre{overflow-x:auto;font-size:12px}table{display:block;overflow-x:auto}summary{cursor:pointer;color:var(--soft)}nav a{margin-right:1em}`

// Report writes one page that needs nothing else: every table with its
// pictures.
func Report(tables []*Table) string {
	var b strings.Builder
	b.WriteString("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>Rondo lab</title><style>" + reportStyle + "\n" + pictureStyle + "\n" + memberStyle() + "</style></head><body>\n")
	b.WriteString("<h1>Rondo lab</h1>\n<p>Every run as a row: what the article says, what was predicted in virtual time before the run, what was measured on Rondo with the stream thread of Kafka Streams 4.2 and with Rondo's own loop, and what Apache Kafka 4.2.0 was recorded to do. A check mark: equal to the prediction (counts exactly, times within a second or a hundredth, and what a real machine adds to a scaled run). A number in brackets: different, with the rule below the table. <span class=\"bad\">Red</span>: different without a rule.</p>\n<nav>")
	groups := []struct{ of, name string }{{First, "Runs of the first article"}, {Unmeasured, "What it did not measure"}, {Second, "Claims of the second article"}, {Own, "Others"}}
	for _, g := range groups {
		fmt.Fprintf(&b, "<a href=\"#%s\">%s</a>", g.of, g.name)
	}
	b.WriteString("</nav>\n")
	for _, g := range groups {
		first := true
		for _, t := range tables {
			if t.Scenario.Of != g.of {
				continue
			}
			if first {
				fmt.Fprintf(&b, "<h2 id=\"%s\">%s</h2>\n", g.of, g.name)
				first = false
			}
			t.section(&b)
		}
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func (t *Table) section(b *strings.Builder) {
	s := t.Scenario
	fmt.Fprintf(b, "<h3 id=\"%s\">%s</h3>\n<p class=\"soft\"><code>rondo lab run %s</code></p>\n", html.EscapeString(s.Name), html.EscapeString(s.Title), html.EscapeString(s.Name))
	for _, c := range s.Claims {
		fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(c))
	}
	t.html(b)
	for _, r := range s.Rules {
		fmt.Fprintf(b, "<p><b>Rule.</b> %s</p>\n", html.EscapeString(r))
	}
	b.WriteString(inPage(Timeline(t)))
	if curves := inPage(Curves(t)); curves != "" {
		fmt.Fprintf(b, "<details><summary>Done and committed, and N, over time</summary>\n%s</details>\n", curves)
	}
	fmt.Fprintf(b, "<details><summary>The scenario, and when</summary><pre>%s</pre>", html.EscapeString(string(s.Source)))
	for _, f := range t.Facts {
		if !f.At.IsZero() {
			fmt.Fprintf(b, "<p class=\"soft\">%s: begun %s, one second of the machine was %d of the scenario</p>", html.EscapeString(columnName(f)), f.At.UTC().Format("2006-01-02 15:04:05 UTC"), f.Scale)
		}
	}
	b.WriteString("</details>\n")
}

func (t *Table) html(b *strings.Builder) {
	b.WriteString("<table><tr><th>" + strings.Join(t.heads(), "</th><th>") + "</th></tr>\n")
	var notes []string
	for _, r := range t.Rows {
		fmt.Fprintf(b, "<tr><td>%s</td>", html.EscapeString(r.Text))
		for _, c := range r.Cells {
			class, text := "", html.EscapeString(c.Text)
			switch c.State {
			case Silent:
				text = "<span class=\"soft\">&middot;</span>"
			case Agrees:
				class = "ok"
			case Explained:
				class = "why"
				text += fmt.Sprintf(" [%d]", note(&notes, c.Why))
			case Differs:
				class = "bad"
			}
			fmt.Fprintf(b, "<td class=\"%s\">%s</td>", class, text)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
	if len(notes) > 0 {
		b.WriteString("<ol>")
		for _, n := range notes {
			fmt.Fprintf(b, "<li>%s</li>", html.EscapeString(n))
		}
		b.WriteString("</ol>\n")
	}
}

// inPage is a picture without its style, which the page has once.
func inPage(svg string) string {
	return strings.Replace(svg, "<style>"+pictureStyle+"\n"+memberStyle()+"</style>", "", 1)
}

// note is the number of a text among notes.
func note(notes *[]string, text string) int {
	for i, n := range *notes {
		if n == text {
			return i + 1
		}
	}
	*notes = append(*notes, text)
	return len(*notes)
}
