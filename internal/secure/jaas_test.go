package secure

import (
	"strings"
	"testing"
)

func TestJAAS(t *testing.T) {
	const plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	for _, c := range []struct{ in, user, password, err string }{
		{plainModule + `username="alice" password="secret";`, "alice", "secret", ""},
		{plainModule + `password='s' username=alice ;`, "alice", "'s'", ""},
		{"\n  " + plainModule + "\n\tusername=\"alice b\" serviceName=kafka password=\"a;\\\"b\\\\\"; ", "alice b", `a;"b\`, ""},
		{"ScramLoginModule required username=u password=;", "u", "", ""},
		{plainModule + `username="alice" password="secret"`, "", "", "semicolon"},
		{plainModule + `username="alice" password="secret;`, "", "", "semicolon"},
		{plainModule + `username="a" password="s"; more`, "", "", "nothing after"},
		{plainModule + `password="secret";`, "", "", "no username"},
		{plainModule + `alice secret;`, "", "", "NAME=VALUE"},
		{`username="alice" password="secret";`, "", "", "login module"},
		{"", "", "", "semicolon"},
	} {
		user, password, err := parseJAAS(c.in)
		if err == nil && c.err == "" && user == c.user && password == c.password {
			continue
		}
		if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %q, %v; want %q, %q, %q", c.in, user, password, err, c.user, c.password, c.err)
		}
	}
}

func FuzzJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a\"b";`)
	f.Fuzz(func(t *testing.T, s string) {
		user, password, err := parseJAAS(s)
		if err == nil && (user == "" || len(user)+len(password) > len(s)) {
			t.Fatalf("%q: %q, %q", s, user, password)
		}
	})
}
