package arrows

import (
	"fmt"
	"slices"
	"strings"
)

// Graph says for each package, by its full import path, what it imports itself.
type Graph map[string][]string

// Violations lists the imports that break a rule, each with the way there.
func (g Graph) Violations(rules []Rule) []string {
	var found []string
	for _, rule := range rules {
		for _, from := range g.packages() {
			if !rule.binds(from) {
				continue
			}
			for _, way := range g.ways(from, rule) {
				found = append(found, fmt.Sprintf("%s (%s)", strings.Join(way, " → "), rule.Why))
			}
		}
	}
	return found
}

// packages lists those of this module, in order.
func (g Graph) packages() []string {
	var own []string
	for path := range g {
		if within(path, Module) {
			own = append(own, path)
		}
	}
	slices.Sort(own)
	return own
}

// ways gives the shortest way from a package to each one that the rule forbids
// it. A forbidden package is not looked into: what it imports is its own affair.
func (g Graph) ways(from string, rule Rule) [][]string {
	var ways [][]string
	seen := map[string]bool{from: true}
	queue := [][]string{{from}}
	for len(queue) > 0 {
		way := queue[0]
		queue = queue[1:]
		for _, next := range g[way[len(way)-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(way), next)
			if rule.forbids(next) {
				ways = append(ways, longer)
				continue
			}
			queue = append(queue, longer)
		}
	}
	return ways
}

// binds reports whether the rule is about the package.
func (r Rule) binds(path string) bool {
	return (len(r.From) == 0 || among(path, r.From)) && !among(path, r.Except)
}

// forbids reports whether the packages that the rule binds must not reach path.
func (r Rule) forbids(path string) bool {
	if slices.Contains(r.Never, ".") && within(path, Module) {
		return !among(path, r.From)
	}
	return among(path, r.Never)
}

func among(path string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return within(path, fullPath(name)) })
}

// fullPath completes the name of a package of this module; a host has a dot.
func fullPath(name string) string {
	if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
		return name
	}
	return Module + "/" + name
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}
