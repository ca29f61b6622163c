package pgbouncer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/topology"
)

// BenchmarkRewrite is the part of a Commit that is ours while clients are held.
func BenchmarkRewrite(b *testing.B) {
	var file strings.Builder
	r := &Router{migration: "blocks", setPath: true}
	doc := topology.Topology{Epoch: 2}
	for n := range 480 {
		name := fmt.Sprintf("app_%03d", n)
		fmt.Fprintf(&file, "%s = host=127.0.0.1 port=5432 dbname=app pool_size=5\n", name)
		r.entries = append(r.entries, entry{name: name, shard: n, to: "primary"})
		doc.Shards = append(doc.Shards, topology.Route{Shard: n, Host: "h", Port: 1, DBName: "x", SearchPath: []string{fmt.Sprintf("shard_%03d", n), "public"}})
	}
	content := []byte(file.String())
	for b.Loop() {
		if _, err := r.rewrite("file", content, doc); err != nil {
			b.Fatal(err)
		}
	}
}
