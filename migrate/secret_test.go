package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"
)

func TestSecretFormatsAsNothing(t *testing.T) {
	const password = "pl4nted-passw0rd"
	spec := &Spec{Source: Source{DSN: password, ReadDSN: password}, Databases: []Database{{Name: "db0", DSN: password}}}
	secret := Secret(password)
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%t", "%!"} {
		out = append(out, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, &secret), fmt.Sprintf(verb, *spec), fmt.Sprintf(verb, spec.Source),
			fmt.Sprintf(verb, []Secret{secret}), fmt.Sprintf(verb, map[Secret]Secret{secret: secret}))
	}
	out = append(out, fmt.Sprint(secret), fmt.Errorf("connect %s", secret).Error())
	j, err := json.Marshal(map[string]any{"spec": spec, "secret": secret, "pointer": &secret})
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "dsn", secret, "spec", spec.Source)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "dsn", secret, "spec", spec.Source)
	zl := zerolog.New(&log)
	zl.Info().Interface("dsn", secret).Stringer("s", secret).Any("spec", spec).Msg("x")
	out = append(out, string(j), string(y), log.String())
	all := strings.Join(out, "\n")
	if strings.Contains(all, password) || strings.Contains(all, fmt.Sprintf("%x", password)) || strings.Contains(all, fmt.Sprintf("%X", password)) {
		t.Errorf("the password shows in:\n%s", all)
	}
	if secret.String() != "***" || secret.GoString() != "***" || secret.Reveal() != password {
		t.Error("a secret does not say *** or does not reveal its value")
	}
	if string(j) == "" || !strings.Contains(string(j), `"***"`) || !strings.Contains(string(y), "***") {
		t.Errorf("*** is missing in %s or %s", j, y)
	}
}
