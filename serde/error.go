package serde

import "errors"

var (
	errNotUTF8 = errors.New("not UTF-8 text (is it a binary format? then use another serde)")
	errNotBool = errors.New("want one byte, 0 or 1")
	errNotUUID = errors.New("want 36 characters like 123e4567-e89b-12d3-a456-426614174000")
)
