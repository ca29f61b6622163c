package localpg

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// serverAccount is the user that the servers of root run as. Debian's packages
// make it.
const serverAccount = "postgres"

// account is who servers run as: nil stands for the current user.
type account struct{ uid, gid uint32 }

// currentAccount gives nil for an ordinary user, and user postgres for root.
func currentAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(serverAccount)
	if err != nil {
		return nil, fmt.Errorf("servers refuse to run as root, and there is no user %q to run them as (run `useradd --system %s`, or start as an ordinary user): %w",
			serverAccount, serverAccount, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read uid of user %s: %w", serverAccount, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read gid of user %s: %w", serverAccount, err)
	}
	return &account{uid: uint32(uid), gid: uint32(gid)}, nil
}

// own hands a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
