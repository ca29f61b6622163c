package preflight

import "errors"

// errNoReplica ends the probing transaction of a role that may not replicate.
var errNoReplica = errors.New("the role may not set session_replication_role")

func isNoReplica(err error) bool { return errors.Is(err, errNoReplica) }
