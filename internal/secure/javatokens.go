package secure

import (
	"strings"
	"unicode/utf8"
)

// javaTokens cuts a text into tokens as java.io.StreamTokenizer does in the
// state in which JaasConfig of Kafka 4.2 has it: both kinds of comments, - _ $
// in words, everything else as it is when it is new. So a / begins a comment
// wherever it stands outside of a word's quotes, digits at the beginning are a
// number and no word, and quotes are ' or ".
type javaTokens struct {
	text string
	at   int
}

// token is a word, a text in quotes (kind is the quote), a number, the end, or
// a character that means itself.
type token struct {
	kind rune
	text string // of words and quoted texts
}

const (
	endToken    rune = -1
	numberToken rune = -2
	wordToken   rune = -3
)

// isText says whether a token has a text; that may be empty.
func (t token) isText() bool { return t.kind == wordToken || t.kind == '"' || t.kind == '\'' }

// peek is the next character and its length, endToken at the end.
func (j *javaTokens) peek() (c rune, n int) {
	if j.at == len(j.text) {
		return endToken, 0
	}
	return utf8.DecodeRuneInString(j.text[j.at:])
}

func (j *javaTokens) read() rune {
	c, n := j.peek()
	j.at += n
	return c
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

// inWord are the letters as StreamTokenizer has them: also everything from U+00A0.
func inWord(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0xA0 || c == '-' || c == '_' || c == '$' || isDigit(c) || c == '.'
}

func (j *javaTokens) next() token {
	for {
		from := j.at
		c := j.read()
		switch {
		case c == endToken:
			return token{kind: endToken}
		case c <= ' ':
		case c == '/':
			j.comment()
		case c == '"' || c == '\'':
			return token{c, j.quoted(c)}
		case c == '-':
			if d, _ := j.peek(); d != '.' && !isDigit(d) {
				return token{kind: '-'}
			}
			j.number(j.read())
			return token{kind: numberToken}
		case isDigit(c) || c == '.':
			j.number(c)
			return token{kind: numberToken}
		case inWord(c):
			for d, n := j.peek(); inWord(d); d, n = j.peek() {
				j.at += n
			}
			return token{wordToken, j.text[from:j.at]}
		default:
			return token{kind: c}
		}
	}
}

// number passes over the rest of a number: digits with one dot among them.
func (j *javaTokens) number(first rune) {
	dot := first == '.'
	for d, n := j.peek(); isDigit(d) || d == '.' && !dot; d, n = j.peek() {
		dot = dot || d == '.'
		j.at += n
	}
}

// comment passes over what a / begins: to the end of the line, or to */ after
// /*. A / before the end of a line takes the next line with it.
func (j *javaTokens) comment() {
	end := -1
	switch c := j.read(); c {
	case '*':
		if end = strings.Index(j.text[j.at:], "*/"); end >= 0 {
			end += len("*/")
		}
	default:
		end = strings.IndexAny(j.text[j.at:], "\r\n")
	}
	if end < 0 {
		end = len(j.text) - j.at
	}
	j.at += end
}

// quoted is the text up to the closing quote, or to the end of the line, which
// closes it too.
func (j *javaTokens) quoted(quote rune) string {
	var out []byte
	for {
		from := j.at
		c, n := j.peek()
		if c == '\n' || c == '\r' || c == endToken {
			return string(out)
		}
		j.at += n
		switch c {
		case quote:
			return string(out)
		case '\\':
			out = j.escaped(out)
		default:
			out = append(out, j.text[from:j.at]...)
		}
	}
}

// escaped appends what a backslash and the characters behind it stand for: a
// control character, up to three octal digits, or the character itself.
func (j *javaTokens) escaped(out []byte) []byte {
	from := j.at
	c := j.read()
	if i := strings.IndexRune("abfnrtv", c); i >= 0 {
		return append(out, "\a\b\f\n\r\t\v"[i])
	}
	if c < '0' || c > '7' {
		return append(out, j.text[from:j.at]...)
	}
	code, most := c-'0', 2
	if c <= '3' {
		most = 3
	}
	for d, n := j.peek(); '0' <= d && d <= '7' && j.at-from < most; d, n = j.peek() {
		code = code<<3 + d - '0'
		j.at += n
	}
	return utf8.AppendRune(out, code)
}
