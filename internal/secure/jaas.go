package secure

import (
	"errors"
	"strings"
)

func jaas(s string) error {
	_, _, err := parseJAAS(s)
	return err
}

// parseJAAS reads the user and the password out of a JAAS configuration: the
// class of a login module, a flag, options NAME=VALUE, and a semicolon. Values
// may be quoted, with backslashes before quotes and backslashes. No error
// repeats the text: it holds a password.
func parseJAAS(s string) (user, password string, err error) {
	words, err := jaasWords(s)
	if err != nil {
		return "", "", err
	}
	if len(words) < 2 || !strings.HasSuffix(words[0], "LoginModule") {
		return "", "", errors.New("want a login module and a flag first: org.apache.kafka.common.security.plain.PlainLoginModule required ...;")
	}
	for _, w := range words[2:] {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case !ok:
			return "", "", errors.New("want NAME=VALUE after the flag")
		case name == "username":
			user = value
		case name == "password":
			password = value
		}
	}
	if user == "" {
		return "", "", errors.New("it has no username")
	}
	return user, password, nil
}

// jaasWords splits at blanks outside of quotes, up to the semicolon.
func jaasWords(s string) (words []string, err error) {
	var word []byte
	quoted, open := false, false
	end := func() {
		if open {
			words = append(words, string(word))
		}
		word, open = nil, false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quoted && i+1 < len(s):
			i++
			word = append(word, s[i])
		case c == '"':
			quoted, open = !quoted, true
		case quoted:
			word = append(word, c)
		case c == ';':
			end()
			if strings.TrimSpace(s[i+1:]) != "" {
				return nil, errors.New("want one login module, and nothing after its semicolon")
			}
			return words, nil
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end()
		default:
			word, open = append(word, c), true
		}
	}
	return nil, errors.New("want a semicolon at the end, outside of quotes")
}
