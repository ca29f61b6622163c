// Package wholefile reads and replaces a file that others read: as a whole or not
// at all, by one writer at a time, and with the owner and mode that it had.
//
// It owns the temporary files and the lock file beside it (<file>.shardctl.lock,
// empty, left there: removing it would let two writers hold "the" lock). A file on
// another host is reached by a command, which then has to replace it as a whole.
//
// Killed before the rename it leaves the file as it was and perhaps a temporary one,
// which the next replacement removes; killed after it the file is the new one. Stopped
// before the rename it keeps nobody waiting, and when it goes on it makes its change anew:
// clients may be held until the file leads elsewhere.
package wholefile
