package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// column is a heading with the least width that Kafka's tools give it.
type column struct {
	name  string
	width int
}

// table is rows under headings, padded as Kafka's tools pad them: to the least
// width of the column or its widest value. The last column is not padded.
type table struct {
	columns []column
	rows    [][]string
}

// add appends a row. An empty cell is shown as "-", as Kafka shows what it
// does not know.
func (t *table) add(cells ...string) {
	for i := range cells {
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.columns))
	heading := make([]string, len(t.columns))
	for i, c := range t.columns {
		heading[i] = c.name
		widths[i] = max(c.width, utf8.RuneCountInString(c.name))
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var out strings.Builder
	for _, row := range append([][]string{heading}, t.rows...) {
		for i, cell := range row {
			out.WriteString(cell)
			if i < len(row)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
			}
		}
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
