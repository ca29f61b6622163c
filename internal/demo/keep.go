package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/shardctl/shardctl/internal/localpg"
)

// Place is where a kept demo lives.
type Place struct {
	Folder    string   `json:"folder"` // spec, topology, ledger and the script that ends it
	Spec      string   `json:"spec"`
	Ledger    string   `json:"ledger"` // JSON lines, one for each row that was acknowledged
	Source    string   `json:"source"`
	Databases []string `json:"databases"`
	Pooler    string   `json:"pooler"` // of the entry of shard 0
	Key       string   `json:"key"`    // of a workspace, to try route with
	Stop      string   `json:"stop"`   // ends the servers and removes everything
}

// keep lets servers and files outlive this process and says where they are.
func (j *journey) keep(ctx context.Context) (*Place, error) {
	p := &Place{Folder: j.folder.Path(), Spec: j.spec, Ledger: j.folder.File("ledger.jsonl"), Source: j.source.DSN("postgres"),
		Pooler: j.bouncer.DSN("app_000"), Key: j.workspace.String(), Stop: "sh " + localpg.ShellWord(j.folder.File("stop.sh"))}
	if err := j.book.save(p.Ledger); err != nil {
		return nil, err
	}
	stops := []string{}
	for _, s := range j.servers() {
		if err := s.Keep(ctx); err != nil {
			return nil, fmt.Errorf("keep the demo: %w", err)
		}
		stops = append(stops, s.StopCommand())
	}
	for _, t := range j.targets {
		p.Databases = append(p.Databases, t.DSN("postgres"))
	}
	stops = append(stops, "rm -rf "+localpg.ShellWord(p.Folder))
	script := "#!/bin/sh\n# Ends the servers of a kept demo and removes everything of it.\n" + strings.Join(stops, "\n") + "\n"
	err := os.WriteFile(j.folder.File("stop.sh"), []byte(script), 0o700)
	return p, errors.Join(err, j.folder.Keep())
}
