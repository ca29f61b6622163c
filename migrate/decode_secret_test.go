package migrate

import (
	"fmt"
	"strings"
	"testing"
)

// literal is base with every DSN written out.
func literal() string {
	dsn := "postgres://app:" + password + "@host/"
	return strings.NewReplacer("${SOURCE}", dsn+"s", "${DB0}", dsn+"0", "${DB1}", "host=h password="+password, "${ADMIN}", "user=u password='"+password+"'").Replace(base)
}

// TestDamagedSpecNeverShowsItsDSN cuts, deletes and inserts at every place. What
// an error says must not depend on where a DSN ended up.
func TestDamagedSpecNeverShowsItsDSN(t *testing.T) {
	if _, failures := decode(t, literal()); failures != nil {
		t.Fatal(failures)
	}
	const text = "source: {dsn: postgres://a:" + password + "@h/s}\n" +
		"databases:\n  db0:\n    dsn: host=h password=" + password + "\n  db1: {dsn: \"user=u password='" + password + "'\"}\n"
	refused := 0
	check := func(what string, at int, damaged string) {
		_, err := Decode("shardctl.yaml", []byte(damaged), environment)
		if err == nil {
			return
		}
		refused++
		if out := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(out, "pl4nted") || strings.Contains(out, "passw0rd") {
			t.Fatalf("%s at byte %d: %v", what, at, err)
		}
	}
	for at := range text {
		check("cut", at, text[:at])
		check("delete", at, text[:at]+text[at+1:])
		for _, insert := range []string{"\n", ":", ": ", " ", "\"", "'", "{", "}", "[", ",", "#", " #", "|", "&", "*", "!", "%", "-", "\t", "${", "?"} {
			check("insert "+insert, at, text[:at]+insert+text[at:])
		}
	}
	if refused < 3000 {
		t.Errorf("only %d damaged specs were refused", refused)
	}
}

func TestSecretsInWrongPlacesAreNotShown(t *testing.T) {
	url := "postgres://app:" + password + "@host/db"
	for _, text := range []string{
		url + ": x\n",
		"'" + url + "': {a: b}\n",
		"password=" + password + ": x\n",
		"source: " + url + "\n",
		"databases: {db0: '" + url + "'}\n",
		"databases: {'" + url + "': {dsn: a}}\n",
		"migration: " + url + "\n",
		"source: {dsn: host=h password=half," + password + "}\n",
		"shards: {count: '" + url + "', schema: '" + url + "', placement: {'" + url + "': '" + url + "'}}\n",
		"tables: [{name: '" + url + "', key: {from: '" + url + "', via: '" + url + "'}}, {name: '" + url + "', key: a}]\n",
		"topology: [{driver: '" + url + "'}, {driver: file, '" + url + "': x}]\n",
		"tables:\n  - name: ${SOURCE}\n    key: ${SOURCE}\n  - name: ${SOURCE}\n    as: ${SOURCE}\n",
		"migration: ${X}\nshards: {count: ${X}, schema: ${X}, hash: ${X}, placement: {db0: ${X}}}\ncapture: {engine: ${X}, log_soft_limit: ${X}}\n",
	} {
		if _, failures := decode(t, text); failures == nil {
			t.Errorf("decoded: %s", text)
		}
	}
}
