package secure

import (
	"errors"
	"strings"
)

// login is who a client says it is.
type login struct {
	user, password string
	token          bool // the user is the id of a delegation token, the password its HMAC (KIP-48)
}

func jaas(s string) error {
	_, err := parseJAAS(s)
	return err
}

// parseJAAS reads the user and the password out of a JAAS configuration: the
// class of a login module, a flag, options NAME=VALUE, and a semicolon. It takes
// what JaasConfig of Kafka 4.2 takes and reads it as that does; the class is
// not looked at any further than that it is one of a login module. No error
// repeats the text: it holds a password.
func parseJAAS(s string) (l login, err error) {
	in := javaTokens{text: s}
	module, flag := in.next(), in.next()
	if !strings.HasSuffix(module.text, "LoginModule") || !isFlag(flag.text) {
		return l, errors.New("want a login module and a flag first: org.apache.kafka.common.security.plain.PlainLoginModule required ...;")
	}
	for {
		name := in.next()
		if name.kind == ';' {
			break
		}
		if name.kind == endToken {
			return l, errors.New("want a semicolon at the end, outside of quotes and comments; a / outside of quotes begins a comment")
		}
		equals := in.next()
		value := in.next()
		if !name.isText() || equals.kind != '=' || !value.isText() {
			return l, errors.New("want NAME=VALUE after the flag, and the value in quotes unless it is letters, digits, _ $ - and . and begins with a letter")
		}
		switch name.text {
		case "username":
			l.user = value.text
		case "password":
			l.password = value.text
		case "tokenauth":
			l.token = strings.EqualFold(value.text, "true")
		}
	}
	if in.next().kind != endToken {
		return l, errors.New("want one login module, and nothing after its semicolon")
	}
	if l.user == "" {
		return l, errors.New("it has no username")
	}
	return l, nil
}

// isFlag knows the flags of JAAS; with one module they all mean the same.
func isFlag(s string) bool {
	switch strings.ToUpper(s) {
	case "REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL":
		return true
	}
	return false
}
