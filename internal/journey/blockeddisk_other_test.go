//go:build !linux

package journey

// disks is for systems that have a device which is always full.
var disks []obstacle
