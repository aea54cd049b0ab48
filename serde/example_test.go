package serde_test

import (
	"fmt"

	"github.com/rondo-streams/rondo/serde"
)

func ExampleJSON() {
	type score struct{ Severity float64 }
	s := serde.JSON[score]()
	data, _ := s.Encode(nil, score{9.8})
	fmt.Println(s.Name(), string(data))
	_, err := s.Decode([]byte("not JSON"))
	fmt.Println(err)
	// Output:
	// json(serde_test.score) {"Severity":9.8}
	// decode json(serde_test.score) from 8 bytes "not JSON": invalid character 'o' in literal null (expecting 'u')
}
