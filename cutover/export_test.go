package cutover

// OnReach sets what is told of both ends of every step's work in this process.
func OnReach(fn func(step string, done bool)) { reached = fn }

// CourseOf names the steps of a switch in their order.
func CourseOf(d Direction) (names []string) {
	for _, p := range new(window).course(d) {
		names = append(names, p.name)
	}
	return names
}
