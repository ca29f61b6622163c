package pgcontainer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/testcontainers/testcontainers-go"
)

const (
	imageVariable = "SHARDCTL_TEST_IMAGE"
	defaultImage  = "postgres:17-alpine"
	superuser     = "postgres"
	port          = "5432/tcp"
	// patience bounds a start, the first pull of the image included.
	patience = 3 * time.Minute
)

// Server is a PostgreSQL server in a container.
type Server struct {
	container *testcontainers.DockerContainer
	address   string // host:port
	password  string
}

// Start starts a server with the settings ("name=value", as in postgresql.conf)
// and waits until it answers.
func Start(ctx context.Context, settings []string) (_ *Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The library panics where it finds no engine.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("find a container engine: %v", r)
		}
	}()
	image := os.Getenv(imageVariable)
	if image == "" {
		image = defaultImage
	}
	// The engine may publish the port to the network: the password is not known.
	s := &Server{password: uuid.NewString()}
	s.container, err = testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts(port),
		testcontainers.WithEnv(map[string]string{"POSTGRES_USER": superuser, "POSTGRES_PASSWORD": s.password}),
		testcontainers.WithCmd(command(settings)...),
	)
	if err == nil {
		s.address, err = s.container.PortEndpoint(ctx, port, "")
	}
	if err == nil {
		err = s.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start image %s: %w", image, err), s.Close())
	}
	return s, nil
}

func command(settings []string) []string {
	words := []string{"postgres", "-c", "fsync=off", "-c", "full_page_writes=off"}
	for _, setting := range settings {
		words = append(words, "-c", setting)
	}
	return words
}

// wait polls until the server answers at the address that clients use: the port
// is open before anybody listens behind it.
func (s *Server) wait(ctx context.Context) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := pgconn.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-poll.C:
		}
	}
}

// DSN says how the superuser reaches a database of the server.
func (s *Server) DSN(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password), Host: s.address,
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Close ends the server and removes its container and volumes.
func (s *Server) Close() error {
	if err := testcontainers.TerminateContainer(s.container); err != nil {
		return fmt.Errorf("remove container at %s: %w", s.address, err)
	}
	return nil
}
