package blueprint

// PolicyRoles are the roles that policies are for, some more than once.
func (b *Blueprint) PolicyRoles() (out []string) {
	for _, t := range b.Tables {
		for _, p := range t.Policies {
			out = append(out, p.Roles...)
		}
	}
	return out
}

// Roles are those that own something or have a privilege, some more than once; "" is
// PUBLIC.
func (b *Blueprint) Roles() (out []string) {
	for _, t := range b.Tables {
		for _, r := range t.Relations {
			out = append(out, r.Owner)
		}
	}
	for _, s := range b.Sequences {
		out = append(out, s.Owner)
	}
	for _, needs := range [][]Need{b.Needs, b.Handlers} {
		for _, n := range needs {
			out = append(out, n.Owner)
		}
	}
	for _, g := range b.Grants {
		out = append(out, g.Grantee)
	}
	return out
}
