package broker

import "iter"

// nearest is the hint for a name that nobody knows: the known name that is
// fewest edits away, or nothing when none is near.
func nearest(name string, known iter.Seq[string]) string {
	best, distance := "", len(name)/2+1
	for k := range known {
		if d := edits(name, k); d < distance || d == distance && best != "" && k < best {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// edits is the Levenshtein distance of two names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
