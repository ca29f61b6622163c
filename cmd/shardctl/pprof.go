package main

import (
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/shardctl/shardctl/migrate"
)

// serveProfiles answers Go's profiler on an address of this machine until the process
// ends. Without --pprof there is none.
func (a *app) serveProfiles() error {
	if a.Pprof == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(a.Pprof)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return migrate.Usage("usage.flag", "--pprof", "it is no address of this machine alone", "give one such as 127.0.0.1:6060")
	}
	listener, err := net.Listen("tcp", a.Pprof)
	if err != nil {
		return migrate.Broken("pprof.listen", "--pprof "+a.Pprof, "the profiler cannot listen", "give another port", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	go func() { _ = http.Serve(listener, mux) }() // ends with the process
	return nil
}
