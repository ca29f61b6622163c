package migrate

// nearest gives the word that was probably meant, or nothing: it is at most two
// slips away and at most a third of its letters.
func nearest(word string, among []string) string {
	best, distance := "", 3
	for _, candidate := range among {
		if d := slips(word, candidate); d < distance && 3*d <= max(len(candidate), 3) {
			best, distance = candidate, d
		}
	}
	return best
}

// slips counts letters to insert, delete, replace or swap with their neighbour.
func slips(a, b string) int {
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return 3
	}
	before, previous := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := previous[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, previous[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous = previous, row
	}
	return previous[len(b)]
}
