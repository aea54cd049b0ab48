package secure

import (
	"maps"
	"strings"
	"testing"
)

// TestJAAS: what JaasConfig of Kafka 4.2 makes of each, which was asked for all
// that is not about the name of the user.
func TestJAAS(t *testing.T) {
	const module = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	for _, c := range []struct{ in, user, password, err string }{
		{module + `username="alice" password="secret";`, "alice", "secret", ""},
		{module + `password='s' username=alice ;`, "alice", "s", ""},
		{module + `username='a"b' password="c'd";`, `a"b`, "c'd", ""},
		{module + `username="a" password='it\'s; "q" \\\\';`, "a", `it's; "q" \\`, ""},
		{"\n  " + module + "\n\tusername=\"alice b\" serviceName=kafka password=\"a;\\\"b\\\\\"; ", "alice b", `a;"b\`, ""},
		{"x.LoginModule OPTIONAL 'username' = a.b-c_d$1 \"password\"\n=\n'';", "a.b-c_d$1", "", ""},
		{module + "username=\u65e5\u672c" + ` password="\n\t\101\1012\779\q";`, "\u65e5\u672c", "\n\tAA2?9q", ""},
		{"/* one */ " + module + "// two\nusername=u / three\npassword=p/four\n;", "u", "p", ""},
		{module + `username=u password=first password=last;`, "u", "last", ""},
		{module + "username=u password=\"a line is enough\n;", "u", "a line is enough", ""},
		{module + "username=u password=\"\xff\";", "u", "\xff", ""}, // Java cannot be asked
		{"ScramLoginModule required username=u password=;", "", "", "NAME=VALUE"},
		{module + `username=u password=12secret;`, "", "", "in quotes"},
		{module + `username=u password=secret!;`, "", "", "in quotes"},
		{module + `username=u password=-secret;`, "", "", "in quotes"},
		{module + `username=u password="se"cret;`, "", "", "in quotes"},
		{module + `username=u password=sec/ret;`, "", "", "comment"},
		{module + `username="alice" password="secret"`, "", "", "semicolon"},
		{module + `username="alice" password="secret;`, "", "", "semicolon"},
		{module + `username="a" password="s"; more`, "", "", "nothing after"},
		{module + `alice secret;`, "", "", "NAME=VALUE"},
		{`PlainLoginModule username="alice" password="secret";`, "", "", "flag"},
		{`username="alice" password="secret";`, "", "", "login module"},
		{"", "", "", "login module"},
		{module + `password="secret";`, "", "", "no username"},
	} {
		l, err := parseJAAS(c.in)
		if err == nil && c.err == "" && l == (login{user: c.user, password: c.password}) {
			continue
		}
		if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %+v, %v; want %q, %q, %q", c.in, l, err, c.user, c.password, c.err)
		}
	}
	l, err := parseJAAS(`ScramLoginModule required username="id" password="hmac" tokenauth="True";`)
	if err != nil || !l.token {
		t.Errorf("delegation token: %v, %v", l, err)
	}
}

func FuzzJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a\"b";`)
	f.Add("x.LoginModule REQUISITE /* c */ username='a\\'b' // d\n password=\"\\101\\77\" n=-1.5 ;")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseJAAS(s)
		if err == nil && (l.user == "" || len(l.user)+len(l.password) > len(s)) {
			t.Fatalf("%q: %+v", s, l)
		}
	})
}

// TestLogin: what is wrong with a login is said when it is put together, not by
// the broker.
func TestLogin(t *testing.T) {
	for _, c := range []struct {
		set map[string]string
		err string
	}{
		{map[string]string{"sasl.jaas.config": "x.LoginModule required username=u password=p;"}, ""},
		{map[string]string{"sasl.username": "u", "sasl.password": "p"}, ""},
		{map[string]string{"sasl.jaas.config": "x.LoginModule required username=u;"}, "sasl.jaas.config: it has no password"},
		{map[string]string{"sasl.jaas.config": "x.LoginModule required username=u password=p;", "sasl.password": "p"}, "are both set"},
		{map[string]string{"sasl.jaas.config": "x.LoginModule required username=u password=p;", "sasl.username": "u", "sasl.password": "p"}, "are both set"},
		{nil, "needs sasl.jaas.config"},
	} {
		set := map[string]string{"security.protocol": "SASL_PLAINTEXT"}
		maps.Copy(set, c.set)
		transport, err := New(set)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && transport.sasl == nil {
			t.Errorf("%v: %v, want %q", c.set, err, c.err)
		}
	}
}
