package spell

import "iter"

// Nearest is the known name that is the fewest edits away from word, the first
// by alphabet among several; "" when nothing is known. It is what was
// probably meant when at most three letters or half of the word would have to
// change.
func Nearest(word string, known iter.Seq[string]) (best string, meant bool) {
	word = word[:min(len(word), 100)] // the word is a user's: its length costs time
	least := -1
	for name := range known {
		if d := edits(word, name); least < 0 || d < least || d == least && name < best {
			best, least = name, d
		}
	}
	return best, least >= 0 && least <= max(3, len(word)/2)
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
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
